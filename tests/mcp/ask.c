// SPDX-License-Identifier: Apache-2.0
// Questions of a tool to its client: in the legacy era requests of ours on the open stream, in the modern one an answer that is
// not the last, with a state that only we can have made.
#include "fixture.h"

#include "base/id.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

static struct mcp_call *waiting[64];
static uint64_t serial;

static void on_cancel(struct mcp_call *c)
{
	for (size_t i = 0; i < countof(waiting); i++)
		if (waiting[i] == c)
			waiting[i] = NULL;
	answer_content(c, TEXT("cancelled"), true);
}

void ask_legacy(struct mcp_call *c, const char *method, const char *params)
{
	size_t slot = serial++ % countof(waiting);
	auto_buf struct buf b = BUF_INIT(1 << 16);
	if (!c->session || waiting[slot]) {
		answer_content(c, TEXT("there is nobody to ask"), true);
		return;
	}
	waiting[slot] = c;
	c->on_cancel = on_cancel;
	buf_fmt(&b, "{\"jsonrpc\":\"2.0\",\"id\":\"ask-%zu\",\"method\":\"%s\",\"params\":%s}", slot, method, params);
	mcp_message_send(c, &b);
}

void ask_on_response(const char *session, const struct mcp_message *m)
{
	uint64_t slot;
	const char *id = json_is_string(m->id) ? json_string_value(m->id) : "";
	auto_buf struct buf b = BUF_INIT(1 << 16), text = BUF_INIT(1 << 16);
	struct jsonw w = {.b = &b};
	if (!str_has_prefix(id, "ask-") || str_to_u64(str_of(id + 4), 0, countof(waiting) - 1, &slot))
		return;
	struct mcp_call *c = waiting[slot];
	if (!c || strcmp(c->session, session))
		return;
	waiting[slot] = NULL;
	json_print(&text, json_object_get(m->root, "result") ? json_object_get(m->root, "result") : m->root, 0);
	jw_open(&w, '{');
	jw_kstr(&w, "type", "text");
	jw_kstr(&w, "text", buf_cstr(&text));
	jw_close(&w, '}');
	answer_content(c, buf_cstr(&b), false);
}

// --- modern ---

static const char *key(void)
{
	static char k[KEY_SIZE];
	if (!*k)
		key_make(k);
	return k;
}

// Bound to the tool; the key lives as long as the process.
static char *mac(struct mcp_call *c, const char *state)
{
	char hex[SHA256_HEX];
	auto_free char *text = xasprintf("%s\n%s\n%s", key(), json_str(c->m.params, "name"), state);
	sha256_hex(text, strlen(text), hex);
	return xasprintf("%s.%s", state, hex);
}

int ask_state(struct mcp_call *c, char *out, size_t size)
{
	const char *got = mcp_arg(c->m.params, "requestState");
	const char *dot = got ? strchr(got, '.') : NULL;
	if (!got)
		return 0;
	auto_free char *state = xstrndup(got, dot ? (size_t)(dot - got) : strlen(got)), *want = mac(c, state);
	if (strcmp(got, want) || fmt_to(out, size, "%s", state)) {
		mcp_error(c, RPC_PARAMS, 200, "requestState is not ours", NULL);
		return -1;
	}
	return 1;
}

static bool is_answered(const json_t *responses, const struct ask *a)
{
	return json_is_object(json_object_get(responses, a->key));
}

bool ask_modern(struct mcp_call *c, const struct ask *asks, size_t n, const char *state)
{
	const json_t *responses = json_object_get(c->m.params, "inputResponses");
	size_t missing = 0;
	for (size_t i = 0; i < n; i++)
		missing += !is_answered(responses, &asks[i]);
	if (!missing)
		return true;
	struct jsonw w = mcp_result_begin(c, "input_required");
	jw_key(&w, "inputRequests");
	jw_open(&w, '{');
	for (size_t i = 0; i < n; i++) {
		if (is_answered(responses, &asks[i]))
			continue;
		jw_key(&w, asks[i].key);
		jw_open(&w, '{');
		jw_kstr(&w, "method", asks[i].method);
		jw_key(&w, "params");
		jw_raw(&w, asks[i].params);
		jw_close(&w, '}');
	}
	jw_close(&w, '}');
	if (state) {
		auto_free char *sealed = mac(c, state);
		jw_kstr(&w, "requestState", sealed);
	}
	mcp_result_end(c, &w);
	return false;
}

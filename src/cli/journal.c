// SPDX-License-Identifier: Apache-2.0
// log: the journal of a sandbox, as lines for a person or as it is on disk.
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/api.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include <poll.h>
#include <string.h>

#define FOLLOW_MS 200	   // asked again this often, when skepd does not hold the question
#define FOLLOW_WAIT_MS 30000 // which it does at most so long

struct log_opts {
	const char *type;
	bool follow, verify, service, json;
};

static const struct opt log_opts[] = {
	VALUE(OPT_STR, AT(struct log_opts, type), "type", 0, "T",
	      "only events of type T, or whose type starts with T.; net: requests, refusals, secrets"),
	FLAG(AT(struct log_opts, follow), "follow", 'f', "go on with what is added"),
	FLAG(AT(struct log_opts, verify), "verify", 0, "check the chain of hashes instead"),
	FLAG(AT(struct log_opts, service), "service", 0, "of skepd itself: who was refused, which tokens were made"),
	FLAG(AT(struct log_opts, json), "json", 0, "print the lines as they are"),
	OPTS_END,
};

// What the gate and the cell's network have to tell; the other refusals are of system calls and files.
static bool is_net(const json_t *ev)
{
	static const char *const whats[] = {"net",     "dns",	 "connect", "sni",  "address", "request",
					    "secret", "policy", "gate",    "tls", "events"};
	const char *t = json_str(ev, "type"), *what = json_str(ev, "what");
	if (!strcmp(t, "net.request") || !strcmp(t, "secret.used"))
		return true;
	for (size_t i = 0; i < countof(whats) && !strcmp(t, "denied"); i++)
		if (!strcmp(what, whats[i]))
			return true;
	return false;
}

// exec matches exec.start and exec.exit; exec.start only itself. net stands for all about the network.
static bool is_type(const json_t *ev, const char *type)
{
	const char *t = json_str(ev, "type");
	size_t n = type ? strlen(type) : 0;
	if (type && !strcmp(type, "net"))
		return is_net(ev);
	return !type || (!strncmp(t, type, n) && (!t[n] || t[n] == '.'));
}

static void print_member(struct buf *b, const char *key, const json_t *v)
{
	buf_byte(b, ' ');
	out_text(b, key);
	buf_byte(b, '=');
	if (json_is_string(v)) {
		out_text(b, json_string_value(v));
		return;
	}
	auto_buf struct buf text = BUF_INIT(b->max);
	json_print(&text, v, 0);
	out_text(b, buf_cstr(&text));
}

static void print_event(struct buf *b, const json_t *ev)
{
	static const char *const shown[] = {"seq", "time", "prev", "type"}, *const ours[] = {"skepd", "skep-cell", "skep-gate", "local"};
	const char *key;
	json_t *v;
	buf_fmt(b, "%-24.24s  ", json_str(ev, "time"));
	out_text(b, json_str(ev, "type"));
	json_object_foreach((json_t *)ev, key, v)
	{
		bool skip = json_is_null(v);
		for (size_t i = 0; i < countof(shown); i++)
			skip |= !strcmp(key, shown[i]);
		for (size_t i = 0; i < countof(ours) && !strcmp(key, "by"); i++) // a token's name is worth the room
			skip |= !strcmp(json_str(ev, "by"), ours[i]);
		if (!skip)
			print_member(b, key, v);
	}
	buf_byte(b, '\n');
}

static void print_line(const struct log_opts *o, struct str line, struct buf *b)
{
	struct err e;
	if (o->json && !o->type) {
		out_json_raw(b, line.p, line.n);
		return;
	}
	auto_json json_t *ev = json_read(line.p, line.n, &e);
	if (!ev) { // shown rather than hidden: the journal may have been damaged
		buf_str(b, "not an event: ");
		out_text_n(b, line.p, line.n);
		buf_byte(b, '\n');
	} else if (is_type(ev, o->type)) {
		if (o->json)
			out_json_raw(b, line.p, line.n);
		else
			print_event(b, ev);
	}
}

// Prints the whole lines of one answer and moves *at behind them. 1 = there may be more, 0 = the end.
// id NULL: of the service.
static int print_from(struct api *a, const char *id, const struct log_opts *o, unsigned wait_ms, uint64_t *at, struct err *e)
{
	auto_http_reply struct http_reply r = {0};
	auto_buf struct buf b = BUF_INIT(4 * HTTP_BODY_MAX);
	struct str rest, line;
	int more = api_journal(a, id, wait_ms, at, &r, &rest, e);
	if (more <= 0)
		return more;
	while (str_next(&rest, '\n', &line))
		print_line(o, line, &b);
	if (out_flush(&b))
		return err_set(e, ERR_SYSTEM, "output failed");
	return 1;
}

static int print_journal(struct api *a, const char *id, const struct log_opts *o, struct err *e)
{
	unsigned wait = 0;
	for (uint64_t at = 0;;) {
		uint64_t asked = clock_ms();
		int more = print_from(a, id, o, wait, &at, e);
		if (more < 0 || (!more && !o->follow))
			return more;
		if (!more && wait && clock_ms() - asked < FOLLOW_MS)
			poll(NULL, 0, FOLLOW_MS);
		if (!more) {
			wait = FOLLOW_WAIT_MS;
			a->http.on_wait = NULL; // there is nothing to wait for in particular
		}
	}
}

static int verify(const struct call *c, struct api *a, const char *id)
{
	struct err e;
	const struct log_opts *o = c->opts;
	auto_free char *path = id ? api_path("/v1/sandboxes", id, "journal/verify") : xstrdup("/v1/journal/verify");
	auto_json json_t *j = api_json(a, "GET", path, NULL, &e);
	if (!j)
		return out_fail(c, &e);
	bool ok = json_is_true(json_object_get(j, "ok"));
	auto_buf struct buf b = BUF_INIT(8192);
	if (o->json)
		return out_json(j) || !ok;
	if (ok) {
		buf_fmt(&b, "ok: %llu events, the chain is whole\n", (unsigned long long)json_u64(j, "events"));
	} else {
		buf_fmt(&b, "broken at line %llu: ", (unsigned long long)json_u64(j, "line"));
		out_text(&b, json_str(j, "reason"));
		buf_byte(&b, '\n');
	}
	return out_flush(&b) || !ok;
}

static int log_run(const struct call *c)
{
	const struct log_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	if (api_open(&a, &e))
		return out_fail(c, &e);
	if (o->service && (c->n_words || o->follow)) {
		err_set(&e, ERR_INVALID, "--service is no sandbox's, and is not followed");
		return out_usage(c, &e);
	}
	auto_free char *id = o->service ? NULL : c->n_words ? xstrdup(c->words[0]) : api_default_id(&a, &e);
	if (!id && !o->service)
		return out_fail(c, &e);
	if (o->verify)
		return verify(c, &a, id);
	return print_journal(&a, id, o, &e) ? out_fail(c, &e) : 0;
}

const struct cmd cmd_log = {
	.name = "log",
	.args = "[ID]",
	.help = "print the journal of a sandbox: all it did",
	.opts = log_opts,
	.opts_size = sizeof(struct log_opts),
	.max_words = 1,
	.tail = -1,
	.hint = HINT_SANDBOX,
	.run = log_run,
};

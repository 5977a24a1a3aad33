// SPDX-License-Identifier: Apache-2.0
#include "api/mcp_site_int.h"

#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define META "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define REQUEST(method, params) "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":{" params "}}"

static int code_of(const char *text, const struct mcp_headers *h, enum mcp_era *era, const char **version)
{
	struct mcp_message m;
	struct mcp_fault f = {0};
	static char kept[64];
	int rc = mcp_message_read(text, strlen(text), &m, &f) || mcp_message_judge(&m, h, era, version, &f) ? f.code : 0;
	if (!rc && *version) {
		strncpy(kept, *version, sizeof kept - 1);
		*version = kept;
	}
	mcp_message_done(&m);
	return rc;
}

static void messages(void **state)
{
	static const struct {
		const char *text;
		int code;
	} bad[] = {
		{"", RPC_PARSE},
		{"x", RPC_PARSE},
		{"{\"a\":1,\"a\":2}", RPC_PARSE},
		{"[]", RPC_INVALID},
		{"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", RPC_INVALID},
		{"{}", RPC_INVALID},
		{"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", RPC_INVALID},
		{"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", RPC_INVALID},
		{"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", RPC_INVALID},
		{"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", RPC_INVALID},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", RPC_INVALID},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":[]}", RPC_INVALID},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{\"_meta\":1}}", RPC_PARAMS},
		{"{\"jsonrpc\":\"2.0\",\"result\":{}}", RPC_INVALID},
	};
	struct mcp_message m;
	struct mcp_fault f;
	(void)state;
	for (size_t i = 0; i < countof(bad); i++) {
		assert_int_equal(mcp_message_read(bad[i].text, strlen(bad[i].text), &m, &f), -1);
		assert_int_equal(f.code, bad[i].code);
		assert_int_equal(f.http, 400);
		mcp_message_done(&m);
	}
	static const struct {
		const char *text, *id; // as JSON; NULL: none can be told
	} unread[] = {
		{"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"a\",\"params\":{\"b\":\"c\\u0000d\"}}", "7"},
		{"{\"params\":{\"id\":1,\"b\":\"\\u0000\"},\"method\":\"\\\"id\\\":2\", \"id\" :\t\"x\"}", "\"x\""},
		{"{\"a\":1,\"a\":2,\"id\":-3}", "-3"},
		{"{\"a\":\"\\ud800\",\"id\":3", "3"},
		{"{\"a\":\"\xff\",\"id\":3}", "3"},
		{"{\"id\":1,\"id\":1}", NULL},
		{"{\"id\":\"a\\u0000\"}", NULL},
		{"{\"id\":{\"id\":1}x}", NULL},
		{"{\"id\":\"", NULL},
		{"{\"id\"", NULL},
		{"{\"id\":", NULL},
		{"{\"a\":\"\\", NULL},
		{"{\"id\":1.5,}", NULL},
	};
	for (size_t i = 0; i < countof(unread); i++) {
		auto_buf struct buf id = BUF_INIT(64);
		assert_int_equal(mcp_message_read(unread[i].text, strlen(unread[i].text), &m, &f), -1);
		assert_int_equal(f.code, RPC_PARSE);
		if (m.id)
			json_print(&id, m.id, 0);
		assert_int_equal(!m.id, !unread[i].id);
		if (unread[i].id)
			assert_string_equal(buf_cstr(&id), unread[i].id);
		mcp_message_done(&m);
	}
	const char *answer = "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{}}", *note = "{\"jsonrpc\":\"2.0\",\"method\":\"n\"}";
	assert_int_equal(mcp_message_read(answer, strlen(answer), &m, &f), 0);
	assert_int_equal(m.kind, MCP_RESPONSE);
	mcp_message_done(&m);
	assert_int_equal(mcp_message_read(note, strlen(note), &m, &f), 0);
	assert_int_equal(m.kind, MCP_NOTIFICATION);
	mcp_message_done(&m);
}

static void long_id(void **state)
{
	auto_buf struct buf b = BUF_INIT(4096);
	struct mcp_message m;
	struct mcp_fault f;
	(void)state;
	buf_str(&b, "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":\"");
	for (int i = 0; i <= MCP_ID_MAX; i++)
		buf_byte(&b, 'x');
	buf_str(&b, "\"}");
	assert_int_equal(mcp_message_read(b.p, b.n, &m, &f), -1);
	assert_int_equal(f.code, RPC_INVALID);
	mcp_message_done(&m);
}

static void eras(void **state)
{
	const struct mcp_headers none = {0}, stdio = {.stdio = true}, old = {.version = "2025-06-18"}, odd = {.version = "1999-01-01"};
	const struct mcp_headers fits = {.version = "2026-07-28", .method = "tools/call", .name = "run"};
	const struct mcp_headers coded = {.version = "2026-07-28 ", .method = "tools/call", .name = "=?base64?cnVu?="};
	enum mcp_era era;
	const char *version;
	(void)state;
	// legacy: with a header, without one, by handshake
	assert_int_equal(code_of(REQUEST("tools/list", ""), &none, &era, &version), 0);
	assert_int_equal(era, MCP_LEGACY);
	assert_string_equal(version, "2025-03-26");
	assert_int_equal(code_of(REQUEST("tools/list", ""), &old, &era, &version), 0);
	assert_string_equal(version, "2025-06-18");
	assert_int_equal(code_of(REQUEST("initialize", "\"protocolVersion\":\"1999-01-01\""), &odd, &era, &version), 0);
	assert_int_equal(era, MCP_LEGACY);
	assert_int_equal(code_of(REQUEST("tools/list", ""), &odd, &era, &version), RPC_PARAMS);
	// modern
	assert_int_equal(code_of(REQUEST("tools/call", "\"name\":\"run\"," META), &fits, &era, &version), 0);
	assert_int_equal(era, MCP_MODERN);
	assert_int_equal(code_of(REQUEST("tools/call", "\"name\":\"run\"," META), &coded, &era, &version), 0);
	assert_int_equal(code_of(REQUEST("tools/call", "\"name\":\"run\"," META), &stdio, &era, &version), 0);
	assert_int_equal(code_of(REQUEST("tools/call", "\"name\":\"read\"," META), &fits, &era, &version), MCP_HEADER_MISMATCH);
	assert_int_equal(code_of(REQUEST("tools/list", META), &fits, &era, &version), MCP_HEADER_MISMATCH);
	assert_int_equal(code_of(REQUEST("tools/call", "\"name\":\"run\"," META), &old, &era, &version), MCP_HEADER_MISMATCH);
	assert_int_equal(code_of(REQUEST("tools/call", "\"name\":\"run\"," META), &none, &era, &version), MCP_HEADER_MISMATCH);
	assert_int_equal(code_of(REQUEST("server/discover", ""), &stdio, &era, &version), RPC_PARAMS);
	assert_int_equal(code_of(REQUEST("server/discover", "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2099-01-01\"}"), &stdio, &era, &version),
			 MCP_BAD_VERSION);
	assert_int_equal(code_of(REQUEST("server/discover", "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}"), &stdio, &era, &version),
			 RPC_PARAMS);
}

static const struct mcp_tool *tool(const char *name)
{
	const struct mcp_tool *t = mcp_site.tools;
	while (strcmp(t->name, name))
		t++;
	return t;
}

static int check(const char *name, const char *args, bool pinned, struct err *e)
{
	struct err je;
	auto_json json_t *j = json_read(args, strlen(args), &je);
	assert_non_null(j);
	return mcp_args_check(tool(name), j, pinned, e);
}

static void arguments(void **state)
{
	struct err e;
	(void)state;
	assert_int_equal(check("run", "{\"sandbox\":\"s\",\"command\":\"true\",\"yield_ms\":0}", false, &e), 0);
	assert_int_equal(check("run", "{\"command\":\"true\"}", true, &e), 0);
	assert_int_equal(check("run", "{\"command\":\"true\"}", false, &e), -1);
	assert_non_null(strstr(e.msg, "sandbox is missing"));
	assert_int_equal(check("run", "{\"sandbox\":\"other\",\"command\":\"true\"}", true, &e), -1);
	assert_int_equal(e.kind, ERR_DENIED);
	assert_int_equal(check("run", "{\"command\":\"\"}", true, &e), -1);
	assert_int_equal(check("run", "{\"command\":[\"true\"]}", true, &e), -1);
	assert_int_equal(check("run", "{\"command\":\"true\",\"yield_ms\":-1}", true, &e), -1);
	assert_int_equal(check("run", "{\"command\":\"true\",\"yield_ms\":1e9}", true, &e), -1);
	assert_int_equal(check("run_kill", "{\"exec\":\"x\",\"signal\":\"STOP\"}", true, &e), -1);
	assert_int_equal(check("run_kill", "{\"exec\":\"x\",\"signal\":\"KILL\"}", true, &e), 0);
}

// What a create of the native API takes, and an agent must never be able to say.
static void no_way_out(void **state)
{
	static const char *const fields[] = {"mounts", "net",	  "allow",	 "expose_host", "secrets", "registries", "cwd",	    "repo",
					     "image",  "profile", "nested",	 "limits",	"trace",   "git_env",	 "context", "umask",
					     "user",   "env",	  "min_isolation", "caller_env", "workspace_path", "labels", "project", "apply"};
	struct err e;
	(void)state;
	for (const struct mcp_tool *t = mcp_site.tools; t->name; t++)
		for (size_t i = 0; i < countof(fields); i++) {
			if (!strcmp(t->name, "run") && !strcmp(fields[i], "cwd"))
				continue; // inside
			auto_free char *args = xasprintf("{\"%s\":\"x\"}", fields[i]);
			assert_int_equal(check(t->name, args, false, &e), -1);
			assert_non_null(strstr(e.msg, "takes no"));
		}
	static const char *const verbs[] = {"apply", "approve", "answer", "dismiss", "undo", "export", "trust", "mount", "secret", "token"};
	for (const struct mcp_tool *t = mcp_site.tools; t->name; t++)
		for (size_t i = 0; i < countof(verbs); i++)
			assert_null(strstr(t->name, verbs[i]));
}

// Every schema of ours is JSON, and says object.
static void schemas(void **state)
{
	struct err e;
	(void)state;
	for (const struct mcp_tool *t = mcp_site.tools; t->name; t++) {
		auto_json json_t *j = json_read(t->out, strlen(t->out), &e);
		assert_non_null(j);
		assert_string_equal(json_str(j, "type"), "object");
	}
	for (int i = 0; i < 2; i++) {
		auto_json json_t *j = json_read(mcp_site.capabilities[i], strlen(mcp_site.capabilities[i]), &e);
		assert_non_null(j);
	}
}

static char *shown(const struct excerpt *x)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(1 << 20);
	struct jsonw w = {.b = &b};
	jw_open(&w, '{');
	excerpt_put(&w, "t", x);
	jw_close(&w, '}');
	auto_json json_t *j = json_read(b.p, b.n, &e);
	assert_non_null(j);
	return xstrdup(json_str(j, "t"));
}

static void excerpts(void **state)
{
	struct excerpt x;
	(void)state;
	excerpt_init(&x, 20, 0);
	excerpt_add(&x, 0, "0123456789", 10);
	excerpt_add(&x, 10, "abcdefghij", 10);
	auto_free char *whole = shown(&x);
	assert_string_equal(whole, "0123456789abcdefghij");
	assert_int_equal(excerpt_omitted(&x), 0);
	for (int i = 0; i < 100; i++)
		excerpt_add(&x, 20 + (uint64_t)i * 5, "-----", 5);
	excerpt_add(&x, 520, "ABCDEFGHIJ", 10);
	auto_free char *cut = shown(&x);
	assert_int_equal(x.next, 530);
	assert_int_equal(excerpt_omitted(&x), 510);
	assert_memory_equal(cut, "0123456789\n[... 510 bytes omitted, from offset 10 ...]\nABCDEFGHIJ", 63);
	excerpt_done(&x);
	// in one piece, and from the middle of a stream on
	excerpt_init(&x, 8, 100);
	excerpt_add(&x, 100, "aaaabbbbbbbbbbbbcccc", 20);
	auto_free char *piece = shown(&x);
	assert_int_equal(excerpt_omitted(&x), 12);
	assert_int_equal(x.next, 120);
	assert_non_null(strstr(piece, "from offset 104"));
	excerpt_done(&x);
	// characters are not cut, other bytes are replaced
	excerpt_init(&x, 8, 0);
	excerpt_add(&x, 0, "a\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xff", 14);
	auto_free char *text = shown(&x);
	assert_non_null(strstr(text, "\xef\xbf\xbd"));
	excerpt_done(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages),   cmocka_unit_test(long_id), cmocka_unit_test(eras),	cmocka_unit_test(arguments),
		cmocka_unit_test(no_way_out), cmocka_unit_test(schemas), cmocka_unit_test(excerpts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// The way in: a POST becomes a call, a notification or an answer; the methods of the protocol itself.
#include "api/mcp_int.h"

#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

bool mcp_mine(const struct request *r)
{
	return str_has_prefix(r->target, "/mcp") && (!r->target[4] || r->target[4] == '?');
}

static void answer_fault(struct request *r, const json_t *id, int code, int http, const char *message, const char *data)
{
	auto_buf struct buf text = BUF_INIT(8 * MCP_ID_MAX);
	struct jsonw w = {.b = &r->answer};
	if (id)
		json_print(&text, id, 0);
	buf_clear(&r->answer);
	r->type = NULL;
	jw_open(&w, '{');
	jw_kstr(&w, "jsonrpc", "2.0");
	jw_key(&w, "id");
	jw_raw(&w, id ? buf_cstr(&text) : "null");
	mcp_error_body(&w, code, message, data);
	request_answer(r, http);
}

// What stopped a request before it was a message: no token, a foreign origin, too long.
void mcp_fail(struct request *r, const struct err *e)
{
	answer_fault(r, NULL, RPC_INVALID, status_of(e), e->msg, NULL);
}

static const struct mcp_site *site_of(const struct request *r)
{
	return container_of(r->surface, const struct mcp_site, surface);
}

static void not_here(struct request *r)
{
	request_set_header(r, "Allow", "POST, DELETE");
	answer_fault(r, NULL, RPC_INVALID, 405, "only POST is served here: there is no stream without a request", NULL);
}

static void end_session(struct request *r)
{
	const char *id = request_header(r, "Mcp-Session-Id"), *version = request_header(r, "MCP-Protocol-Version");
	if (!id || (version && !strcmp(version, MCP_VERSION_MODERN)))
		not_here(r);
	else if (mcp_session_end(id))
		request_answer(r, 200);
	else
		answer_fault(r, NULL, RPC_INVALID, 404, "no such session", NULL);
}

// --- methods of the protocol ---

static void ping(struct mcp_call *c)
{
	struct jsonw w = mcp_result_begin(c, "complete");
	mcp_result_end(c, &w);
}

static void initialize(struct mcp_call *c)
{
	const char *asked = json_str(c->m.params, "protocolVersion");
	const char *version = mcp_version_known(asked) ? asked : MCP_VERSION_LEGACY;
	if (!c->stdio && c->r)
		request_set_header(c->r, "Mcp-Session-Id", mcp_session_new(version));
	struct jsonw w = mcp_result_begin(c, "complete");
	jw_kstr(&w, "protocolVersion", version);
	jw_key(&w, "capabilities");
	jw_raw(&w, c->site->capabilities[0]);
	jw_key(&w, "serverInfo");
	mcp_server_info(&w, c->site);
	jw_kstr(&w, "instructions", c->site->instructions);
	mcp_result_end(c, &w);
}

static void discover(struct mcp_call *c)
{
	struct jsonw w = mcp_result_begin(c, "complete");
	jw_key(&w, "supportedVersions");
	jw_raw(&w, "[\"" MCP_VERSION_MODERN "\"]");
	jw_key(&w, "capabilities");
	jw_raw(&w, c->site->capabilities[1]);
	jw_kstr(&w, "instructions", c->site->instructions);
	mcp_cacheable(c, &w, 3600000, true);
	mcp_result_end(c, &w);
}

static const struct mcp_method own[] = {
	{"initialize", MCP_LEGACY, initialize},
	{"ping", MCP_LEGACY, ping},
	{"server/discover", MCP_MODERN, discover},
	{"tools/list", MCP_LEGACY | MCP_MODERN, mcp_tools_list},
	{"tools/call", MCP_LEGACY | MCP_MODERN, mcp_tools_call},
	{0},
};

static const struct mcp_method *find(const struct mcp_method *t, const struct mcp_call *c)
{
	for (; t->name; t++)
		if (t->eras & c->era && !strcmp(t->name, c->m.method))
			return t;
	return NULL;
}

static void dispatch(struct mcp_call *c)
{
	const struct mcp_method *m = find(own, c);
	m = m ? m : find(c->site->methods, c);
	if (m)
		m->fn(c);
	else
		mcp_error(c, RPC_NO_METHOD, c->era == MCP_MODERN ? 404 : 200, "no such method", NULL);
}

// --- messages ---

static void accept_notification(struct request *r, const struct mcp_message *m, const char *session)
{
	const json_t *id = json_object_get(m->params, "requestId");
	if (session && !strcmp(m->method, "notifications/cancelled") && (json_is_string(id) || json_is_integer(id)))
		mcp_calls_cancel(session, id);
	request_answer(r, 202);
}

static void begin_call(struct request *r, struct mcp_message *m, enum mcp_era era, const char *version, const char *session)
{
	const char *pin = request_query(r, "sandbox"), *cwd = request_query(r, "cwd");
	struct mcp_call *c = mcp_call_new(r, site_of(r), m, era, version);
	if (!c) {
		answer_fault(r, m->id, RPC_INTERNAL, 503, "too many requests at once: try again", NULL);
		return;
	}
	c->stdio = request_query(r, "stdio");
	c->session = session && era == MCP_LEGACY ? xstrdup(session) : NULL;
	c->pin = pin ? xstrdup(pin) : NULL;
	c->cwd = cwd ? xstrdup(cwd) : NULL;
	dispatch(c);
}

static void bad_version(struct request *r, const struct mcp_message *m, const struct mcp_fault *f, const char *version)
{
	auto_buf struct buf data = BUF_INIT(1024);
	struct jsonw w = {.b = &data};
	jw_open(&w, '{');
	jw_key(&w, "supported");
	jw_raw(&w, "[\"" MCP_VERSION_MODERN "\"]");
	jw_key(&w, "requested");
	jw_str(&w, version, strnlen(version, 64));
	jw_close(&w, '}');
	answer_fault(r, m->id, f->code, f->http, f->e.msg, buf_cstr(&data));
}

static void take_message(struct request *r, struct mcp_message *m)
{
	struct mcp_headers h = {
		.stdio = request_query(r, "stdio"),
		.version = request_header(r, "MCP-Protocol-Version"),
		.method = request_header(r, "Mcp-Method"),
		.name = request_header(r, "Mcp-Name"),
	};
	struct mcp_fault f;
	enum mcp_era era;
	const char *version, *session = h.stdio ? NULL : request_header(r, "Mcp-Session-Id"), *agreed = NULL;
	if (mcp_message_judge(m, &h, &era, &version, &f)) {
		if (f.code == MCP_BAD_VERSION)
			bad_version(r, m, &f, version);
		else
			answer_fault(r, m->id, f.code, f.http, f.e.msg, NULL);
		return;
	}
	bool first = m->method && !strcmp(m->method, "initialize");
	if (session && era == MCP_LEGACY && !first && !(agreed = mcp_session_use(session))) {
		answer_fault(r, m->id, RPC_INVALID, 404, "no such session: initialize again", NULL);
		return;
	}
	if (m->kind == MCP_REQUEST)
		begin_call(r, m, era, agreed ? agreed : version, session);
	else if (m->kind == MCP_NOTIFICATION)
		accept_notification(r, m, era == MCP_LEGACY ? session : NULL);
	else {
		if (site_of(r)->on_response && session)
			site_of(r)->on_response(session, m);
		request_answer(r, 202);
	}
}

static void post(struct request *r)
{
	struct mcp_message m;
	struct mcp_fault f;
	if (mcp_message_read(r->body.p, r->body.n, &m, &f))
		answer_fault(r, m.id, f.code, f.http, f.e.msg, NULL);
	else
		take_message(r, &m);
	mcp_message_done(&m);
}

const struct route mcp_routes[] = {
	{"POST", "/mcp", BODY_BYTES, post, SEEN(SCOPE_READ)},
	{"GET", "/mcp", BODY_NONE, not_here, SEEN(SCOPE_READ)},
	{"DELETE", "/mcp", BODY_NONE, end_session, SEEN(SCOPE_READ)},
	{0},
};

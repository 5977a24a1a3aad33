// SPDX-License-Identifier: Apache-2.0
// One call from its request to its answer: results, errors, what is told before, and the end of interest in it.
#include "api/mcp.h"
#include "api/mcp_int.h"

#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define META_SERVER "io.modelcontextprotocol/serverInfo"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"

static struct {
	struct mcp_call *list;
	size_t n;
} all; // one server in a process

static void on_gone(struct request *r)
{
	struct mcp_call *c = r->ctx;
	bool before = c->gone;
	c->gone = true;
	if (c->streaming)
		c->r = NULL;
	if (!before && (c->stdio || c->era == MCP_MODERN))
		mcp_call_cancel(c);
}

struct mcp_call *mcp_call_new(struct request *r, const struct mcp_site *site, struct mcp_message *m, enum mcp_era era,
			      const char *version)
{
	if (all.n >= MCP_CALLS)
		return NULL;
	struct mcp_call *c = xcalloc(1, sizeof *c);
	auto_buf struct buf id = BUF_INIT(8 * MCP_ID_MAX);
	json_print(&id, m->id, 0);
	c->r = r;
	c->site = site;
	c->engine = r->engine;
	c->loop = request_loop(r);
	c->m = *m;
	*m = (struct mcp_message){0};
	c->era = era;
	if (fmt_to(c->version, sizeof c->version, "%s", version))
		c->version[0] = 0;
	c->id = buf_take(&id);
	c->out = BUF_INIT(64u << 20);
	c->links = BUF_INIT(64u << 10);
	c->next = all.list;
	all.list = c;
	all.n++;
	r->ctx = c;
	r->on_gone = on_gone;
	return c;
}

static void call_free(struct mcp_call *c)
{
	for (struct mcp_call **p = &all.list; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			all.n--;
			break;
		}
	mcp_message_done(&c->m);
	buf_done(&c->out);
	buf_done(&c->links);
	free(c->id);
	free(c->session);
	free(c->pin);
	free(c->cwd);
	free(c);
}

void mcp_call_cancel(struct mcp_call *c)
{
	if (c->cancelled)
		return;
	c->cancelled = true;
	if (c->on_cancel)
		c->on_cancel(c);
}

void mcp_calls_cancel(const char *session, const json_t *id)
{
	auto_buf struct buf text = BUF_INIT(8 * MCP_ID_MAX);
	json_print(&text, id, 0);
	for (struct mcp_call *c = all.list; c; c = c->next)
		if (c->session && !strcmp(c->session, session) && !strcmp(c->id, buf_cstr(&text))) {
			mcp_call_cancel(c); // may end it
			return;
		}
}

// --- what is told ---

// In one piece: a write may find the client gone, and then c->r is void.
static void put_event(struct mcp_call *c, const char *p, size_t n)
{
	auto_buf struct buf b = BUF_INIT(n + 64);
	buf_str(&b, "event: message\ndata: ");
	buf_add(&b, p, n);
	buf_str(&b, "\n\n");
	request_write(c->r, b.p, b.n);
}

static void begin_stream(struct mcp_call *c)
{
	c->streaming = true;
	c->r->type = "text/event-stream";
	request_set_header(c->r, "Cache-Control", "no-cache");
	request_set_header(c->r, "X-Accel-Buffering", "no");
	request_stream(c->r, 200);
}

static bool takes_stream(struct mcp_call *c)
{
	const char *accept = c->r ? request_header(c->r, "Accept") : NULL;
	return c->stdio || !accept || strstr(accept, "text/event-stream") || strstr(accept, "*/*");
}

void mcp_message_send(struct mcp_call *c, const struct buf *message)
{
	if (c->gone || c->cancelled || (!c->streaming && !takes_stream(c)))
		return;
	if (!c->streaming)
		begin_stream(c);
	if (c->r)
		put_event(c, message->p, message->n);
}

const json_t *mcp_progress_token(const struct mcp_call *c)
{
	const json_t *token = json_object_get(c->m.meta, "progressToken");
	return json_is_string(token) || json_is_integer(token) ? token : NULL;
}

void mcp_progress(struct mcp_call *c, uint64_t progress, uint64_t total, const char *message)
{
	const json_t *token = mcp_progress_token(c);
	auto_buf struct buf b = BUF_INIT(64u << 10), text = BUF_INIT(8u << 10);
	struct jsonw w = {.b = &b};
	if (!token)
		return;
	json_print(&text, token, 0);
	jw_open(&w, '{');
	jw_kstr(&w, "jsonrpc", "2.0");
	jw_kstr(&w, "method", "notifications/progress");
	jw_key(&w, "params");
	jw_open(&w, '{');
	jw_key(&w, "progressToken");
	jw_raw(&w, buf_cstr(&text));
	jw_ku64(&w, "progress", progress);
	if (total)
		jw_ku64(&w, "total", total);
	if (message)
		mcp_text(&w, "message", message, strlen(message));
	jw_close(&w, '}');
	jw_close(&w, '}');
	if (!b.overflow && !text.overflow)
		mcp_message_send(c, &b);
}

const json_t *mcp_client_capabilities(const struct mcp_call *c)
{
	return json_object_get(c->m.meta, META_CAPABILITIES);
}

// --- answers ---

// The client wants no answer any more; HTTP does.
static void finish_cancelled(struct mcp_call *c)
{
	c->r->on_gone = NULL;
	if (!c->streaming)
		begin_stream(c);
	request_finish(c->r);
}

static void finish_stream(struct mcp_call *c)
{
	c->on_cancel = NULL;
	put_event(c, c->out.p, c->out.n);
	if (!c->r)
		return;
	c->r->on_gone = NULL;
	request_finish(c->r);
}

static void finish(struct mcp_call *c, int http)
{
	struct request *r = c->r;
	if (r && c->cancelled && !c->gone) {
		finish_cancelled(c);
	} else if (r && c->streaming) {
		finish_stream(c);
	} else if (r) {
		r->on_gone = NULL;
		r->answer.max = c->out.n + 1;
		buf_add(&r->answer, c->out.p, c->out.n);
		request_answer(r, http);
	}
	call_free(c);
}

static struct jsonw begin(struct mcp_call *c)
{
	struct jsonw w = {.b = &c->out};
	buf_clear(&c->out);
	jw_open(&w, '{');
	jw_kstr(&w, "jsonrpc", "2.0");
	jw_key(&w, "id");
	jw_raw(&w, c->id);
	return w;
}

struct jsonw mcp_result_begin(struct mcp_call *c, const char *result_type)
{
	struct jsonw w = begin(c);
	jw_key(&w, "result");
	jw_open(&w, '{');
	if (c->era == MCP_MODERN)
		jw_kstr(&w, "resultType", result_type);
	return w;
}

void mcp_server_info(struct jsonw *w, const struct mcp_site *s)
{
	jw_open(w, '{');
	jw_kstr(w, "name", s->name);
	jw_kstr(w, "title", s->title);
	jw_kstr(w, "version", s->version);
	jw_close(w, '}');
}

void mcp_result_end(struct mcp_call *c, struct jsonw *w)
{
	if (c->era == MCP_MODERN) {
		jw_key(w, "_meta");
		jw_open(w, '{');
		jw_key(w, META_SERVER);
		mcp_server_info(w, c->site);
		jw_close(w, '}');
	}
	jw_close(w, '}');
	jw_close(w, '}');
	if (c->out.overflow) {
		c->out.overflow = false;
		mcp_error(c, RPC_INTERNAL, 200, "the answer is too long: ask for less", NULL);
		return;
	}
	finish(c, 200);
}

void mcp_cacheable(struct mcp_call *c, struct jsonw *w, uint64_t ttl_ms, bool public)
{
	if (c->era != MCP_MODERN)
		return;
	jw_ku64(w, "ttlMs", ttl_ms);
	jw_kstr(w, "cacheScope", public ? "public" : "private");
}

void mcp_error_body(struct jsonw *w, int code, const char *message, const char *data)
{
	jw_key(w, "error");
	jw_open(w, '{');
	jw_ki64(w, "code", code);
	jw_key(w, "message");
	jw_str(w, message, strlen(message));
	if (data) {
		jw_key(w, "data");
		jw_raw(w, data);
	}
	jw_close(w, '}');
	jw_close(w, '}');
}

void mcp_error(struct mcp_call *c, int code, int http, const char *message, const char *data)
{
	struct jsonw w = begin(c);
	mcp_error_body(&w, code, message, data);
	finish(c, http);
}

// SPDX-License-Identifier: Apache-2.0
// One exchange: its headers, its suspension while somebody works for it, its answer, its end. How it comes in: request_in.c.
#include "api/server_int.h"

#include "api/auth.h"
#include "api/front.h"
#include "api/refused.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine.h"
#include "model/limits.h"
#include <stdlib.h>
#include <string.h>

#define STREAM_BLOCK (64u << 10)
#define TRICKLE_BLOCK (4u << 10)

struct request *request_new(struct server *s, struct MHD_Connection *conn, const char *target)
{
	struct request *r = xcalloc(1, sizeof *r);
	r->server = s;
	r->loop = s->loop;
	r->engine = s->engine;
	r->conn = conn;
	r->tcp = server_tcp(s, conn);
	if (r->tcp) {
		r->tcp->request = r;
		front_wait(r->tcp, FRONT_HEAD_MS); // of a second request it is not there yet
	}
	r->target = xstrdup(target);
	r->gone.fd = -1;
	r->body = BUF_INIT(LIMIT_REQUEST_BODY);
	r->answer = BUF_INIT(64u << 20);
	return r;
}

static void free_now(void *obj)
{
	struct request *r = obj;
	for (int i = 0; i < r->n_parts; i++)
		free(r->parts[i]);
	for (int i = 0; i < r->n_headers; i++)
		free(r->headers[i][0]), free(r->headers[i][1]);
	strv_free(r->query);
	if (r->json)
		json_decref(r->json);
	buf_done(&r->body);
	buf_done(&r->answer);
	free(r->upgraded);
	free(r->target);
	principal_free(r->who);
	free(r);
}

// An event of its client's end may wait in this round.
void request_free(struct request *r)
{
	loop_bury(r->loop, r, free_now);
}

struct loop *request_loop(struct request *r)
{
	return r->loop;
}

const char *request_header(const struct request *r, const char *name)
{
	return r->conn ? MHD_lookup_connection_value(r->conn, MHD_HEADER_KIND, name) : NULL;
}

struct header_walk {
	void (*each)(void *ctx, const char *name, const char *value);
	void *ctx;
};

static enum MHD_Result on_header(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
	const struct header_walk *w = cls;
	(void)kind;
	w->each(w->ctx, name, value ? value : "");
	return MHD_YES;
}

void request_each_header(const struct request *r, void (*each)(void *ctx, const char *name, const char *value), void *ctx)
{
	struct header_walk w = {each, ctx};
	if (r->conn)
		MHD_get_connection_values(r->conn, MHD_HEADER_KIND, on_header, &w);
}

void request_set_header(struct request *r, const char *name, const char *value)
{
	if (r->n_headers == HEADERS_MAX) {
		log_line(LOG_WARN, "header %s not sent", name);
		return;
	}
	r->headers[r->n_headers][0] = xstrdup(name);
	r->headers[r->n_headers++][1] = xstrdup(value);
}

// --- suspension ---

static void on_hangup(struct watch *w, uint32_t events)
{
	struct request *r = container_of(w, struct request, gone);
	(void)events;
	loop_del(r->server->loop, w);
	if (!r->suspended) // the library reads or writes, and sees it itself
		return;
	if (r->streaming)
		request_cut(r);
	else if (r->on_gone) // it still has to be answered; until then nobody listens
		r->on_gone(r);
}

void request_suspend(struct request *r)
{
	struct err e;
	r->suspended = true;
	r->next = r->server->suspended;
	r->server->suspended = r;
	MHD_suspend_connection(r->conn);
	if (r->gone.fd >= 0 || r->cut || (!r->streaming && !r->on_gone))
		return;
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(r->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
	r->gone.fn = on_hangup; // the library does not look at a suspended connection
	if (info && loop_add(r->server->loop, &r->gone, info->connect_fd, LOOP_RDHUP, &e))
		log_line(LOG_WARN, "%s", e.msg);
}

static void wake(struct request *r)
{
	list_unlink(&r->server->suspended, r, next);
	r->suspended = false;
	MHD_resume_connection(r->conn);
	server_wake(r->server);
}

void request_more(struct request *r)
{
	if (!r->suspended || r->status || r->over)
		return;
	if (r->tcp)
		front_wait(r->tcp, FRONT_BODY_MS);
	wake(r);
}

void request_left(struct request *r)
{
	if (r->gone.fd >= 0)
		loop_del(r->server->loop, &r->gone);
	r->conn = NULL;
	if (r->tcp) {
		r->tcp->request = NULL;
		front_until(r->tcp, 0);
		front_wait(r->tcp, r->tcp->closing ? 1 : r->upgraded ? 0 : FRONT_IDLE_MS);
		r->tcp = NULL;
	}
	r->suspended = false;
	r->cut |= r->streaming;
	bool told = r->upgraded || r->ended;
	r->leaving = true; // on_gone may answer it: then it goes below
	if (r->on_gone && !told && (r->streaming || !r->status))
		r->on_gone(r);
	r->leaving = false;
	if (r->upgraded && !r->upgraded->handle)
		r->upgraded->fn(r->upgraded->ctx, r->upgraded); // it never came to it: its owner lets go
	if ((r->status && !r->owed) || !r->called)
		request_free(r); // else whoever answers it does
}

// --- answers ---

static void put_header(struct MHD_Response *resp, const char *name, const char *value)
{
	if (value[0] && MHD_add_response_header(resp, name, value) != MHD_YES)
		log_line(LOG_WARN, "header %s not sent", name);
}

static enum MHD_Result send_response(struct request *r, struct MHD_Response *resp)
{
	if (r->tcp && (r->tcp->closing || r->tcp->behind_proxy) && !r->upgraded)
		put_header(resp, "Connection", "close");
	if (r->tcp)
		put_header(resp, "Cache-Control", "no-store");
	for (int i = 0; i < r->n_headers; i++)
		put_header(resp, r->headers[i][0], r->headers[i][1]);
	enum MHD_Result rc = MHD_queue_response(r->conn, (unsigned)r->status, resp);
	MHD_destroy_response(resp);
	return rc;
}

static ssize_t read_stream(void *cls, uint64_t pos, char *out, size_t max)
{
	struct request *r = cls;
	size_t n = r->answer.n - r->out_at;
	(void)pos;
	if (r->cut)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (!n && r->ended)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (!n) {
		request_suspend(r);
		return 0;
	}
	n = n < max ? n : max;
	memcpy(out, r->answer.p + r->out_at, n);
	r->out_at += n;
	if (r->out_at == r->answer.n) {
		buf_clear(&r->answer);
		r->out_at = 0;
		if (r->on_drain && !r->ended)
			r->on_drain(r);
	} else if (r->out_at > STREAM_HIGH) {
		buf_cut(&r->answer, r->out_at);
		r->out_at = 0;
	}
	return (ssize_t)n;
}

static void on_upgraded(void *cls, struct MHD_Connection *conn, void *con_cls, const char *extra, size_t n,
			MHD_socket sock, struct MHD_UpgradeResponseHandle *urh)
{
	struct request *r = cls;
	struct upgraded *u = r->upgraded;
	(void)conn, (void)con_cls;
	u->fd = sock;
	u->extra = extra;
	u->n_extra = n;
	u->handle = urh;
	u->server = r->server;
	u->next = r->server->upgraded;
	r->server->upgraded = u;
	u->fn(u->ctx, u);
}

static enum MHD_Result send_body(struct request *r)
{
	size_t n = r->answer.n;
	char *p = n ? buf_take(&r->answer) : NULL;
	struct MHD_Response *resp =
		MHD_create_response_from_buffer(n, p, p ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	if (!resp) {
		free(p);
		return MHD_NO;
	}
	if (r->status != 204)
		put_header(resp, "Content-Type", r->type ? r->type : "application/json");
	put_header(resp, "X-Content-Type-Options", r->type ? "nosniff" : "");
	put_header(resp, "X-Skep-Offset", r->offset);
	put_header(resp, "X-Skep-End", r->end);
	return send_response(r, resp);
}

enum MHD_Result request_send(struct request *r)
{
	struct MHD_Response *resp;
	if (r->upgraded) {
		resp = MHD_create_response_for_upgrade(on_upgraded, r);
	} else if (r->streaming) {
		resp = MHD_create_response_from_callback(r->has_length ? r->length : MHD_SIZE_UNKNOWN, r->trickles ? TRICKLE_BLOCK : STREAM_BLOCK, read_stream, r, NULL);
		if (resp)
			put_header(resp, "Content-Type", r->type ? r->type : "application/octet-stream");
		if (resp)
			put_header(resp, "X-Content-Type-Options", "nosniff");
	} else {
		return send_body(r);
	}
	return resp ? send_response(r, resp) : MHD_NO;
}

// Whichever way it was answered.
static void answered(struct request *r, int status)
{
	if (r->owed) { // its client had its answer when skepd began to end
		r->owed = false;
		if (!r->conn)
			request_free(r);
		return;
	}
	r->status = status;
	if (!r->conn && !r->leaving)
		request_free(r); // its client is gone
	else if (r->suspended)
		wake(r);
}

void request_answer(struct request *r, int status)
{
	if (r->answer.overflow) {
		struct err e;
		r->answer.overflow = false;
		err_set(&e, ERR_LIMIT, "the answer is too long");
		request_fail(r, &e);
		return;
	}
	answered(r, status);
}

// Refused for who they are and where they come from. An errno is a file's own, inside a sandbox.
static void note_refusal(struct request *r, const struct err *e)
{
	int status = status_of(e);
	bool ours = !e->sys || e->sys >= 400;
	if (!r->engine || !r->tcp || !r->who || !ours || (e->kind != ERR_DENIED && status != 429 && status != 421))
		return;
	refused(r->server->loop, r->engine, &(struct refusal){.status = status, .surface = r->surface ? r->surface->name : "", .why = e->msg,
		.who = r->who->scope == SCOPE_OPEN ? "" : r->who->name, .path = str_of(r->target), .peer = &r->tcp->peer});
}

void request_fail(struct request *r, const struct err *e)
{
	buf_clear(&r->answer);
	r->type = NULL;
	r->offset[0] = r->end[0] = 0;
	note_refusal(r, e);
	if (e->kind == ERR_BUG || e->kind == ERR_SYSTEM)
		log_line(LOG_WARN, "%s: %s", r->route ? r->route->path : "request", e->msg);
	if (r->surface && r->surface->fail) {
		r->surface->fail(r, e);
		return;
	}
	error_body(&r->answer, e);
	request_answer(r, status_of(e));
}

void request_abandon(struct request *r, const struct err *e)
{
	if (r->streaming) {
		request_cut(r);
		return;
	}
	request_fail(r, e);
	r->owed = r->cut = true; // the handler does not know, and answers when its work has ended
}

void request_stream(struct request *r, int status)
{
	r->streaming = true;
	r->owed = false;
	if (!r->conn) { // nobody reads it: the handler is told, and the request goes
		r->status = status;
		if (r->on_gone)
			r->on_gone(r);
		request_free(r);
		return;
	}
	answered(r, status);
}

bool request_write(struct request *r, const void *p, size_t n)
{
	size_t waits = r->answer.n - r->out_at + n;
	if (r->cut || r->ended)
		return false;
	if (waits > ANSWER_MAX) { // it does not read, and its source does not wait
		request_cut(r);
		return false;
	}
	buf_add(&r->answer, p, n);
	if (r->suspended)
		wake(r);
	return waits <= STREAM_HIGH;
}

void request_finish(struct request *r)
{
	r->ended = true;
	if (r->suspended)
		wake(r);
}

void request_cut(struct request *r)
{
	r->cut = true;
	if (r->suspended)
		wake(r);
}

void request_upgrade(struct request *r, const char *protocol, void (*fn)(void *ctx, struct upgraded *u), void *ctx)
{
	r->upgraded = xcalloc(1, sizeof *r->upgraded);
	*r->upgraded = (struct upgraded){.fd = -1, .fn = fn, .ctx = ctx};
	request_set_header(r, "Upgrade", protocol);
	if (r->owed || (!r->conn && !r->leaving))
		fn(ctx, r->upgraded);
	if (r->owed)
		free(take(&r->upgraded));
	answered(r, 101);
}

void upgraded_close(struct upgraded *u)
{
	if (!u->handle)
		return;
	list_unlink(&u->server->upgraded, u, next);
	struct server *s = u->server;
	MHD_upgrade_action(u->handle, MHD_UPGRADE_ACTION_CLOSE);
	server_wake(s); // the library lets go of it there
}

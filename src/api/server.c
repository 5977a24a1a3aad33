// SPDX-License-Identifier: Apache-2.0
#include "api/server.h"

#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine.h"
#include "model/limits.h"
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct server {
	struct loop *loop;
	struct engine *engine;
	struct MHD_Daemon *mhd;
	struct watch w;
	struct timer again;
	struct request *suspended;
	bool inside; // in MHD_run: a resumed connection is served by it
	bool stopping;
};

static char mark_trusted, mark_foreign; // addresses only: what a connection's peer was found to be

static void run(struct server *s)
{
	MHD_UNSIGNED_LONG_LONG wait;
	s->inside = true;
	MHD_run(s->mhd);
	// A pipelined or half-read request may be ready without a new event on the descriptor.
	for (int i = 0; i < 16 && MHD_get_timeout(s->mhd, &wait) == MHD_YES && wait == 0; i++)
		MHD_run(s->mhd);
	s->inside = false;
	if (MHD_get_timeout(s->mhd, &wait) == MHD_YES)
		timer_set(s->loop, &s->again, wait ? wait : 1);
}

static void on_event(struct watch *w, uint32_t events)
{
	(void)events;
	run(container_of(w, struct server, w));
}

static void on_again(struct timer *t)
{
	run(container_of(t, struct server, again));
}

struct loop *request_loop(struct request *r)
{
	return r->server->loop;
}

const char *request_query(struct request *r, const char *key)
{
	return MHD_lookup_connection_value(r->conn, MHD_GET_ARGUMENT_KIND, key);
}

static void header(struct MHD_Response *resp, const char *name, const char *value)
{
	if (value[0] && MHD_add_response_header(resp, name, value) != MHD_YES)
		log_line(LOG_WARN, "header %s not sent", name);
}

static enum MHD_Result send_answer(struct request *r)
{
	size_t n = r->answer.n;
	char *p = n ? buf_take(&r->answer) : NULL;
	struct MHD_Response *resp = MHD_create_response_from_buffer(n, p, p ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	if (!resp) {
		free(p);
		return MHD_NO;
	}
	if (r->status != 204)
		header(resp, "Content-Type", r->type ? r->type : "application/json");
	header(resp, "X-Content-Type-Options", r->type ? "nosniff" : "");
	header(resp, "X-Skep-Offset", r->offset);
	header(resp, "X-Skep-End", r->end);
	enum MHD_Result rc = MHD_queue_response(r->conn, (unsigned)r->status, resp);
	MHD_destroy_response(resp);
	return rc;
}

static void request_free(struct request *r)
{
	for (int i = 0; i < r->n_parts; i++)
		free(r->parts[i]);
	if (r->json)
		json_decref(r->json);
	buf_done(&r->body);
	buf_done(&r->answer);
	free(r);
}

static void wake(struct request *r)
{
	for (struct request **p = &r->server->suspended; *p; p = &(*p)->next)
		if (*p == r) {
			*p = r->next;
			break;
		}
	r->suspended = false;
	MHD_resume_connection(r->conn);
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
	r->status = status;
	if (!r->conn) { // its client is gone
		request_free(r);
		return;
	}
	if (!r->suspended)
		return;
	wake(r);
	if (!r->server->inside)
		run(r->server); // the answer leaves before its writer goes on to other work
}

void request_fail(struct request *r, const struct err *e)
{
	struct jsonw w = {.b = &r->answer};
	buf_clear(&r->answer);
	r->type = NULL;
	r->offset[0] = r->end[0] = 0;
	jw_open(&w, '{');
	jw_key(&w, "error");
	jw_open(&w, '{');
	jw_kstr(&w, "kind", err_kind_name(e->kind));
	jw_kstr(&w, "message", e->msg);
	if (e->kind == ERR_CONFLICT && e->sys == ENGINE_NEEDS_REGISTRIES)
		jw_kstr(&w, "needs", "registries"); // the caller can find them, and ask again
	jw_close(&w, '}');
	jw_close(&w, '}');
	if (e->kind == ERR_BUG || e->kind == ERR_SYSTEM)
		log_line(LOG_WARN, "%s: %s", r->route ? r->route->path : "request", e->msg);
	request_answer(r, status_of(e->kind));
}

// Splits a path and compares it with a route's; segments under {} are kept in r->parts.
static bool path_fits(struct request *r, const char *pattern, const char *url)
{
	struct str pat = str_of(pattern + 1), got = str_of(url + 1), a, b;
	while (r->n_parts)
		free(r->parts[--r->n_parts]);
	bool more_a, more_b;
	for (;;) {
		more_a = str_next(&pat, '/', &a);
		more_b = str_next(&got, '/', &b);
		if (!more_a || !more_b)
			return more_a == more_b;
		if (a.n == 2 && a.p[0] == '{' && b.n && r->n_parts < (int)countof(r->parts))
			r->parts[r->n_parts++] = xstrndup(b.p, b.n);
		else if (a.n != b.n || memcmp(a.p, b.p, a.n))
			return false;
	}
}

static int find_route(struct request *r, const char *method, const char *url, struct err *e)
{
	bool known = false;
	for (const struct route *t = api_routes; t->method; t++) {
		if (url[0] != '/' || !path_fits(r, t->path, url))
			continue;
		known = true;
		if (!strcmp(t->method, method)) {
			r->route = t;
			return 0;
		}
	}
	return err_set(e, ERR_NOT_FOUND, known ? "%s is not possible here" : "no such path (%s)", method);
}

static int check_parts(struct request *r, struct err *e)
{
	static const char names[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
	if (!strcmp(r->route->path, "/v1/secrets/{}"))
		return strlen(r->parts[0]) <= 64 && strspn(r->parts[0], names) == strlen(r->parts[0])
			       ? 0
			       : err_set(e, ERR_INVALID, "not the name of a secret");
	for (int i = 0; i < r->n_parts; i++)
		if (strlen(r->parts[i]) > 40 || strspn(r->parts[i], "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(r->parts[i]))
			return err_set(e, ERR_INVALID, "not an id or a name: only a-z, 0-9 and - occur in them");
	return 0;
}

static int read_body(struct request *r, struct err *e)
{
	if (r->too_large)
		return err_set(e, ERR_LIMIT, "the request is longer than %u bytes", LIMIT_REQUEST_BODY);
	if (!r->route->has_body)
		return r->body.n ? err_set(e, ERR_INVALID, "this request takes no body") : 0;
	r->json = r->body.n ? json_read(r->body.p, r->body.n, e) : json_read("{}", 2, e);
	if (!r->json)
		return -1;
	return json_is_object(r->json) ? 0 : err_set(e, ERR_INVALID, "the body must be a JSON object");
}

static void dispatch(struct request *r, const char *method, const char *url)
{
	struct err e;
	if (find_route(r, method, url, &e) || check_parts(r, &e) || read_body(r, &e))
		request_fail(r, &e);
	else
		r->route->fn(r);
}

static bool is_trusted(struct MHD_Connection *conn)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	return info && info->socket_context == &mark_trusted;
}

static struct request *request_new(struct server *s, struct MHD_Connection *conn)
{
	struct request *r = xcalloc(1, sizeof *r);
	r->server = s;
	r->engine = s->engine;
	r->conn = conn;
	r->body = BUF_INIT(LIMIT_REQUEST_BODY);
	r->answer = BUF_INIT(64u << 20);
	return r;
}

// Called with the head, then per piece of body, then once with no body left; again after a resume.
static enum MHD_Result on_request(void *cls, struct MHD_Connection *conn, const char *url, const char *method,
				  const char *version, const char *data, size_t *n, void **state)
{
	(void)version;
	struct request *r = *state;
	if (!is_trusted(conn))
		return MHD_NO;
	if (!r) {
		*state = request_new(cls, conn);
		return MHD_YES;
	}
	if (*n) {
		buf_add(&r->body, data, *n);
		r->too_large |= r->body.overflow;
		*n = 0;
		return MHD_YES;
	}
	if (!r->over) {
		r->over = true;
		dispatch(r, method, url);
	}
	if (r->status)
		return send_answer(r);
	r->suspended = true;
	r->next = r->server->suspended;
	r->server->suspended = r;
	MHD_suspend_connection(conn);
	return MHD_YES;
}

static void on_completed(void *cls, struct MHD_Connection *conn, void **state, enum MHD_RequestTerminationCode code)
{
	(void)cls, (void)conn, (void)code;
	struct request *r = *state;
	struct server *s = cls;
	if (!r)
		return;
	*state = NULL;
	r->conn = NULL;
	r->suspended = false;
	if (r->status || !r->over)
		request_free(r); // else whoever answers it does
	if (s->stopping)
		loop_stop(s->loop);
}

static void on_connection(void *cls, struct MHD_Connection *conn, void **context, enum MHD_ConnectionNotificationCode code)
{
	(void)cls;
	struct ucred peer;
	socklen_t n = sizeof peer;
	if (code != MHD_CONNECTION_NOTIFY_STARTED)
		return;
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
	bool ours = info && !getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) && peer.uid == geteuid();
	*context = ours ? &mark_trusted : &mark_foreign;
}

static void on_mhd_log(void *cls, const char *fmt, va_list ap)
{
	(void)cls, (void)fmt, (void)ap; // what clients do wrong is answered to them
}

struct server *server_new(struct loop *l, struct engine *g, int listen_fd, struct err *e)
{
	struct server *s = xcalloc(1, sizeof *s);
	s->loop = l;
	s->engine = g;
	s->again.fn = on_again;
	s->w.fn = on_event;
	s->mhd = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, s,
				  MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, NULL, MHD_OPTION_LISTEN_SOCKET, listen_fd,
				  MHD_OPTION_CONNECTION_LIMIT, 1000u, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
				  MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_END);
	const union MHD_DaemonInfo *info = s->mhd ? MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	if (!info) {
		free(s);
		err_set(e, ERR_SYSTEM, "the HTTP server does not start");
		return NULL;
	}
	if (loop_add(l, &s->w, info->epoll_fd, LOOP_IN, e)) {
		server_free(s);
		return NULL;
	}
	return s;
}

void server_shutdown(struct server *s)
{
	s->stopping = true;
}

void server_free(struct server *s)
{
	struct err e;
	err_set(&e, ERR_UNAVAILABLE, "skepd is ending: ask again, the next one goes on from here");
	while (s->suspended) // a daemon with suspended connections can not be stopped
		request_fail(s->suspended, &e);
	loop_del(s->loop, &s->w);
	timer_clear(s->loop, &s->again);
	MHD_stop_daemon(s->mhd);
	free(s);
}

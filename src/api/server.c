// SPDX-License-Identifier: Apache-2.0
#include "api/server_int.h"

#include "api/auth.h"
#include "api/front.h"
#include "api/refused.h"
#include "base/mem.h"
#include "engine/access.h"
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS (2 * FRONT_CONNS)
#define TCP_STILL_S 60u // a client that takes nothing of its answer for so long is cut

static char mark_trusted, mark_foreign; // addresses only: what a connection's peer was found to be

// MHD_run calls handlers, so it is only called from the loop itself, never below a handler: an answer that ran the library
// would let it begin the next request while the first handler still holds what that one ends.
static void server_run(struct server *s)
{
	MHD_UNSIGNED_LONG_LONG wait;
	SERVER_CHECK(!s->inside && !s->handlers);
	loop_forget(s->loop, &s->turn);
	s->inside = true;
	s->resumed = false;
	MHD_run(s->mhd);
	// A pipelined or half-read request may be ready without a new event on the descriptor; and the library says nothing of
	// connections that were resumed while it ran.
	for (int i = 0; i < 16 && (s->resumed || (MHD_get_timeout(s->mhd, &wait) == MHD_YES && wait == 0)); i++) {
		s->resumed = false;
		MHD_run(s->mhd);
	}
	s->inside = false;
	if (s->resumed) {
		timer_set(s->loop, &s->again, 1);
		return;
	}
	if (MHD_get_timeout(s->mhd, &wait) == MHD_YES)
		timer_set(s->loop, &s->again, wait ? wait : 1);
}

static void on_event(struct watch *w, uint32_t events)
{
	(void)events;
	server_run(container_of(w, struct server, w));
}

static void on_again(struct timer *t)
{
	server_run(container_of(t, struct server, again));
}

static void on_turn(struct chore *c)
{
	server_run(container_of(c, struct server, turn));
}

void server_wake(struct server *s)
{
	s->resumed = true;
	if (!s->inside)
		loop_soon(s->loop, &s->turn);
}

static const void *mark_of(struct MHD_Connection *conn)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	return info ? info->socket_context : &mark_foreign;
}

struct front_conn *server_tcp(struct server *s, struct MHD_Connection *conn)
{
	const void *mark = mark_of(conn);
	(void)s;
	return mark == &mark_trusted || mark == &mark_foreign ? NULL : (struct front_conn *)mark;
}

// The target as it came: the library decodes it before it is split, so %2F would look like a slash.
static void *on_target(void *cls, const char *target, struct MHD_Connection *conn)
{
	return request_new(cls, conn, target);
}

// Called with the head, then per piece of body, then once with no body left; again after a resume.
static enum MHD_Result on_request(void *cls, struct MHD_Connection *conn, const char *url, const char *method,
				  const char *version, const char *data, size_t *n, void **state)
{
	const struct server *server = cls;
	struct request *r = *state;
	(void)url, (void)version;
	if (!r || mark_of(conn) == &mark_foreign || (server->ending && !r->status))
		return MHD_NO;
	if (!r->begun) {
		r->begun = true;
		request_dispatch(r, method);
		return MHD_YES;
	}
	if (*n)
		return request_body(r, data, n);
	if (!r->over)
		request_whole(r);
	if (r->status)
		return request_send(r);
	request_suspend(r);
	return MHD_YES;
}

static void on_completed(void *cls, struct MHD_Connection *conn, void **state, enum MHD_RequestTerminationCode code)
{
	struct request *r = *state;
	struct server *s = cls;
	(void)conn, (void)code;
	if (!r)
		return;
	*state = NULL;
	request_left(r);
	if (s->stopping)
		loop_stop(s->loop);
}

static void on_connection(void *cls, struct MHD_Connection *conn, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct server *s = cls;
	struct ucred peer;
	socklen_t n = sizeof peer;
	const void *mark = *context;
	if (code != MHD_CONNECTION_NOTIFY_STARTED) {
		if (mark && mark != &mark_trusted && mark != &mark_foreign)
			front_gone(*context);
		*context = NULL;
		return;
	}
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct front_conn *tcp = info ? front_by_fd(s->front, info->connect_fd) : NULL;
	if (tcp) {
		*context = tcp;
		MHD_set_connection_option(conn, MHD_CONNECTION_OPTION_TIMEOUT, TCP_STILL_S);
		return;
	}
	bool ours = info && !getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) && peer.uid == geteuid();
	*context = ours ? &mark_trusted : &mark_foreign;
}

static void on_mhd_log(void *cls, const char *fmt, va_list ap)
{
	(void)cls, (void)fmt, (void)ap; // what clients do wrong is answered to them
}

// From the door: its head is there.
static void serve_tcp(void *ctx, struct front_conn *c)
{
	struct server *s = ctx;
	socklen_t n = c->peer.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	if (MHD_add_connection(s->mhd, c->fd, (struct sockaddr *)&c->peer, n) != MHD_YES) {
		front_gone(c); // the library has closed it
		return;
	}
	server_wake(s);
}

struct front *server_front(struct server *s)
{
	return s->front;
}

struct recheck {
	struct server *s;
	const struct request *but;
};

static bool is_void(void *ctx, const struct front_conn *c)
{
	const struct recheck *k = ctx;
	const struct principal *who = c->request->who;
	return c->request != k->but && who && who->id[0] && !engine_token_lives(k->s->engine, who->id);
}

void server_recheck(struct server *s, const struct request *but)
{
	front_recheck(s->front, is_void, &(struct recheck){s, but});
}

struct server *server_new(struct loop *l, struct engine *g, const struct surface *const *surfaces, int listen_fd,
			  struct err *e)
{
	struct server *s = xcalloc(1, sizeof *s);
	s->loop = l;
	s->engine = g;
	s->surfaces = surfaces;
	s->again.fn = on_again;
	s->turn.fn = on_turn;
	s->w.fn = on_event;
	s->front = front_new(l, serve_tcp, s);
	s->mhd = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE, 0, NULL, NULL,
				  on_request, s, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, NULL, MHD_OPTION_LISTEN_SOCKET,
				  listen_fd, MHD_OPTION_URI_LOG_CALLBACK, on_target, s, MHD_OPTION_CONNECTION_LIMIT,
				  (unsigned)CONNECTIONS, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_NOTIFY_COMPLETED,
				  on_completed, s, MHD_OPTION_END);
	const union MHD_DaemonInfo *info = s->mhd ? MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	if (!info) {
		front_free(s->front);
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
	s->ending = true;
	while (s->suspended || s->upgraded) { // a daemon with such connections can not be stopped
		while (s->suspended)
			request_abandon(s->suspended, &e);
		while (s->upgraded)
			s->upgraded->on_shutdown(s->upgraded);
		server_run(s); // a request whose body still came may be suspended in it
	}
	refused_done();
	loop_flush(s->loop); // clients that went meanwhile
	loop_del(s->loop, &s->w);
	timer_clear(s->loop, &s->again);
	MHD_stop_daemon(s->mhd);
	loop_forget(s->loop, &s->turn);
	front_free(s->front);
	free(s);
}

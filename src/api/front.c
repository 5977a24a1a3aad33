// SPDX-License-Identifier: Apache-2.0
#include "api/front_int.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define SWEEP_MS 1000
#define CALM_MS 200
#define ACCEPTS 64 // in one go: others want to be served too

static const char full[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
static const char late[] = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
static const char bad[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
static const char large[] = "HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

// --- the set of connections ---

static void on_sweep(struct timer *t);

static void arm(struct front *f)
{
	if (!f->sweep.at_ms)
		timer_set(f->loop, &f->sweep, SWEEP_MS);
}

void front_wait(struct front_conn *c, uint64_t ms)
{
	if (c->closing && c->deadline && (!ms || clock_ms() + ms > c->deadline))
		return; // its end is near whatever it does
	c->deadline = ms ? clock_ms() + ms : 0;
	if (ms)
		arm(c->front);
}

static void to_end(struct front_conn *c)
{
	struct front *f = c->front;
	c->prev = f->last;
	c->next = NULL;
	*(f->last ? &f->last->next : &f->first) = c;
	f->last = c;
}

static void unlink_conn(struct front_conn *c)
{
	struct front *f = c->front;
	*(c->prev ? &c->prev->next : &f->first) = c->next;
	*(c->next ? &c->next->prev : &f->last) = c->prev;
}

void front_gone(struct front_conn *c)
{
	struct front *f = c->front;
	struct listener *l = c->listener;
	if (c->w.fd >= 0)
		loop_del(f->loop, &c->w);
	unlink_conn(c);
	f->n--;
	f->by_fd[c->fd] = NULL;
	c->fd = -1;
	l->n_conns--;
	listener_settle(l);
	loop_bury(f->loop, c, free);
}

void front_close(struct front_conn *c)
{
	int fd = c->fd;
	front_gone(c);
	close(fd);
}

// Said without waiting: a socket that takes no hundred bytes gets none.
static void refuse(struct front_conn *c, const char *text)
{
	if (send(c->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
		shutdown(c->fd, SHUT_WR);
	front_close(c);
}

struct front_conn *front_by_fd(struct front *f, int fd)
{
	struct front_conn *c = fd >= 0 && fd < f->n_by_fd ? f->by_fd[fd] : NULL;
	return c && c->state == FRONT_SERVED ? c : NULL;
}

static void remember(struct front *f, struct front_conn *c)
{
	if (c->fd >= f->n_by_fd) {
		int n = c->fd + 256;
		f->by_fd = xrealloc(f->by_fd, (size_t)n * sizeof *f->by_fd);
		memset(f->by_fd + f->n_by_fd, 0, (size_t)(n - f->n_by_fd) * sizeof *f->by_fd);
		f->n_by_fd = n;
	}
	f->by_fd[c->fd] = c;
	f->n++;
	to_end(c);
}

// Cut from outside: the HTTP server sees the end of it and cleans up.
static void cut(struct front_conn *c)
{
	c->deadline = c->until = 0;
	shutdown(c->fd, SHUT_RDWR);
}

void front_until(struct front_conn *c, uint64_t unix_ms)
{
	c->until = unix_ms;
	if (unix_ms)
		arm(c->front);
}

void front_recheck(struct front *f, bool (*is_void)(void *ctx, const struct front_conn *c), void *ctx)
{
	for (struct front_conn *c = f->first; c; c = c->next)
		if (c->state == FRONT_TAKEN ? f->taker->is_void(f->taker->ctx, c) : c->request && is_void(ctx, c))
			cut(c);
}

static void on_sweep(struct timer *t)
{
	struct front *f = container_of(t, struct front, sweep);
	uint64_t now = clock_ms(), unix_ms = clock_unix_ms();
	bool more = false;
	for (struct front_conn *c = f->first, *next; c; c = next) {
		next = c->next;
		if (c->deadline && c->deadline <= now) {
			if (c->state == FRONT_NEW)
				refuse(c, late);
			else
				cut(c);
		} else if (c->until && c->until <= unix_ms) {
			cut(c);
		} else {
			more |= c->deadline || c->until;
		}
	}
	if (more)
		arm(f);
}

// --- a new one ---

static bool only_waits(const struct front_conn *c)
{
	return c->state == FRONT_NEW || (c->state == FRONT_SERVED && !c->request && c->deadline);
}

static bool same_peer(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr == ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, &((const struct sockaddr_in6 *)b)->sin6_addr, 8); // a /64
}

bool sockaddr_is_loopback(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)a)->sin6_addr;
	return a->ss_family == AF_INET6 && (IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127));
}

// Makes room for one more: who has waited longest, of the same address or of all, goes.
static bool make_room(struct front *f, const struct sockaddr_storage *peer)
{
	struct front_conn *idle = NULL, *idle_peer = NULL;
	int of_peer = 0;
	bool local = sockaddr_is_loopback(peer);
	for (struct front_conn *c = f->first; c; c = c->next) {
		bool same = !local && same_peer(&c->peer, peer);
		of_peer += same;
		if (only_waits(c) && !idle)
			idle = c;
		if (only_waits(c) && same && !idle_peer)
			idle_peer = c;
	}
	if (f->n < f->max && of_peer < FRONT_CONNS_PEER)
		return true;
	struct front_conn *goes = of_peer >= FRONT_CONNS_PEER ? idle_peer : idle;
	if (!goes)
		return false;
	if (goes->state == FRONT_NEW)
		front_close(goes);
	else
		cut(goes);
	return true;
}

static void hand_on(struct front_conn *c, const struct http_head *h)
{
	struct front *f = c->front;
	int one = 1;
	loop_del(f->loop, &c->w);
	c->deadline = 0;
	setsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
	c->behind_proxy = http_head_get(h, "X-Forwarded-For").p || http_head_get(h, "Forwarded").p || http_head_get(h, "Via").p;
	if (f->taker && f->taker->wants(f->taker->ctx, h)) {
		c->state = FRONT_TAKEN;
		(f->taker->take)(f->taker->ctx, c, h);
		return;
	}
	c->state = FRONT_SERVED;
	front_wait(c, FRONT_HEAD_MS); // until the server has read it
	f->serve(f->ctx, c);
}

static int count(const struct http_head *h, const char *name)
{
	int n = 0;
	for (int i = 0; i < h->n_fields; i++)
		n += http_name_is(h->fields[i].name, name);
	return n;
}

static void on_readable(struct watch *w, uint32_t events)
{
	static char bytes[FRONT_HEAD_MAX];
	struct front_conn *c = container_of(w, struct front_conn, w);
	struct http_head h;
	struct err e;
	ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		front_close(c);
		return;
	}
	ssize_t used = http_request_parse(bytes, (size_t)n, &h, &e);
	if (used < 0 || (used > 0 && count(&h, "Host") > 1)) { // two readers could choose another one each
		refuse(c, bad);
	} else if (used > 0) {
		hand_on(c, &h);
	} else if (n == (ssize_t)sizeof bytes) {
		refuse(c, large);
	} else if (events & (LOOP_RDHUP | LOOP_HUP | LOOP_ERR)) {
		front_close(c);
	} else { // what is there stays there: be woken by more, not by the same again
		int more = (int)n + 1;
		if (setsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &more, sizeof more))
			front_close(c);
	}
}

static void await_head(struct front_conn *c, uint64_t ms)
{
	struct err e;
	c->state = FRONT_NEW;
	c->w.fn = on_readable;
	front_wait(c, ms);
	if (loop_add(c->front->loop, &c->w, c->fd, LOOP_IN | LOOP_RDHUP, &e)) {
		log_line(LOG_WARN, "%s", e.msg);
		front_close(c);
	}
}

void front_again(struct front_conn *c)
{
	if (c->closing) {
		front_close(c);
		return;
	}
	unlink_conn(c); // the list is in the order of waiting
	to_end(c);
	await_head(c, FRONT_IDLE_MS);
}

static void add(struct listener *l, int fd, const struct sockaddr_storage *peer)
{
	struct front *f = l->front;
	struct front_conn *c = xcalloc(1, sizeof *c);
	int one = 1;
	*c = (struct front_conn){.front = f, .listener = l, .fd = fd, .peer = *peer, .w.fd = -1};
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){30}, sizeof(int)); // who went without a word is noticed in a minute
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &(int){10}, sizeof(int));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &(int){3}, sizeof(int));
	l->n_conns++;
	bool room = make_room(f, peer);
	remember(f, c);
	if (room)
		await_head(c, FRONT_HEAD_MS);
	else
		refuse(c, full);
}

static void on_calm(struct timer *t)
{
	struct listener *l = container_of(t, struct listener, calm);
	if (!l->closed)
		loop_mod(l->front->loop, &l->w, LOOP_IN);
}

void listener_ready(struct watch *w, uint32_t events)
{
	struct listener *l = container_of(w, struct listener, w);
	(void)events;
	for (int i = 0; i < ACCEPTS; i++) {
		struct sockaddr_storage peer = {0};
		socklen_t n = sizeof peer;
		int fd = accept4(w->fd, (struct sockaddr *)&peer, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			add(l, fd, &peer);
			continue;
		}
		if (errno == ECONNABORTED || errno == EINTR)
			continue;
		if (errno != EAGAIN) { // no descriptors or no memory: the backlog would wake us for ever
			log_line(LOG_WARN, "accept on %s: %s", l->address, strerror(errno));
			loop_mod(l->front->loop, w, 0);
			l->calm.fn = on_calm;
			timer_set(l->front->loop, &l->calm, CALM_MS);
		}
		return;
	}
}

// --- the whole ---

struct front *front_new(struct loop *l, void (*serve)(void *ctx, struct front_conn *c), void *ctx)
{
	struct front *f = xcalloc(1, sizeof *f);
	struct rlimit r;
	*f = (struct front){.loop = l, .serve = serve, .ctx = ctx, .sweep.fn = on_sweep, .max = FRONT_CONNS};
	if (!getrlimit(RLIMIT_NOFILE, &r) && r.rlim_cur / 2 < FRONT_CONNS) // the rest is for cells and files
		f->max = (int)(r.rlim_cur / 2);
	return f;
}

void front_set_taker(struct front *f, const struct front_taker *t)
{
	f->taker = t;
}

const struct front_taker *front_get_taker(const struct front *f)
{
	return f->taker;
}

void front_free(struct front *f)
{
	if (f->taker && f->taker->stop)
		f->taker->stop(f->taker->ctx);
	while (f->first)
		front_close(f->first);
	while (f->listeners)
		front_unlisten(f->listeners);
	timer_clear(f->loop, &f->sweep);
	free(f->by_fd);
	free(f);
}

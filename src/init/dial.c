// SPDX-License-Identifier: Apache-2.0
// Only 127.0.0.1 and ::1 can be named, so what is reached is the cell's own whatever its network is. A port is tried on
// both: servers that bind `localhost` take one or the other.
#include "init/dial.h"

#include "base/mem.h"
#include "base/str.h"
#include "model/limits.h"
#include "model/msg.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FDS_QUEUED 14 // descriptors that may wait in the channel, which is cut past 16

struct dial {
	struct watch w;
	struct timer late;
	struct loop *loop;
	struct chan *chan;
	uint32_t id;
	uint16_t port; // 0: a path
	int family;
};

static void fail(struct chan *c, uint32_t id, const struct err *e)
{
	auto_buf struct buf b = BUF_INIT(4096);
	wire_u32(&b, e->kind);
	wire_u32(&b, (uint32_t)e->sys);
	wire_str(&b, e->msg);
	chan_send_buf(c, M_DIALLED, id, &b);
}

static void answer(struct chan *c, uint32_t id, int fd)
{
	struct err e;
	if (c->n_fds_out < FDS_QUEUED) {
		chan_send_fd(c, M_DIALLED, id, NULL, 0, fd);
		return;
	}
	err_set(&e, ERR_LIMIT, "too many connections into the sandbox at once: try again");
	fail(c, id, &e);
}

static int refused(struct err *e, uint16_t port, int sys)
{
	errno = sys;
	if (sys != ECONNREFUSED)
		return err_sys(e, "connect to port %u of the sandbox", port);
	err_set(e, ERR_UNAVAILABLE, "nothing listens on port %u of the sandbox", port);
	e->sys = sys;
	return -1;
}

// 0: under way or done.
static int begin(int fd, int family, uint16_t port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int rc = family == AF_INET ? connect(fd, (struct sockaddr *)&v4, sizeof v4) : connect(fd, (struct sockaddr *)&v6, sizeof v6);
	return rc && errno != EINPROGRESS ? -1 : 0;
}

static int open_socket(int family)
{
	int one = 1, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	return fd;
}

static void dial_free(void *obj)
{
	free(obj);
}

static void finish(struct dial *d)
{
	int fd = d->w.fd;
	loop_del(d->loop, &d->w);
	timer_clear(d->loop, &d->late);
	close_fd(&fd);
	loop_bury(d->loop, d, dial_free);
}

static bool try_next(struct dial *d);

static void on_settled(struct watch *w, uint32_t events)
{
	struct dial *d = container_of(w, struct dial, w);
	int sys = 0;
	socklen_t len = sizeof sys;
	struct err e;
	(void)events;
	if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &sys, &len))
		sys = errno;
	if (sys && try_next(d))
		return;
	if (sys) {
		refused(&e, d->port, sys);
		fail(d->chan, d->id, &e);
	} else {
		answer(d->chan, d->id, w->fd);
	}
	finish(d);
}

static bool try_next(struct dial *d)
{
	struct err e;
	if (d->family != AF_INET)
		return false;
	auto_fd int fd = open_socket(AF_INET6);
	if (fd < 0 || begin(fd, AF_INET6, d->port))
		return false;
	int old = d->w.fd;
	loop_del(d->loop, &d->w);
	close_fd(&old);
	d->family = AF_INET6;
	if (loop_add(d->loop, &d->w, fd, LOOP_OUT, &e)) {
		fail(d->chan, d->id, &e);
		finish(d);
		return true;
	}
	take_fd(&fd);
	return true;
}

static void on_late(struct timer *t)
{
	struct dial *d = container_of(t, struct dial, late);
	struct err e;
	err_set(&e, ERR_TIMEOUT, "port %u of the sandbox does not take connections", d->port);
	fail(d->chan, d->id, &e);
	finish(d);
}

static int dial_port(struct loop *l, struct chan *c, uint32_t id, uint16_t port, struct err *e)
{
	int family = AF_INET;
	auto_fd int fd = open_socket(family);
	if (fd < 0)
		return err_sys(e, "make a socket in the sandbox");
	if (begin(fd, family, port)) {
		int first = errno; // what the other one says, where there is no IPv6, explains nothing
		close_fd(&fd);
		family = AF_INET6;
		fd = open_socket(family);
		if (fd < 0 || begin(fd, family, port))
			return refused(e, port, first);
	}
	struct dial *d = xcalloc(1, sizeof *d);
	*d = (struct dial){.w = {.fd = -1, .fn = on_settled}, .late.fn = on_late, .loop = l, .chan = c, .id = id, .port = port, .family = family};
	if (loop_add(l, &d->w, fd, LOOP_OUT, e)) {
		free(d);
		return -1;
	}
	take_fd(&fd);
	timer_set(l, &d->late, LIMIT_DIAL_MS);
	return 0;
}

// A socket in the file system connects at once or not at all.
static int dial_path(struct chan *c, uint32_t id, const char *path, struct err *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	if (path[0] != '/' || fmt_to(a.sun_path, sizeof a.sun_path, "%s", path))
		return err_set(e, ERR_INVALID, "the path of a socket is absolute and shorter than %zu bytes", sizeof a.sun_path);
	auto_fd int fd = open_socket(AF_UNIX);
	if (fd < 0)
		return err_sys(e, "make a socket in the sandbox");
	if (connect(fd, (struct sockaddr *)&a, sizeof a))
		return err_sys(e, "connect to %s in the sandbox", path);
	answer(c, id, fd);
	return 0;
}

void dial_ask(struct loop *l, struct chan *c, const struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	struct err e;
	uint32_t port = wire_get_u32(&w);
	auto_free char *path = wire_get_str(&w);
	int rc;
	if (w.bad || port > UINT16_MAX || !port == !path)
		rc = err_set(&e, ERR_INVALID, "a port from 1 to 65535 is asked for, or a path");
	else
		rc = port ? dial_port(l, c, f->id, (uint16_t)port, &e) : dial_path(c, f->id, path, &e);
	if (rc)
		fail(c, f->id, &e);
}

// SPDX-License-Identifier: Apache-2.0
#include "base/flow.h"

#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK (128u << 10)

struct flow {
	struct watch w;
	struct timer soon;
	struct loop *loop; // NULL before flow_start
	int fd;
	const struct flow_ops *ops;
	void *ctx;
	struct buf out;
	bool paused, in_over, out_over, broken, hung_up, over;
};

struct flow *flow_new(int fd)
{
	struct flow *f = xcalloc(1, sizeof *f);
	f->fd = fd;
	f->w.fd = -1;
	f->out = BUF_INIT(FLOW_MAX);
	return f;
}

static void broken(struct flow *f, const struct err *e);

static void flow_free(void *obj)
{
	struct flow *f = obj;
	close_fd(&f->fd);
	buf_done(&f->out);
	free(f);
}

void flow_close(struct flow *f)
{
	if (!f || f->over)
		return;
	f->over = true;
	if (!f->loop) {
		flow_free(f);
		return;
	}
	timer_clear(f->loop, &f->soon);
	loop_del(f->loop, &f->w);
	close_fd(&f->fd);
	loop_bury(f->loop, f, flow_free);
}

// A hang-up is told by the kernel whether asked for or not: who does not read is taken out of the loop meanwhile.
static void set_interest(struct flow *f)
{
	struct err e;
	if (f->over || !f->loop)
		return;
	uint32_t want = (f->paused || f->in_over ? 0 : LOOP_IN) | (f->out.n ? LOOP_OUT : 0);
	if (!want && f->hung_up)
		loop_del(f->loop, &f->w);
	else if (f->w.fd >= 0)
		loop_mod(f->loop, &f->w, want);
	else if (loop_add(f->loop, &f->w, f->fd, want, &e))
		broken(f, &e);
}

static void broken(struct flow *f, const struct err *e)
{
	if (f->broken || f->over)
		return;
	buf_clear(&f->out);
	f->broken = f->out_over = f->in_over = f->hung_up = true;
	set_interest(f);
	f->ops->end(f->ctx, e);
}

// False: it is broken, errno says why.
static bool flush(struct flow *f)
{
	size_t done = 0;
	while (done < f->out.n) {
		ssize_t n = send(f->fd, f->out.p + done, f->out.n - done, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (n < 0)
			return false;
		done += (size_t)n;
	}
	buf_cut(&f->out, done);
	return true;
}

static void drained(struct flow *f)
{
	if (f->out_over)
		shutdown(f->fd, SHUT_WR);
	if (f->ops->drain)
		f->ops->drain(f->ctx);
}

static void on_readable(struct flow *f)
{
	static char bytes[CHUNK];
	struct err e;
	ssize_t n = recv(f->fd, bytes, sizeof bytes, 0);
	if (n > 0) {
		f->ops->data(f->ctx, bytes, (size_t)n);
	} else if (!n) {
		f->in_over = true;
		f->ops->end(f->ctx, NULL);
	} else if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
		err_sys(&e, "receive");
		broken(f, &e);
	}
}

static void on_event(struct watch *w, uint32_t events)
{
	struct flow *f = container_of(w, struct flow, w);
	struct err e;
	f->hung_up = events & (LOOP_HUP | LOOP_ERR);
	if (f->out.n && events & (LOOP_OUT | LOOP_HUP | LOOP_ERR)) {
		if (!flush(f)) {
			err_sys(&e, "send");
			broken(f, &e);
		} else if (!f->out.n) {
			drained(f);
		}
	}
	if (!f->over && !f->paused && !f->in_over && events & (LOOP_IN | LOOP_HUP | LOOP_ERR))
		on_readable(f);
	set_interest(f);
}

int flow_start(struct flow *f, struct loop *l, const struct flow_ops *ops, void *ctx, struct err *e)
{
	int flags = fcntl(f->fd, F_GETFL);
	if (flags < 0 || fcntl(f->fd, F_SETFL, flags | O_NONBLOCK))
		return err_sys(e, "make a connection non-blocking");
	f->ops = ops;
	f->ctx = ctx;
	f->w.fn = on_event;
	if (loop_add(l, &f->w, f->fd, LOOP_IN, e))
		return -1;
	f->loop = l;
	set_interest(f);
	return 0;
}

void flow_pause(struct flow *f, bool on)
{
	if (f->over || f->paused == on)
		return;
	f->paused = on;
	set_interest(f);
}

size_t flow_queued(const struct flow *f)
{
	return f->out.n;
}

static void on_soon(struct timer *t)
{
	struct flow *f = container_of(t, struct flow, soon);
	struct err e;
	if (f->out.overflow)
		err_set(&e, ERR_LIMIT, "more waits to be sent than is kept");
	else
		err_set(&e, ERR_UNAVAILABLE, "the other side is gone");
	broken(f, &e);
}

// Told from the loop: who sends need not expect to be called back.
static bool break_soon(struct flow *f)
{
	f->out_over = true;
	f->soon.fn = on_soon;
	timer_set(f->loop, &f->soon, 0);
	return false;
}

bool flow_send(struct flow *f, const void *p, size_t n)
{
	size_t done = 0;
	if (f->over || f->out_over)
		return false;
	while (!f->out.n && done < n) {
		ssize_t k = send(f->fd, (const char *)p + done, n - done, MSG_NOSIGNAL);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
			return break_soon(f);
		if (k < 0)
			break;
		done += (size_t)k;
	}
	buf_add(&f->out, (const char *)p + done, n - done);
	if (f->out.overflow)
		return break_soon(f);
	set_interest(f);
	return f->out.n < FLOW_HIGH;
}

void flow_eof(struct flow *f)
{
	if (f->over || f->out_over)
		return;
	f->out_over = true;
	if (!f->out.n)
		shutdown(f->fd, SHUT_WR);
}

int flow_detach(struct flow *f)
{
	int fd = -1;
	if (f->over)
		return -1;
	if (f->loop)
		loop_del(f->loop, &f->w);
	fd = take_fd(&f->fd);
	flow_close(f);
	return fd;
}

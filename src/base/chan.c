// SPDX-License-Identifier: Apache-2.0
#include "base/chan.h"

#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_FIRST 4000u	 // most channels carry a few small frames in their life
#define READ_CHUNK (256u << 10) // once one carried a stream
#define GATHER (32u << 10)	 // bytes that may wait for the end of the round

static void on_flush(struct chore *t);
static void on_later(struct timer *t);

void chan_init(struct chan *c, int fd)
{
	*c = (struct chan){
		.flush.fn = on_flush,
		.later.fn = on_later,
		.w.fd = -1,
		.fd = fd,
		.chunk = READ_FIRST,
		.in = BUF_INIT(FRAME_HEAD + FRAME_MAX + READ_CHUNK),
		.out = BUF_INIT(CHAN_QUEUE),
	};
}

bool chan_is_open(const struct chan *c)
{
	return c->fd >= 0 && !c->dead;
}

void chan_close(struct chan *c)
{
	if (c->loop) {
		loop_forget(c->loop, &c->flush);
		timer_clear(c->loop, &c->later);
		loop_del(c->loop, &c->w);
	}
	close_fd(&c->fd);
	for (int i = 0; i < c->n_fds_in; i++)
		close(c->fds_in[i]);
	for (int i = 0; i < c->n_fds_out; i++)
		close(c->fds_out[i]);
	c->n_fds_in = c->n_fds_out = 0;
	buf_done(&c->in);
	buf_done(&c->out);
}

static void set_interest(struct chan *c)
{
	if (c->loop)
		loop_mod(c->loop, &c->w, (c->paused ? 0 : LOOP_IN) | (c->blocked ? LOOP_OUT : 0));
}

// Sends from the queue what the kernel takes. A descriptor goes with the first byte of its frame, so a
// send never runs past the start of the next frame that carries one. -1 when the peer is gone.
static int flush_queue(struct chan *c)
{
	size_t done = 0;
	while (done < c->out.n) {
		union {
			struct cmsghdr align;
			char room[CMSG_SPACE(sizeof(int))];
		} ctl = {0};
		struct iovec iov = {c->out.p + done, c->out.n - done};
		struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
		bool with_fd = c->n_fds_out && c->fds_out_at[0] == done;
		size_t next = with_fd ? 1 : 0;
		if (c->n_fds_out > (int)next)
			iov.iov_len = c->fds_out_at[next] - done;
		if (with_fd) {
			msg.msg_control = ctl.room;
			msg.msg_controllen = sizeof ctl.room;
			struct cmsghdr *cm = CMSG_FIRSTHDR(&msg);
			cm->cmsg_level = SOL_SOCKET;
			cm->cmsg_type = SCM_RIGHTS;
			cm->cmsg_len = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(cm), &c->fds_out[0], sizeof(int));
		}
		ssize_t n = sendmsg(c->fd, &msg, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (n < 0)
			return -1;
		if (with_fd) {
			close(c->fds_out[0]);
			c->n_fds_out--;
			memmove(c->fds_out, c->fds_out + 1, (size_t)c->n_fds_out * sizeof *c->fds_out);
			memmove(c->fds_out_at, c->fds_out_at + 1, (size_t)c->n_fds_out * sizeof *c->fds_out_at);
		}
		done += (size_t)n;
	}
	for (int i = 0; i < c->n_fds_out; i++)
		c->fds_out_at[i] -= done;
	buf_cut(&c->out, done);
	c->blocked = c->out.n;
	return 0;
}

static void cut_off(struct chan *c)
{
	shutdown(c->fd, SHUT_RDWR); // the loop sees the hang-up and calls on_close
}

static bool flush_now(struct chan *c)
{
	if (c->later.at_ms)
		timer_clear(c->loop, &c->later);
	if (flush_queue(c)) {
		cut_off(c);
		return false;
	}
	if (c->blocked)
		set_interest(c);
	return true;
}

static void on_flush(struct chore *t)
{
	struct chan *c = container_of(t, struct chan, flush);
	if (chan_is_open(c) && !c->blocked)
		flush_now(c);
}

static void on_later(struct timer *t)
{
	on_flush(&container_of(t, struct chan, later)->flush);
}

void chan_flush(struct chan *c)
{
	on_flush(&c->flush);
}

static bool put_frame(struct chan *c, const struct frame *f)
{
	uint8_t head[FRAME_HEAD] = {f->n, f->n >> 8, f->n >> 16, f->n >> 24, f->type, f->stream, f->fd >= 0, 0,
				    f->id, f->id >> 8, f->id >> 16, f->id >> 24};
	if (!chan_is_open(c))
		return false;
	if (f->fd >= 0) {
		int copy = c->n_fds_out < (int)countof(c->fds_out) ? fcntl(f->fd, F_DUPFD_CLOEXEC, 3) : -1;
		if (copy < 0) {
			cut_off(c);
			return false;
		}
		c->fds_out_at[c->n_fds_out] = c->out.n;
		c->fds_out[c->n_fds_out++] = copy;
	}
	buf_add(&c->out, head, sizeof head);
	buf_add(&c->out, f->p, f->n);
	if (c->out.overflow || f->n > FRAME_MAX) {
		cut_off(c);
		return false;
	}
	return true;
}

static bool queue_frame(struct chan *c, const struct frame *f)
{
	if (!put_frame(c, f))
		return false;
	if (c->blocked)
		return true;
	if (!c->loop || !c->loop->busy || f->fd >= 0 || c->out.n > GATHER)
		return flush_now(c);
	loop_soon(c->loop, &c->flush);
	return true;
}

bool chan_send(struct chan *c, uint8_t type, uint8_t stream, uint32_t id, const void *p, size_t n)
{
	return queue_frame(c, &(struct frame){type, stream, id, p, n, -1});
}

bool chan_send_later(struct chan *c, uint8_t type, uint8_t stream, uint32_t id, const void *p, size_t n)
{
	struct frame f = {type, stream, id, p, n, -1};
	if (!c->loop)
		return queue_frame(c, &f);
	if (!put_frame(c, &f))
		return false;
	if (!c->blocked && !c->later.at_ms)
		timer_set(c->loop, &c->later, CHAN_LATER_MS);
	return true;
}

bool chan_send_buf(struct chan *c, uint8_t type, uint32_t id, const struct buf *b)
{
	return !b->overflow && chan_send(c, type, 0, id, b->p, b->n);
}

bool chan_send_fd(struct chan *c, uint8_t type, uint32_t id, const void *p, size_t n, int fd)
{
	return queue_frame(c, &(struct frame){type, 0, id, p, n, fd});
}

bool chan_send_fd_on(struct chan *c, uint8_t type, uint8_t stream, int fd)
{
	return queue_frame(c, &(struct frame){type, stream, 0, NULL, 0, fd});
}

size_t chan_queued(const struct chan *c)
{
	return c->out.n;
}

void chan_pause(struct chan *c, bool paused)
{
	if (c->paused != paused) {
		c->paused = paused;
		set_interest(c);
		if (!paused && c->loop && c->in.n) // frames may wait here though the peer sends nothing more
			loop_mod(c->loop, &c->w, LOOP_IN | LOOP_OUT);
	}
}

// One recvmsg. 1 = bytes came, 0 = nothing now, -1 = end or error.
static int fill(struct chan *c)
{
	char *room = buf_room(&c->in, c->chunk);
	if (!room)
		return -1;
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int) * 16)];
	} ctl;
	struct iovec iov = {room, c->chunk};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.room, .msg_controllen = sizeof ctl.room};
	ssize_t n = recvmsg(c->fd, &msg, MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
	for (struct cmsghdr *cm = n ? CMSG_FIRSTHDR(&msg) : NULL; cm; cm = CMSG_NXTHDR(&msg, cm)) {
		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		size_t k = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < k; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(cm) + i * sizeof fd, sizeof fd);
			if (c->n_fds_in < (int)countof(c->fds_in))
				c->fds_in[c->n_fds_in++] = fd;
			else
				close(fd);
		}
	}
	if (!n)
		return -1;
	c->in.n += (size_t)n;
	if ((size_t)n == c->chunk)
		c->chunk = READ_CHUNK;
	return 1;
}

// Takes the next whole frame at *at. 1 = a frame, 0 = not yet, -1 = protocol error.
static int next_frame(struct chan *c, size_t *at, struct frame *f)
{
	if (c->in.n - *at < FRAME_HEAD)
		return 0;
	const uint8_t *h = (const uint8_t *)c->in.p + *at;
	uint32_t n = h[0] | h[1] << 8 | h[2] << 16 | (uint32_t)h[3] << 24;
	if (n > FRAME_MAX || h[7])
		return -1;
	if (c->in.n - *at < FRAME_HEAD + n)
		return 0;
	*f = (struct frame){h[4], h[5], h[8] | h[9] << 8 | h[10] << 16 | (uint32_t)h[11] << 24, h + FRAME_HEAD, n, -1};
	if (h[6]) {
		if (!c->n_fds_in)
			return -1;
		f->fd = c->fds_in[0];
		memmove(c->fds_in, c->fds_in + 1, (size_t)--c->n_fds_in * sizeof *c->fds_in);
	}
	*at += FRAME_HEAD + n;
	return 1;
}

static int deliver(struct chan *c)
{
	size_t at = 0;
	int rc = 1;
	while (chan_is_open(c) && (!c->paused || c->ending) && rc == 1) {
		struct frame f;
		rc = next_frame(c, &at, &f);
		if (rc == 1) {
			c->on_frame(c, &f);
			close_fd(&f.fd);
		}
	}
	if (chan_is_open(c))
		buf_cut(&c->in, at);
	return rc;
}

// What the peer sent before it closed still counts: frames that wait here, and those in the socket.
static void deliver_rest(struct chan *c)
{
	c->ending = true;
	int rc = deliver(c);
	while (rc >= 0 && chan_is_open(c) && fill(c) > 0)
		rc = deliver(c);
}

static void on_event(struct watch *w, uint32_t events)
{
	struct chan *c = container_of(w, struct chan, w);
	bool bad = false, had = c->blocked;
	if (events & LOOP_OUT)
		bad = flush_queue(c) < 0;
	if (c->paused && (events & (LOOP_HUP | LOOP_ERR)))
		bad = true;
	if (bad)
		deliver_rest(c);
	if (!bad && !c->paused && c->in.n)
		bad = deliver(c) < 0;
	if (chan_is_open(c) && !bad && !c->paused && (events & (LOOP_IN | LOOP_HUP | LOOP_ERR))) {
		int got = fill(c);
		bad = got < 0;
		if (got > 0 && deliver(c) < 0)
			bad = true;
	}
	if (!chan_is_open(c))
		return;
	if (bad) {
		loop_del(c->loop, w);
		c->dead = true;
		c->on_close(c);
		return;
	}
	set_interest(c);
	if (had && !c->blocked && c->on_drain)
		c->on_drain(c);
}

int chan_attach(struct chan *c, struct loop *l, struct err *e)
{
	if (fcntl(c->fd, F_SETFL, O_NONBLOCK))
		return err_sys(e, "make a channel non-blocking");
	c->w.fn = on_event;
	if (loop_add(l, &c->w, c->fd, LOOP_IN | (c->blocked ? LOOP_OUT : 0), e))
		return -1;
	c->loop = l;
	buf_cut(&c->in, c->taken);
	c->taken = 0;
	return c->in.n && deliver(c) < 0 ? err_set(e, ERR_INVALID, "malformed frame") : 0;
}

int chan_recv(struct chan *c, struct frame *out, struct err *e)
{
	buf_cut(&c->in, c->taken);
	c->taken = 0;
	for (;;) {
		int rc = next_frame(c, &c->taken, out);
		if (rc < 0)
			return err_set(e, ERR_INVALID, "malformed frame");
		if (rc)
			return 0;
		errno = 0;
		int got = fill(c);
		if (got < 0)
			return err_set(e, ERR_UNAVAILABLE, "the other end closed the channel");
		if (!got && errno != EINTR)
			return err_set(e, ERR_TIMEOUT, "the other end does not answer");
	}
}

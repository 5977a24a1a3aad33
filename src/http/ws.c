// SPDX-License-Identifier: Apache-2.0
#include "http/ws.h"

#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <wslay/wslay.h>

#define PING_MS 30000
#define SILENCES 3	 // pings without a byte from the peer
#define GOODBYE_MS 5000	 // for its answer to our close
#define LAST_MS 60000	 // for a slow reader to take what was sent before it
#define ROUND (256u << 10) // bytes read before others get their turn

struct ws {
	struct loop *loop;
	struct watch w;
	struct timer tick;
	struct chore flush;
	wslay_event_context_ptr ev;
	const struct ws_ops *ops;
	void *ctx;
	struct buf extra;
	size_t read; // in this round
	int silent;
	bool paused, closing, over, dead;
	enum ws_code code; // to close with, once what was sent has left: wslay would send a close first; 0 = none
	char reason[124];
};

static void ws_free(void *obj)
{
	struct ws *w = obj;
	wslay_event_context_free(w->ev);
	buf_done(&w->extra);
	free(w);
}

static void finish(struct ws *w)
{
	if (w->over)
		return;
	w->over = true;
	loop_del(w->loop, &w->w);
	timer_clear(w->loop, &w->tick);
	loop_forget(w->loop, &w->flush);
	w->ops->closed(w->ctx);
	loop_bury(w->loop, w, ws_free);
}

static void set_interest(struct ws *w)
{
	if (!w->over)
		loop_mod(w->loop, &w->w, (w->paused ? 0 : LOOP_IN) | (wslay_event_want_write(w->ev) || (w->extra.n && !w->paused) ? LOOP_OUT : 0));
}

static void send_now(struct ws *w)
{
	bool waited = wslay_event_get_queued_msg_length(w->ev);
	if (w->over)
		return;
	if (wslay_event_send(w->ev))
		w->dead = true;
	if (w->code && !w->dead && !wslay_event_get_queued_msg_length(w->ev)) {
		w->dead = wslay_event_queue_close(w->ev, (uint16_t)w->code, (const uint8_t *)w->reason, strlen(w->reason)) ||
			  wslay_event_send(w->ev);
		w->code = 0;
		timer_set(w->loop, &w->tick, GOODBYE_MS);
	}
	// After a malformed frame nothing more is read, so its close is not waited for.
	bool heard = wslay_event_get_close_received(w->ev) || !wslay_event_get_read_enabled(w->ev);
	if (w->dead || (heard && wslay_event_get_close_sent(w->ev))) {
		finish(w);
		return;
	}
	set_interest(w);
	if (waited && !w->closing && !wslay_event_get_queued_msg_length(w->ev))
		w->ops->drained(w->ctx);
}

static void on_flush(struct chore *c)
{
	send_now(container_of(c, struct ws, flush));
}

// --- wslay's callbacks ---

static ssize_t on_recv(wslay_event_context_ptr ev, uint8_t *p, size_t n, int flags, void *ctx)
{
	struct ws *w = ctx;
	(void)flags;
	if (w->extra.n && !w->paused) {
		n = n < w->extra.n ? n : w->extra.n;
		memcpy(p, w->extra.p, n);
		buf_cut(&w->extra, n);
		return (ssize_t)n;
	}
	ssize_t got = -1;
	errno = EAGAIN;
	if (!w->paused && w->read < ROUND)
		got = recv(w->w.fd, p, n, MSG_DONTWAIT);
	if (got > 0) {
		w->read += (size_t)got;
		w->silent = 0;
		return got;
	}
	bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
	wslay_event_set_error(ev, later ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
	return -1;
}

static ssize_t on_send(wslay_event_context_ptr ev, const uint8_t *p, size_t n, int flags, void *ctx)
{
	struct ws *w = ctx;
	(void)flags;
	ssize_t sent = send(w->w.fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent >= 0)
		return sent;
	wslay_event_set_error(ev, errno == EAGAIN || errno == EINTR ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
	return -1;
}

static void on_message(wslay_event_context_ptr ev, const struct wslay_event_on_msg_recv_arg *arg, void *ctx)
{
	struct ws *w = ctx;
	(void)ev;
	if (wslay_is_ctrl_frame(arg->opcode) || w->closing)
		return; // pings and closes are answered below us
	w->ops->message(w->ctx, arg->opcode == WSLAY_TEXT_FRAME, arg->msg, arg->msg_length);
}

// --- the loop ---

static void read_some(struct ws *w)
{
	w->read = 0;
	if (wslay_event_recv(w->ev))
		w->dead = true; // gone, or out of memory; what is wrong in a frame is answered with a close
}

// What the peer sent before it closed still counts, as far as its messages are taken.
static void read_rest(struct ws *w)
{
	do
		read_some(w);
	while (!w->dead && w->read && !w->paused && wslay_event_get_read_enabled(w->ev));
	w->dead = true;
}

static void on_event(struct watch *x, uint32_t events)
{
	struct ws *w = container_of(x, struct ws, w);
	if (events & (LOOP_ERR | LOOP_HUP))
		read_rest(w);
	else if (events & LOOP_IN || w->extra.n)
		read_some(w);
	if (w->dead)
		finish(w);
	else
		send_now(w);
}

static void on_tick(struct timer *t)
{
	struct ws *w = container_of(t, struct ws, tick);
	struct wslay_event_msg ping = {.opcode = WSLAY_PING};
	// One that does not read gets no ping through, and one that we do not read shows no life: both are only slow.
	bool slow = w->paused || wslay_event_get_queued_msg_length(w->ev);
	if (w->closing || (!slow && ++w->silent > SILENCES)) {
		finish(w);
		return;
	}
	timer_set(w->loop, t, PING_MS);
	if (!slow && !wslay_event_queue_msg(w->ev, &ping))
		send_now(w);
}

struct ws *ws_open(struct loop *l, int fd, const void *extra, size_t n, const struct ws_ops *ops, void *ctx, struct err *e)
{
	static const struct wslay_event_callbacks calls = {
		.recv_callback = on_recv, .send_callback = on_send, .on_msg_recv_callback = on_message};
	struct ws *w = xcalloc(1, sizeof *w);
	*w = (struct ws){.loop = l, .ops = ops, .ctx = ctx, .w = {.fd = -1, .fn = on_event}, .tick.fn = on_tick, .flush.fn = on_flush,
			 .extra = BUF_INIT(n ? n : 1)};
	buf_add(&w->extra, extra, n);
	if (wslay_event_context_server_init(&w->ev, &calls, w)) {
		buf_done(&w->extra);
		free(w);
		err_set(e, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	wslay_event_config_set_max_recv_msg_length(w->ev, WS_MESSAGE_MAX);
	if (loop_add(l, &w->w, fd, LOOP_IN | (n ? LOOP_OUT : 0), e)) { // OUT: so that what came before is looked at
		ws_free(w);
		return NULL;
	}
	timer_set(l, &w->tick, PING_MS);
	return w;
}

void ws_send(struct ws *w, bool text, const void *p, size_t n)
{
	struct wslay_event_msg m = {.opcode = text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME, .msg = p, .msg_length = n};
	if (w->over || w->closing)
		return;
	if (wslay_event_queue_msg(w->ev, &m))
		w->dead = true;
	loop_soon(w->loop, &w->flush);
}

size_t ws_queued(const struct ws *w)
{
	return wslay_event_get_queued_msg_length(w->ev);
}

void ws_pause(struct ws *w, bool on)
{
	w->paused = on;
	set_interest(w);
}

void ws_close(struct ws *w, enum ws_code code, const char *reason)
{
	if (w->over || w->closing)
		return;
	w->closing = true;
	w->paused = false; // its answer
	w->code = code;
	if (fmt_to(w->reason, sizeof w->reason, "%s", reason))
		w->reason[0] = 0;
	timer_set(w->loop, &w->tick, LAST_MS);
	loop_soon(w->loop, &w->flush);
}

void ws_drop(struct ws *w)
{
	if (w->over)
		return;
	if (!w->closing && !wslay_event_queue_close(w->ev, WS_RESTART, NULL, 0))
		(void)!wslay_event_send(w->ev); // if it fits
	finish(w);
}

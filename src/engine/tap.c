// SPDX-License-Identifier: Apache-2.0
#include "engine/tap.h"

#include "base/chan.h"
#include "base/fs.h"
#include "base/mem.h"
#include "model/msg.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (64u << 10)

struct tap {
	struct loop *loop;
	struct chan ch;
	const struct tap_ops *ops;
	void *ctx;
	uint64_t sent, allowed; // of stdin
	bool eof, over;
};

static void tap_free(void *obj)
{
	struct tap *t = obj;
	chan_close(&t->ch);
	free(t);
}

static void on_left(struct chan *ch)
{
	struct tap *t = container_of(ch, struct tap, ch);
	ch->on_drain = NULL;
	loop_bury(t->loop, t, tap_free);
}

void tap_close(struct tap *t)
{
	if (t->over)
		return;
	t->over = true;
	chan_flush(&t->ch);
	chan_pause(&t->ch, true);
	if (chan_is_open(&t->ch) && chan_queued(&t->ch))
		t->ch.on_drain = on_left;
	else
		loop_bury(t->loop, t, tap_free);
}

static void finish(struct tap *t, const struct err *e, const struct exec_result *r)
{
	if (t->over)
		return;
	t->ops->end(t->ctx, e, r);
	tap_close(t);
}

static void on_close(struct chan *ch)
{
	struct err e;
	if (ch->on_drain) { // what was sent last is for nobody now
		on_left(ch);
		return;
	}
	err_set(&e, ERR_UNAVAILABLE, "the cell ended under the command");
	finish(container_of(ch, struct tap, ch), &e, NULL);
}

static void on_exit_frame(struct tap *t, struct wire *w)
{
	struct exec_result r;
	struct err e;
	if (exec_result_read(w, &r)) {
		err_set(&e, ERR_BUG, "malformed result");
		finish(t, &e, NULL);
		return;
	}
	finish(t, NULL, &r);
	exec_result_done(&r);
}

static void on_refusal(struct tap *t, struct wire *w)
{
	struct err e;
	enum err_kind kind = (enum err_kind)wire_get_u32(w);
	int sys = (int)wire_get_u32(w);
	auto_free char *msg = wire_get_str(w);
	err_set(&e, kind && kind < ERR_KINDS ? kind : ERR_SYSTEM, "%s", msg ? msg : "the cell refused");
	e.sys = sys;
	finish(t, &e, NULL);
}

static void on_frame(struct chan *ch, struct frame *f)
{
	struct tap *t = container_of(ch, struct tap, ch);
	struct wire w = {.p = f->p, .n = f->n};
	if (t->over)
		return;
	switch ((enum msg_type)f->type) {
	case M_DATA: {
		uint64_t at = wire_get_u64(&w);
		if (!w.bad && (f->stream == 1 || f->stream == 2))
			t->ops->data(t->ctx, f->stream, at, w.p, w.n);
		break;
	}
	case M_GAP: {
		uint64_t from = wire_get_u64(&w), to = wire_get_u64(&w);
		if (!w.bad && t->ops->gap)
			t->ops->gap(t->ctx, f->stream, from, to);
		break;
	}
	case M_CREDIT: {
		uint64_t to = wire_get_u64(&w), received = wire_get_u64(&w);
		if (w.bad || f->stream)
			break;
		if (t->sent < received)
			t->sent = received; // others send, too
		t->allowed = to > t->allowed ? to : t->allowed;
		if (t->ops->room)
			t->ops->room(t->ctx, received);
		break;
	}
	case M_ERR:
		on_refusal(t, &w);
		break;
	case M_EXIT:
		on_exit_frame(t, &w);
		break;
	default:
		break;
	}
}

static int connect_to(struct engine *g, const char *sandbox, struct err *e)
{
	auto_free char *path = engine_socket(g, sandbox);
	char *slash = strrchr(path, '/');
	if (!slash)
		return err_set(e, ERR_BUG, "%s is no absolute path", path);
	*slash = 0;
	auto_fd int at = fs_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, e);
	return at < 0 ? -1 : fs_unix_connect(at, slash + 1, e);
}

struct tap *tap_open(struct loop *l, struct engine *g, const char *sandbox, const char *ticket, const uint64_t from[2],
		     const struct tap_ops *ops, void *ctx, struct err *e)
{
	auto_buf struct buf hello = BUF_INIT(1024), credit = BUF_INIT(8);
	int fd = connect_to(g, sandbox, e);
	if (fd < 0)
		return NULL;
	struct tap *t = xcalloc(1, sizeof *t);
	t->loop = l;
	t->ops = ops;
	t->ctx = ctx;
	chan_init(&t->ch, fd);
	t->ch.on_frame = on_frame;
	t->ch.on_close = on_close;
	if (chan_attach(&t->ch, l, e)) {
		tap_free(t);
		return NULL;
	}
	wire_u32(&hello, PROTO_VERSION);
	wire_u8(&hello, ROLE_CLIENT);
	wire_str(&hello, ticket);
	wire_u64(&hello, from ? from[0] : 0);
	wire_u64(&hello, from ? from[1] : 0);
	chan_send_buf(&t->ch, M_HELLO, 0, &hello);
	wire_u64(&credit, UINT64_MAX); // not reading the socket is flow control enough
	chan_send(&t->ch, M_CREDIT, 1, 0, credit.p, credit.n);
	chan_send(&t->ch, M_CREDIT, 2, 0, credit.p, credit.n);
	return t;
}

void tap_pause(struct tap *t, bool on)
{
	if (!t->over)
		chan_pause(&t->ch, on);
}

size_t tap_room(const struct tap *t)
{
	return t->over || t->eof || t->allowed <= t->sent ? 0 : (size_t)(t->allowed - t->sent);
}

size_t tap_send(struct tap *t, const void *p, size_t n)
{
	return tap_send_at(t, STDIN_APPEND, p, n);
}

size_t tap_send_at(struct tap *t, uint64_t at, const void *p, size_t n)
{
	size_t room = tap_room(t), all = n < room ? n : room;
	for (size_t done = 0; done < all;) {
		auto_buf struct buf b = BUF_INIT(CHUNK + 8);
		size_t part = all - done < CHUNK ? all - done : CHUNK;
		wire_u64(&b, at == STDIN_APPEND ? at : at + done);
		buf_add(&b, (const char *)p + done, part);
		chan_send(&t->ch, M_DATA, 0, 0, b.p, b.n);
		t->sent += part;
		done += part;
	}
	return all;
}

void tap_eof(struct tap *t)
{
	if (!t->over && !t->eof)
		chan_send(&t->ch, M_EOF, 0, 0, NULL, 0);
	t->eof = true;
}

static void send_u32s(struct tap *t, uint8_t type, const uint32_t *v, int n)
{
	auto_buf struct buf b = BUF_INIT(64);
	for (int i = 0; i < n; i++)
		wire_u32(&b, v[i]);
	if (!t->over)
		chan_send_buf(&t->ch, type, 0, &b);
}

void tap_resize(struct tap *t, uint32_t rows, uint32_t cols)
{
	send_u32s(t, M_WINSIZE, (uint32_t[]){rows, cols}, 2);
}

void tap_signal(struct tap *t, uint32_t signal)
{
	send_u32s(t, M_SIGNAL, &signal, 1);
}

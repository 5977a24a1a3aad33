// SPDX-License-Identifier: Apache-2.0
#include "cli/live.h"

#include "base/chan.h"
#include "base/fs.h"
#include "base/mem.h"
#include "cli/cell.h"
#include "model/msg.h"
#include "model/spec.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_CHUNK (256u << 10)

static void put_frame(struct buf *out, enum msg_type type, uint8_t stream, const struct buf *body)
{
	wire_u32(out, (uint32_t)body->n);
	wire_u8(out, (uint8_t)type);
	wire_u8(out, stream);
	wire_u8(out, 0);
	wire_u8(out, 0);
	wire_u32(out, 0);
	buf_add(out, body->p, body->n);
}

int live_open(struct live *l, const char *socket, const char *ticket, struct err *e)
{
	auto_buf struct buf out = BUF_INIT(8192), hello = BUF_INIT(4096), credit = BUF_INIT(8);
	*l = LIVE_CLOSED;
	l->in = BUF_INIT(FRAME_HEAD + FRAME_MAX + READ_CHUNK);
	l->stream = BUF_INIT(LIVE_RECORD + LIVE_FRAME + FRAME_MAX);
	l->fd = cell_connect(socket, e);
	if (l->fd < 0)
		return -1;
	wire_u32(&hello, PROTO_VERSION);
	wire_u8(&hello, ROLE_CLIENT);
	wire_str(&hello, ticket);
	wire_u64(&hello, 0);
	wire_u64(&hello, 0);
	put_frame(&out, M_HELLO, 0, &hello);
	wire_u64(&credit, UINT64_MAX); // not reading the socket is flow control enough
	put_frame(&out, M_CREDIT, 1, &credit);
	put_frame(&out, M_CREDIT, 2, &credit);
	return fs_write_all(l->fd, out.p, out.n, e);
}

void live_close(struct live *l)
{
	close_fd(&l->fd);
	buf_done(&l->in);
	buf_done(&l->stream);
}

static int on_frame(struct live *l, uint8_t type, uint8_t stream, struct wire *w, struct err *e)
{
	struct exec_result r;
	if (type == M_DATA && stream == 1 && w->n >= 8)
		buf_add(&l->stream, w->p + 8, w->n - 8);
	if (type == M_GAP && stream == 1)
		return err_set(e, ERR_SYSTEM, "a part of what changed was not kept: watch again");
	if (type == M_ERR) {
		uint32_t kind = wire_get_u32(w);
		wire_get_u32(w);
		auto_free char *msg = wire_get_str(w);
		return err_set(e, kind && kind < ERR_KINDS ? (enum err_kind)kind : ERR_SYSTEM, "%s", msg ? msg : "the cell refused");
	}
	if (type == M_EXIT && !exec_result_read(w, &r)) {
		l->status = r.status;
		l->ended = true;
		exec_result_done(&r);
	}
	return 0;
}

static int take_frames(struct live *l, struct err *e)
{
	size_t at = 0;
	while (l->in.n - at >= FRAME_HEAD) {
		const uint8_t *h = (const uint8_t *)l->in.p + at;
		uint32_t n = h[0] | h[1] << 8 | h[2] << 16 | (uint32_t)h[3] << 24;
		struct wire w = {.p = h + FRAME_HEAD, .n = n};
		if (n > FRAME_MAX)
			return err_set(e, ERR_BUG, "the cell sent a malformed frame");
		if (l->in.n - at < FRAME_HEAD + n)
			break;
		if (on_frame(l, h[4], h[5], &w, e))
			return -1;
		at += FRAME_HEAD + n;
	}
	buf_cut(&l->in, at);
	return l->stream.overflow ? err_set(e, ERR_BUG, "the cell sent more than was asked for") : 0;
}

int live_read(struct live *l, struct err *e)
{
	char *room = buf_room(&l->in, READ_CHUNK);
	ssize_t n = room ? recv(l->fd, room, READ_CHUNK, 0) : -1;
	if (n < 0 && errno == EINTR)
		return 0;
	if (n <= 0) {
		l->ended = true;
		return 0;
	}
	l->in.n += (size_t)n;
	buf_cut(&l->stream, l->at);
	l->at = 0;
	return take_frames(l, e);
}

int live_next(struct live *l, struct live_record *out, struct err *e)
{
	if (l->at == l->stream.n)
		return 0;
	struct wire w = {.p = (const uint8_t *)l->stream.p + l->at, .n = l->stream.n - l->at};
	uint32_t n = wire_get_u32(&w);
	*out = (struct live_record){.type = (char)wire_get_u8(&w), .body = (const char *)w.p, .n = n};
	if (w.bad)
		return 0;
	if (n > LIVE_RECORD)
		return err_set(e, ERR_BUG, "the stream of changes is malformed");
	if (w.n < (size_t)n + 8)
		return 0;
	w.p += n;
	w.n -= n;
	out->number = wire_get_u64(&w);
	l->at += LIVE_FRAME + n;
	return 1;
}

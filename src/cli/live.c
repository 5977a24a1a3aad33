// SPDX-License-Identifier: Apache-2.0
#include "cli/live.h"

#include "base/chan.h"
#include "base/mem.h"
#include "cli/out.h"
#include "model/msg.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_CHUNK (256u << 10)

static struct {
	int fd; // of the line whose other end shall know when we die
} dying = {-1};

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

// One that is broken says so when it is read.
static void send_seen(struct live *l, uint8_t stream)
{
	auto_buf struct buf out = BUF_INIT(64), body = BUF_INIT(8);
	if (stream)
		wire_u64(&body, l->got);
	put_frame(&out, M_SEEN, stream, &body);
	(void)!send(l->fd, out.p, out.n, MSG_NOSIGNAL);
}

// We do not come back: else the cell would wait for us.
static void on_fatal(int sig)
{
	static const uint8_t bye[FRAME_HEAD] = {[4] = M_SEEN};
	if (dying.fd >= 0)
		(void)!send(dying.fd, bye, sizeof bye, MSG_NOSIGNAL | MSG_DONTWAIT);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void watch_signals(void)
{
	static const int ours[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction was, now = {.sa_handler = on_fatal};
	for (size_t i = 0; i < countof(ours); i++)
		if (!sigaction(ours[i], NULL, &was) && was.sa_handler == SIG_DFL)
			sigaction(ours[i], &now, NULL);
}

static int greet(struct live *l, struct err *e)
{
	auto_buf struct buf out = BUF_INIT(8192), hello = BUF_INIT(4096), credit = BUF_INIT(8);
	line_hello(&l->line, &hello, (uint64_t[]){0, l->got, 0});
	put_frame(&out, M_HELLO, 0, &hello);
	wire_u64(&credit, UINT64_MAX); // not reading the socket is flow control enough
	put_frame(&out, M_CREDIT, 1, &credit);
	put_frame(&out, M_CREDIT, 2, &credit);
	if (send(l->fd, out.p, out.n, MSG_NOSIGNAL) < 0)
		return err_sys(e, "send to the cell");
	if (line_comes_back(&l->line))
		dying.fd = l->fd;
	return 0;
}

int live_open(struct live *l, const char *socket, const char *ticket, struct err *e)
{
	*l = LIVE_CLOSED;
	l->in = BUF_INIT(FRAME_HEAD + FRAME_MAX + READ_CHUNK);
	l->stream = BUF_INIT(LIVE_RECORD + LIVE_FRAME + FRAME_MAX);
	l->fd = line_open(&l->line, socket, ticket, NULL, e);
	if (l->fd < 0)
		return -1;
	if (line_comes_back(&l->line))
		watch_signals();
	return greet(l, e);
}

static void hang_up(struct live *l)
{
	dying.fd = -1;
	close_fd(&l->fd);
}

void live_close(struct live *l)
{
	if (l->fd >= 0 && line_comes_back(&l->line))
		send_seen(l, 0);
	hang_up(l);
	line_close(&l->line);
	buf_done(&l->in);
	buf_done(&l->stream);
}

int live_wait_ms(const struct live *l)
{
	return line_comes_back(&l->line) ? LINE_ALIVE_MS : -1;
}

void live_alive(struct live *l)
{
	send_seen(l, 1);
}

// --- records ---

static int on_data(struct live *l, struct wire *w)
{
	uint64_t at = wire_get_u64(w);
	if (w->bad || at > l->got)
		return -1;
	uint64_t known = l->got - at; // repeated on a new line
	if (known >= w->n)
		return 0;
	buf_add(&l->stream, w->p + known, w->n - (size_t)known);
	l->got += w->n - known;
	return 0;
}

static int on_frame(struct live *l, uint8_t type, uint8_t stream, struct wire *w, struct err *e)
{
	if (type != M_ERR)
		line_works(&l->line);
	if (type == M_DATA && stream == 1 && on_data(l, w))
		return err_set(e, ERR_BUG, "the cell sent a malformed frame");
	if (type == M_GAP && stream == 1) // we were away for too long
		l->ended = true;
	if (type == M_ERR && l->came_back) { // it waited for us no longer
		l->ended = true;
	} else if (type == M_ERR) {
		uint32_t kind = wire_get_u32(w);
		wire_get_u32(w);
		auto_free char *msg = wire_get_str(w);
		return err_set(e, kind && kind < ERR_KINDS ? (enum err_kind)kind : ERR_SYSTEM, "%s", msg ? msg : "the cell refused");
	}
	if (type == M_EXIT)
		l->ended = true;
	return 0;
}

static int take_frames(struct live *l, struct err *e)
{
	size_t at = 0;
	while (l->in.n - at >= FRAME_HEAD && !l->ended) {
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

static void tell_lost(const struct live *l)
{
	auto_buf struct buf b = BUF_INIT(64);
	buf_str(&b, "skep: connection lost, trying again\n");
	if (isatty(STDERR_FILENO) && !l->line.until_ms)
		out_stderr(&b);
}

// Whether there is nothing to come back to, or no way, is found out by who asks for the sandbox.
static void come_back(struct live *l)
{
	struct err e;
	hang_up(l);
	tell_lost(l);
	buf_clear(&l->in);
	l->fd = line_again(&l->line, &e);
	l->came_back = true;
	l->ended = l->fd < 0;
	if (!l->ended && greet(l, &e))
		shutdown(l->fd, SHUT_RDWR); // broken again: the next read tries
}

int live_read(struct live *l, struct err *e)
{
	char *room = buf_room(&l->in, READ_CHUNK);
	ssize_t n = room ? recv(l->fd, room, READ_CHUNK, 0) : -1;
	if (n < 0 && errno == EINTR)
		return 0;
	if (n <= 0) {
		if (line_comes_back(&l->line))
			come_back(l);
		else
			l->ended = true;
		return 0;
	}
	l->in.n += (size_t)n;
	buf_cut(&l->stream, l->at);
	l->at = 0;
	if (take_frames(l, e))
		return -1;
	if (line_must_say(&l->line, 1, l->got, (size_t)n < READ_CHUNK))
		send_seen(l, 1);
	return 0;
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

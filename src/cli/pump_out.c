// SPDX-License-Identifier: Apache-2.0
// To the cell.
#include "cli/pump_int.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cli/out.h"
#include "cli/term.h"
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#define LAST_WORDS_MS 1000	    // to get a signal out before we stop or die

void pump_put_head(char *at, uint32_t n, uint8_t type, uint8_t stream)
{
	uint8_t head[FRAME_HEAD] = {n, n >> 8, n >> 16, n >> 24, type, stream};
	memcpy(at, head, sizeof head);
}

void pump_put_frame_of(struct pump *p, enum msg_type type, uint8_t stream, uint32_t id, const struct buf *body)
{
	if (p->mute)
		return;
	char *at = buf_room(&p->out, FRAME_HEAD);
	assert(at); // its bound is far above what one round adds
	pump_put_head(at, (uint32_t)body->n, (uint8_t)type, stream);
	for (int i = 0; i < 4; i++)
		at[8 + i] = (char)(id >> 8 * i);
	p->out.n += FRAME_HEAD;
	buf_add(&p->out, body->p, body->n);
}

void pump_put_frame(struct pump *p, enum msg_type type, uint8_t stream, const struct buf *body)
{
	pump_put_frame_of(p, type, stream, 0, body);
}

static void put_signal(struct pump *p, int sig, uint64_t number)
{
	auto_buf struct buf b = BUF_INIT(12);
	wire_u32(&b, (uint32_t)sig);
	if (number)
		wire_u64(&b, number);
	pump_put_frame(p, M_SIGNAL, 0, &b);
}

void pump_put_signal(struct pump *p, int sig)
{
	uint64_t number = line_comes_back(&p->line) ? line_signal(&p->line, sig) : 0;
	if (!p->repeat) // else behind those that have to be repeated
		put_signal(p, sig, number);
}

void pump_repeat_signals(struct pump *p)
{
	const struct line *l = &p->line;
	for (unsigned i = 0; i < l->n_signals; i++)
		put_signal(p, l->signals[i], l->signalled - l->n_signals + 1 + i);
}

static void put_size(struct pump *p, uint32_t rows, uint32_t cols)
{
	auto_buf struct buf b = BUF_INIT(8);
	wire_u32(&b, rows);
	wire_u32(&b, cols);
	pump_put_frame(p, M_WINSIZE, 0, &b);
}

void pump_put_winsize(struct pump *p)
{
	uint32_t rows, cols;
	term_size(&rows, &cols);
	put_size(p, rows, cols);
}

// A size that is not new signals nothing, so there is another one for a moment.
void pump_put_redraw(struct pump *p)
{
	uint32_t rows, cols;
	term_size(&rows, &cols);
	put_size(p, rows + 1, cols);
	put_size(p, rows, cols);
}

void pump_put_hello(struct pump *p)
{
	auto_buf struct buf b = BUF_INIT(4096);
	line_hello(&p->line, &b, p->got);
	pump_put_frame(p, M_HELLO, 0, &b);
}

// Output needs no window: not reading the socket is flow control enough.
void pump_put_credit(struct pump *p, uint8_t stream)
{
	auto_buf struct buf b = BUF_INIT(8);
	wire_u64(&b, UINT64_MAX);
	pump_put_frame(p, M_CREDIT, stream, &b);
}

void pump_put_seen(struct pump *p, bool idle)
{
	for (uint8_t stream = 1; stream < 3; stream++) {
		auto_buf struct buf b = BUF_INIT(8);
		wire_u64(&b, p->got[stream]);
		if (line_must_say(&p->line, stream, p->got[stream], idle))
			pump_put_frame(p, M_SEEN, stream, &b);
	}
}

// Proxies end what is silent for a minute, and TCP notices a dead line only when something is sent.
void pump_put_alive(struct pump *p)
{
	auto_buf struct buf b = BUF_INIT(8);
	wire_u64(&b, p->got[1]);
	pump_put_frame(p, M_SEEN, 1, &b);
}

void pump_flush_out(struct pump *p)
{
	while (p->out_at < p->out.n && !p->mute) {
		ssize_t n = send(p->sock, p->out.p + p->out_at, p->out.n - p->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		p->mute = n < 0; // it ended while we wrote; what it said before is still to be read
		p->out_at += n > 0 ? (size_t)n : 0;
	}
	buf_clear(&p->out);
	p->out_at = 0;
}

// Before we stop or die the cell must know, or the exec would run on unattended.
void pump_flush_last_words(struct pump *p)
{
	uint64_t until = clock_ms() + LAST_WORDS_MS;
	for (pump_flush_out(p); p->out.n && clock_ms() < until; pump_flush_out(p))
		poll(&(struct pollfd){.fd = p->sock, .events = POLLOUT}, 1, LAST_WORDS_MS);
}

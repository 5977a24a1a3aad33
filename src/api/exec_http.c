// SPDX-License-Identifier: Apache-2.0
// A command's streams as one long answer: a JSON object per line, or, for who asks for application/x-skep-frames, frames of
// u32 length, u8 0 and JSON, or u8 stream, u64 offset and the bytes as they are.
#include "api/exec_io_int.h"

#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define FRAMES "application/x-skep-frames"
#define EVENT_MAX (256u << 10)

struct held { // the first bytes of a character whose rest has not come
	char bytes[4];
	size_t n;
	uint64_t at;
};

struct out {
	struct request *r;
	struct feed *feed;
	bool frames;
	struct held held[2];
};

static void put(struct out *o, const struct buf *json)
{
	uint32_t n = (uint32_t)json->n + 1;
	auto_buf struct buf b = BUF_INIT(EVENT_MAX);
	if (o->frames) {
		wire_u32(&b, n);
		wire_u8(&b, 0);
	}
	buf_add(&b, json->p, json->n);
	if (!o->frames)
		buf_byte(&b, '\n');
	if (!request_write(o->r, b.p, b.n))
		feed_pause(o->feed, true);
}

static void put_text(struct out *o, int stream, uint64_t offset, const char *p, size_t n)
{
	auto_buf struct buf b = BUF_INIT(EVENT_MAX * 4);
	struct jsonw w = {.b = &b};
	if (!n)
		return;
	jw_open(&w, '{');
	jw_kstr(&w, "event", stream_name(stream));
	jw_ku64(&w, "offset", offset);
	if (str_is_utf8(p, n))
		jw_kbytes(&w, "text", p, n);
	else
		jw_kb64(&w, "b64", p, n);
	jw_close(&w, '}');
	put(o, &b);
}

// A character that ends in the next piece is told with it.
static void put_line(struct out *o, int stream, uint64_t offset, const char *p, size_t n)
{
	struct held *h = &o->held[stream - 1];
	auto_buf struct buf b = BUF_INIT(EVENT_MAX);
	if (h->n && h->at + h->n == offset) {
		buf_add(&b, h->bytes, h->n);
		buf_add(&b, p, n);
		p = b.p;
		n = b.n;
		offset = h->at;
	} else {
		put_text(o, stream, h->at, h->bytes, h->n);
	}
	size_t whole = str_utf8_whole(p, n);
	whole = n - whole < sizeof h->bytes ? whole : n;
	put_text(o, stream, offset, p, whole);
	h->n = n - whole;
	h->at = offset + whole;
	memcpy(h->bytes, p + whole, h->n);
}

static void on_data(void *ctx, int stream, uint64_t offset, const void *p, size_t n)
{
	struct out *o = ctx;
	uint8_t head[4 + PIECE_HEAD];
	if (!o->frames) {
		put_line(o, stream, offset, p, n);
		return;
	}
	uint32_t len = (uint32_t)n + PIECE_HEAD;
	for (int i = 0; i < 4; i++)
		head[i] = (uint8_t)(len >> 8 * i);
	piece_head(head + 4, stream, offset);
	request_write(o->r, head, sizeof head);
	if (!request_write(o->r, p, n))
		feed_pause(o->feed, true);
}

static void on_gap(void *ctx, int stream, uint64_t from, uint64_t to)
{
	struct out *o = ctx;
	auto_buf struct buf b = BUF_INIT(1024);
	event_gap(&b, stream, from, to);
	put(o, &b);
}

static void over(struct out *o)
{
	o->r->ctx = NULL;
	free(o);
}

static void on_begun(void *ctx, const char *exec)
{
	struct out *o = ctx;
	struct request *r = o->r;
	auto_buf struct buf b = BUF_INIT(1024);
	bool listens = r->conn; // else on_gone closes it all
	r->type = o->frames ? FRAMES : "application/x-ndjson";
	request_set_header(r, "X-Skep-Exec", exec);
	request_stream(r, 200);
	if (!listens)
		return;
	event_start(&b, exec);
	put(o, &b);
}

static void on_end(void *ctx, const struct err *e, const struct exec_result *res)
{
	struct out *o = ctx;
	struct request *r = o->r;
	auto_buf struct buf b = BUF_INIT(16 << 10);
	if (!r->streaming) {
		over(o);
		request_fail(r, e);
		return;
	}
	for (int i = 0; i < 2; i++)
		put_text(o, i + 1, o->held[i].at, o->held[i].bytes, o->held[i].n);
	if (res)
		event_exit(&b, res);
	else
		event_error(&b, e);
	put(o, &b);
	over(o);
	request_finish(r);
}

static void on_gone(struct request *r)
{
	struct out *o = r->ctx;
	if (!o || !r->streaming)
		return; // the command is told to nobody, and runs
	feed_close(o->feed);
	over(o);
}

static void on_drain(struct request *r)
{
	struct out *o = r->ctx;
	if (o)
		feed_pause(o->feed, false);
}

static const struct feed_ops ops = {.begun = on_begun, .data = on_data, .gap = on_gap, .end = on_end};

static struct out *begin(struct request *r)
{
	struct out *o = xcalloc(1, sizeof *o);
	const char *accept = request_header(r, "Accept");
	o->r = r;
	o->frames = accept && !strcmp(accept, FRAMES);
	r->ctx = o;
	r->on_gone = on_gone;
	r->on_drain = on_drain;
	return o;
}

void post_exec_stream(struct request *r)
{
	struct exec_request x = {0};
	struct err e;
	if (decode_exec(r->json, &x, &e)) {
		exec_request_done(&x);
		request_fail(r, &e);
		return;
	}
	struct out *o = begin(r);
	o->feed = feed_exec(request_loop(r), r->engine, r->parts[0], &x, &ops, o);
}

void get_exec_stream(struct request *r)
{
	uint64_t from[2];
	if (!exec_offsets(r, from))
		return;
	struct out *o = begin(r);
	o->feed = feed_attach(request_loop(r), r->engine, r->parts[0], from, &ops, o);
}

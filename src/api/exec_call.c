// SPDX-License-Identifier: Apache-2.0
// Short exchanges with a command: begin and wait a while, give it input, tell it the size of its terminal.
#include "api/exec_io_int.h"

#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define WAIT_MS 10000
#define WAIT_MAX 300000
#define BYTES 65536
#define BYTES_MAX (4u << 20)

// --- begin and wait ---

struct wait {
	struct request *r;
	struct feed *feed;
	struct timer late;
	char exec[64];
	struct buf out[2];
	uint64_t total[2];
};

static void wait_free(struct wait *w)
{
	timer_clear(request_loop(w->r), &w->late);
	buf_done(&w->out[0]);
	buf_done(&w->out[1]);
	free(w);
}

static void put_output(struct jsonw *j, const struct wait *w, int i)
{
	const struct buf *b = &w->out[i];
	size_t n = w->total[i] > b->n ? str_utf8_whole(b->p ? b->p : "", b->n) : b->n;
	jw_key(j, i ? "stderr" : "stdout");
	jw_open(j, '{');
	jw_kbytes(j, "text", b->p ? b->p : "", n);
	jw_ku64(j, "next", n); // where the rest begins: GET …/output?offset= or …/stream?offset_…=
	jw_kbool(j, "more", w->total[i] > n);
	jw_close(j, '}');
}

static void wait_answer(struct wait *w, const struct exec_result *res)
{
	struct request *r = w->r;
	struct jsonw j = {.b = &r->answer};
	jw_open(&j, '{');
	jw_kstr(&j, "exec", w->exec);
	jw_kbool(&j, "running", !res);
	if (res)
		event_result(&j, res);
	put_output(&j, w, 0);
	put_output(&j, w, 1);
	jw_close(&j, '}');
	wait_free(w);
	request_answer(r, 200);
}

static void wait_begun(void *ctx, const char *exec)
{
	struct wait *w = ctx;
	if (fmt_to(w->exec, sizeof w->exec, "%s", exec))
		w->exec[0] = 0;
}

static void wait_data(void *ctx, int stream, uint64_t offset, const void *p, size_t n)
{
	struct wait *w = ctx;
	struct buf *b = &w->out[stream - 1];
	size_t room = b->max - b->n;
	if (w->total[stream - 1] == b->n)
		buf_add(b, p, n < room ? n : room);
	w->total[stream - 1] = offset + n;
}

static void wait_gap(void *ctx, int stream, uint64_t from, uint64_t to)
{
	struct wait *w = ctx;
	(void)from;
	w->total[stream - 1] = to;
}

static void wait_end(void *ctx, const struct err *e, const struct exec_result *res)
{
	struct wait *w = ctx;
	struct request *r = w->r;
	if (res) {
		wait_answer(w, res);
		return;
	}
	wait_free(w);
	request_fail(r, e);
}

// The command goes on: its id is what to ask with.
static void on_late(struct timer *t)
{
	struct wait *w = container_of(t, struct wait, late);
	if (!w->exec[0]) { // it has not even begun; its beginning or failure is told
		timer_set(request_loop(w->r), t, 100);
		return;
	}
	feed_close(w->feed);
	wait_answer(w, NULL);
}

static int wait_params(struct request *r, uint64_t *ms, uint64_t *bytes, struct err *e)
{
	const char *wait = request_query(r, "wait_ms"), *max = request_query(r, "max_bytes");
	if (wait && str_to_u64(str_of(wait), 0, WAIT_MAX, ms))
		return err_set(e, ERR_INVALID, "wait_ms must be a whole number up to %d", WAIT_MAX);
	if (max && str_to_u64(str_of(max), 0, BYTES_MAX, bytes))
		return err_set(e, ERR_INVALID, "max_bytes must be a whole number up to %u", BYTES_MAX);
	return 0;
}

void post_exec_wait(struct request *r)
{
	static const struct feed_ops ops = {.begun = wait_begun, .data = wait_data, .gap = wait_gap, .end = wait_end};
	struct exec_request x = {0};
	struct err e;
	uint64_t ms = WAIT_MS, bytes = BYTES;
	if (wait_params(r, &ms, &bytes, &e) || decode_exec(r->json, &x, &e)) {
		exec_request_done(&x);
		request_fail(r, &e);
		return;
	}
	struct wait *w = xcalloc(1, sizeof *w);
	w->r = r;
	w->late.fn = on_late;
	w->out[0] = BUF_INIT((size_t)bytes);
	w->out[1] = BUF_INIT((size_t)bytes);
	w->feed = feed_exec(request_loop(r), r->engine, r->parts[0], &x, &ops, w);
	timer_set(request_loop(r), &w->late, ms);
}

// --- errands: attach, do one thing, leave ---

struct errand {
	struct request *r;
	struct feed *feed;
	struct timer late;
	uint64_t offset;  // of the body's first byte
	size_t sent;	  // of the body
	bool has_offset, eof, known; // known: where stdin stands
	uint64_t received;
	uint32_t rows, cols;
};

static void errand_over(struct errand *x)
{
	timer_clear(request_loop(x->r), &x->late);
	free(x);
}

static void stdin_answer(struct errand *x)
{
	struct request *r = x->r;
	struct jsonw w = {.b = &r->answer};
	jw_open(&w, '{');
	jw_ku64(&w, "received", x->offset + x->sent);
	jw_kbool(&w, "more", x->sent < r->body.n); // ask again with the rest, later
	jw_close(&w, '}');
	feed_close(x->feed);
	errand_over(x);
	request_answer(r, 200);
}

static void stdin_fail(struct errand *x, uint64_t received)
{
	struct request *r = x->r;
	struct err e;
	err_set(&e, ERR_CONFLICT, "%llu bytes of stdin came so far, offset is %llu: send what lies between", (unsigned long long)received,
		(unsigned long long)x->offset);
	feed_close(x->feed);
	errand_over(x);
	request_fail(r, &e);
}

static void stdin_room(void *ctx, uint64_t received)
{
	struct errand *x = ctx;
	struct request *r = x->r;
	struct tap *t = feed_tap(x->feed);
	if (!x->known) {
		x->known = true;
		if (x->has_offset && x->offset > received) {
			stdin_fail(x, received);
			return;
		}
		if (!x->has_offset)
			x->offset = received;
		uint64_t twice = received - x->offset; // sent before, and sent again
		x->sent = twice < r->body.n ? (size_t)twice : r->body.n;
	}
	const char *rest = r->body.n ? r->body.p + x->sent : "";
	size_t n = r->body.n - x->sent;
	if (t)
		x->sent += x->has_offset ? tap_send_at(t, x->offset + x->sent, rest, n) : tap_send(t, rest, n);
	if (x->sent < r->body.n)
		return;
	if (x->eof && t)
		tap_eof(t);
	stdin_answer(x);
}

// The command does not read: what it took is told.
static void stdin_late(struct timer *t)
{
	struct errand *x = container_of(t, struct errand, late);
	struct request *r = x->r;
	struct err e;
	if (x->known) {
		stdin_answer(x);
		return;
	}
	err_set(&e, ERR_TIMEOUT, "the cell does not answer");
	feed_close(x->feed);
	errand_over(x);
	request_fail(r, &e);
}

static void errand_begun(void *ctx, const char *exec)
{
	struct errand *x = ctx;
	struct request *r = x->r;
	struct tap *t = feed_tap(x->feed);
	(void)exec;
	if (!x->rows || !t)
		return;
	tap_resize(t, x->rows, x->cols);
	feed_close(x->feed);
	errand_over(x);
	request_answer(r, 204);
}

static void errand_data(void *ctx, int stream, uint64_t offset, const void *p, size_t n)
{
	(void)ctx, (void)stream, (void)offset, (void)p, (void)n; // others read it
}

static void errand_gap(void *ctx, int stream, uint64_t from, uint64_t to)
{
	(void)ctx, (void)stream, (void)from, (void)to;
}

static void errand_end(void *ctx, const struct err *e, const struct exec_result *res)
{
	struct errand *x = ctx;
	struct request *r = x->r;
	struct err over;
	if (res) {
		err_set(&over, ERR_CONFLICT, "exec %s has ended", r->parts[0]);
		e = &over;
	}
	errand_over(x);
	request_fail(r, e);
}

static struct errand *errand_new(struct request *r)
{
	struct errand *x = xcalloc(1, sizeof *x);
	x->r = r;
	x->late.fn = stdin_late;
	return x;
}

static void errand_go(struct errand *x, const struct feed_ops *ops)
{
	static const uint64_t end[2] = {FEED_END, FEED_END};
	x->feed = feed_attach(request_loop(x->r), x->r->engine, x->r->parts[0], end, ops, x);
}

void post_exec_stdin(struct request *r)
{
	static const struct feed_ops ops = {errand_begun, errand_data, errand_gap, stdin_room, errand_end};
	struct err e;
	uint64_t offset = 0, wait = WAIT_MS;
	const char *at = request_query(r, "offset"), *eof = request_query(r, "eof"), *ms = request_query(r, "wait_ms");
	if (r->too_large || (at && str_to_u64(str_of(at), 0, INT64_MAX, &offset)) || (ms && str_to_u64(str_of(ms), 0, WAIT_MAX, &wait))) {
		err_set(&e, ERR_INVALID, "offset and wait_ms must be whole numbers");
		request_fail(r, &e);
		return;
	}
	struct errand *x = errand_new(r);
	x->offset = offset;
	x->has_offset = at;
	x->eof = eof && strcmp(eof, "0") && strcmp(eof, "false");
	timer_set(request_loop(r), &x->late, wait);
	errand_go(x, &ops);
}

void post_exec_resize(struct request *r)
{
	static const struct feed_ops ops = {.begun = errand_begun, .data = errand_data, .gap = errand_gap, .end = errand_end};
	static const char *const known[] = {"rows", "cols", NULL};
	struct err e;
	uint64_t rows = 0, cols = 0;
	if (json_only(r->json, known, &e) || json_get_u64(r->json, "rows", &rows, &e) || json_get_u64(r->json, "cols", &cols, &e)) {
		request_fail(r, &e);
		return;
	}
	if (!rows || !cols || rows > 10000 || cols > 10000) {
		err_set(&e, ERR_INVALID, "rows and cols must be 1 to 10000");
		request_fail(r, &e);
		return;
	}
	struct errand *x = errand_new(r);
	x->rows = (uint32_t)rows;
	x->cols = (uint32_t)cols;
	errand_go(x, &ops);
}

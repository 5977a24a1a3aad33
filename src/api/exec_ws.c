// SPDX-License-Identifier: Apache-2.0
// A command's streams over a WebSocket (docs/streams.md): bytes are binary messages with their offset, everything else is
// JSON in text messages. A client that goes leaves the command running, and comes back with the offsets it has.
#include "api/exec_io_int.h"

#include "base/mem.h"
#include "engine/access.h"
#include "http/ws.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HIGH (512u << 10)    // bytes that wait for a slow reader
#define STDIN_HIGH (512u << 10) // and for a command that does not read
#define FIRST_MS 10000	     // for the first message
#define NO_OFFSET UINT64_MAX

struct term {
	struct loop *loop;
	struct engine *g;
	struct upgraded *up;
	struct ws *ws;
	struct feed *feed;
	struct timer first;
	char *sandbox; // of a command that begins here
	char *exec;    // of one that is there
	uint64_t from[2];
	struct buf in;	  // stdin that waits
	uint64_t in_next; // number of the byte behind it
	uint32_t rows, cols; // told before there was a terminal
	bool in_known, eof, ended;
	bool counts; // its bytes of stdin carry offsets
	struct actor who;
};

static void term_free(struct term *t)
{
	buf_done(&t->in);
	free(t->sandbox);
	free(t->exec);
	free(t);
}

static void say(struct term *t, const struct buf *json)
{
	ws_send(t->ws, true, json->p, json->n);
}

static void refuse(struct term *t, enum ws_code code, const struct err *e)
{
	auto_buf struct buf b = BUF_INIT(4096);
	event_error(&b, e);
	say(t, &b);
	ws_close(t->ws, code, err_kind_name(e->kind));
}

// --- from the command ---

static void on_begun(void *ctx, const char *exec)
{
	struct term *t = ctx;
	auto_buf struct buf b = BUF_INIT(1024);
	event_start(&b, exec);
	say(t, &b);
	if (t->rows && feed_tap(t->feed))
		tap_resize(feed_tap(t->feed), t->rows, t->cols);
}

static void on_data(void *ctx, int stream, uint64_t offset, const void *p, size_t n)
{
	struct term *t = ctx;
	auto_buf struct buf b = BUF_INIT(n + PIECE_HEAD);
	uint8_t head[PIECE_HEAD];
	piece_head(head, stream, offset);
	buf_add(&b, head, sizeof head);
	buf_add(&b, p, n);
	ws_send(t->ws, false, b.p, b.n);
	if (ws_queued(t->ws) > HIGH)
		feed_pause(t->feed, true);
}

static void on_gap(void *ctx, int stream, uint64_t from, uint64_t to)
{
	auto_buf struct buf b = BUF_INIT(1024);
	event_gap(&b, stream, from, to);
	say(ctx, &b);
}

static void push_stdin(struct term *t)
{
	struct tap *tap = t->feed && !t->ended ? feed_tap(t->feed) : NULL;
	if (!tap)
		return;
	const char *p = t->in.n ? t->in.p : "";
	size_t sent = t->counts ? tap_send_at(tap, t->in_next - t->in.n, p, t->in.n) : tap_send(tap, p, t->in.n);
	buf_cut(&t->in, sent);
	if (!t->in.n && t->eof)
		tap_eof(tap);
	ws_pause(t->ws, t->in.n > STDIN_HIGH);
}

static void on_room(void *ctx, uint64_t received)
{
	struct term *t = ctx;
	auto_buf struct buf b = BUF_INIT(256);
	struct jsonw w = {.b = &b};
	if (!t->in_known) {
		t->in_known = true;
		t->in_next = received;
	}
	if (t->counts && received > t->in_next) { // by its numbers it would repeat what is somebody else's
		struct err e;
		err_set(&e, ERR_CONFLICT, "somebody else writes to stdin, which stands at %llu: send without offsets", (unsigned long long)received);
		feed_close(t->feed);
		t->feed = NULL;
		t->ended = true;
		refuse(t, WS_POLICY, &e);
		return;
	}
	push_stdin(t);
	jw_open(&w, '{');
	jw_kstr(&w, "event", "stdin");
	jw_ku64(&w, "received", received);
	jw_close(&w, '}');
	say(t, &b);
}

static void on_end(void *ctx, const struct err *e, const struct exec_result *res)
{
	struct term *t = ctx;
	auto_buf struct buf b = BUF_INIT(16 << 10);
	t->ended = true;
	t->feed = NULL;
	if (!res) {
		refuse(t, e->kind == ERR_UNAVAILABLE ? WS_AWAY : WS_POLICY, e);
		return;
	}
	event_exit(&b, res);
	say(t, &b);
	ws_close(t->ws, WS_OK, "exited");
}

static const struct feed_ops feed_ops = {on_begun, on_data, on_gap, on_room, on_end};

// --- from the client ---

// What was sent before is not taken twice, what is missing is not made up.
static int take_stdin(struct term *t, uint64_t offset, const uint8_t *p, size_t n, struct err *e)
{
	if (offset != NO_OFFSET && offset > t->in_next)
		return err_set(e, ERR_CONFLICT, "stdin stands at %llu, not at %llu", (unsigned long long)t->in_next, (unsigned long long)offset);
	uint64_t twice = offset == NO_OFFSET ? 0 : t->in_next - offset;
	if (twice >= n || t->eof)
		return 0;
	buf_add(&t->in, p + twice, n - (size_t)twice);
	if (t->in.overflow)
		return err_set(e, ERR_LIMIT, "too much stdin waits for the command");
	t->in_next += n - twice;
	t->counts = offset != NO_OFFSET;
	push_stdin(t);
	return 0;
}

static int take_bytes(struct term *t, const uint8_t *p, size_t n, struct err *e)
{
	struct wire w = {.p = p, .n = n};
	uint8_t stream = wire_get_u8(&w);
	uint64_t offset = wire_get_u64(&w);
	if (w.bad || stream)
		return err_set(e, ERR_INVALID, "a binary message is 0, eight bytes of offset, and bytes of stdin");
	return take_stdin(t, offset, w.p, w.n, e);
}

static int do_resize(struct term *t, const json_t *o, struct err *e)
{
	static const char *const known[] = {"type", "rows", "cols", NULL};
	uint64_t rows = 0, cols = 0;
	struct tap *tap = feed_tap(t->feed);
	if (json_only(o, known, e) || json_get_u64(o, "rows", &rows, e) || json_get_u64(o, "cols", &cols, e))
		return -1;
	if (!rows || !cols || rows > 10000 || cols > 10000)
		return err_set(e, ERR_INVALID, "rows and cols must be 1 to 10000");
	t->rows = (uint32_t)rows;
	t->cols = (uint32_t)cols;
	if (tap)
		tap_resize(tap, t->rows, t->cols);
	return 0;
}

static int do_signal(struct term *t, const json_t *o, struct err *e)
{
	static const char *const known[] = {"type", "signal", NULL};
	uint64_t sig = 0;
	struct tap *tap = feed_tap(t->feed);
	if (json_only(o, known, e) || json_get_u64(o, "signal", &sig, e))
		return -1;
	if (sig < 1 || sig > 64)
		return err_set(e, ERR_INVALID, "signal must be 1 to 64");
	if (tap)
		tap_signal(tap, (uint32_t)sig);
	return 0;
}

static int do_eof(struct term *t, const json_t *o, struct err *e)
{
	static const char *const known[] = {"type", NULL};
	if (json_only(o, known, e))
		return -1;
	t->eof = true;
	push_stdin(t);
	return 0;
}

static int do_stdin(struct term *t, const json_t *o, struct err *e)
{
	static const char *const known[] = {"type", "text", NULL};
	const char *text;
	if (json_only(o, known, e) || json_get_str(o, "text", &text, e))
		return -1;
	return text ? take_stdin(t, NO_OFFSET, (const uint8_t *)text, strlen(text), e) : 0;
}

static int take_control(struct term *t, const uint8_t *p, size_t n, struct err *e)
{
	static const struct {
		const char *type;
		int (*fn)(struct term *t, const json_t *o, struct err *e);
	} table[] = {{"resize", do_resize}, {"signal", do_signal}, {"eof", do_eof}, {"stdin", do_stdin}};
	auto_json json_t *o = json_read((const char *)p, n, e);
	if (!o)
		return -1;
	for (size_t i = 0; i < countof(table); i++)
		if (!strcmp(table[i].type, json_str(o, "type")))
			return table[i].fn(t, o, e);
	return err_set(e, ERR_INVALID, "type must be resize, signal, eof or stdin");
}

static int begin(struct term *t, bool text, const uint8_t *p, size_t n, struct err *e)
{
	struct exec_request x = {0};
	if (!text)
		return err_set(e, ERR_INVALID, "the first message must be the request, as text");
	auto_json json_t *o = json_read((const char *)p, n, e);
	if (!o || (!json_is_object(o) && err_set(e, ERR_INVALID, "the request must be a JSON object")) || decode_exec(o, &x, e)) {
		exec_request_done(&x);
		return -1;
	}
	timer_clear(t->loop, &t->first);
	ws_pause(t->ws, true); // until the command can take something
	struct actor was = engine_act(t->g, t->who);
	t->feed = feed_exec(t->loop, t->g, t->sandbox, &x, &feed_ops, t);
	engine_act(t->g, was);
	return 0;
}

static void on_message(void *ctx, bool text, const uint8_t *p, size_t n)
{
	struct term *t = ctx;
	struct err e;
	if (t->ended)
		return;
	int rc = !t->feed ? begin(t, text, p, n, &e) : text ? take_control(t, p, n, &e) : take_bytes(t, p, n, &e);
	if (!rc)
		return;
	if (t->feed)
		feed_close(t->feed);
	t->feed = NULL;
	t->ended = true;
	refuse(t, WS_POLICY, &e);
}

static void on_drained(void *ctx)
{
	struct term *t = ctx;
	if (t->feed)
		feed_pause(t->feed, false);
}

static void on_closed(void *ctx)
{
	struct term *t = ctx;
	timer_clear(t->loop, &t->first);
	if (t->feed)
		feed_close(t->feed);
	upgraded_close(t->up);
	term_free(t);
}

static void on_first_late(struct timer *tm)
{
	struct term *t = container_of(tm, struct term, first);
	struct err e;
	err_set(&e, ERR_TIMEOUT, "no request came");
	t->ended = true;
	refuse(t, WS_POLICY, &e);
}

static void on_shutdown(struct upgraded *u)
{
	ws_drop(((struct term *)u->ctx)->ws);
}

static void on_up(void *ctx, struct upgraded *u)
{
	static const struct ws_ops ops = {on_message, on_drained, on_closed};
	struct term *t = ctx;
	struct err e;
	t->up = u;
	u->on_shutdown = on_shutdown;
	t->ws = u->fd < 0 ? NULL : ws_open(t->loop, u->fd, u->extra, u->n_extra, &ops, t, &e);
	if (!t->ws) {
		upgraded_close(u);
		term_free(t);
		return;
	}
	if (t->sandbox) {
		t->first.fn = on_first_late;
		timer_set(t->loop, &t->first, FIRST_MS);
	} else {
		ws_pause(t->ws, true);
		t->feed = feed_attach(t->loop, t->g, t->exec, t->from, &feed_ops, t);
	}
}

// --- the handshake ---

static int handshake(struct request *r, char accept[WS_KEY_SIZE], struct err *e)
{
	const char *up = request_header(r, "Upgrade"), *version = request_header(r, "Sec-WebSocket-Version");
	if (!up || strcasecmp(up, "websocket"))
		return err_set(e, ERR_INVALID, "this is a WebSocket: ask with Upgrade: websocket");
	if (!version || strcmp(version, "13") || !ws_accept(request_header(r, "Sec-WebSocket-Key"), accept))
		return err_set(e, ERR_INVALID, "only WebSocket version 13 is spoken here");
	return 0;
}

static void upgrade(struct request *r, const char accept[WS_KEY_SIZE], struct term *t)
{
	const char *protocols = request_header(r, "Sec-WebSocket-Protocol");
	t->loop = request_loop(r);
	t->g = r->engine;
	t->who = request_actor(r);
	t->in = BUF_INIT(STDIN_HIGH + 2 * WS_MESSAGE_MAX);
	request_set_header(r, "Sec-WebSocket-Accept", accept);
	if (protocols && strstr(protocols, "skep.v1")) // a browser that named one wants it named
		request_set_header(r, "Sec-WebSocket-Protocol", "skep.v1");
	request_upgrade(r, "websocket", on_up, t);
}

void get_exec_ws(struct request *r)
{
	char accept[WS_KEY_SIZE];
	struct err e;
	struct exec_row row;
	uint64_t from[2];
	if (!exec_offsets(r, from))
		return;
	if (handshake(r, accept, &e) || engine_exec_get(r->engine, r->parts[0], &row, &e)) {
		request_fail(r, &e);
		return;
	}
	struct term *t = xcalloc(1, sizeof *t);
	t->exec = xstrdup(row.id);
	t->from[0] = from[0];
	t->from[1] = from[1];
	exec_row_done(&row);
	upgrade(r, accept, t);
}

void get_sandbox_exec_ws(struct request *r)
{
	char accept[WS_KEY_SIZE];
	struct err e;
	const struct sandbox *s = engine_get(r->engine, r->parts[0], &e);
	if (!s || handshake(r, accept, &e)) {
		request_fail(r, &e);
		return;
	}
	struct term *t = xcalloc(1, sizeof *t);
	t->sandbox = xstrdup(s->id);
	upgrade(r, accept, t);
}

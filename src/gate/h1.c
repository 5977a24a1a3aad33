// SPDX-License-Identifier: Apache-2.0
// The HTTP/1.x driver: one client connection, one connection to the host, one request at a time. A request is read
// whole up to its head, judged, then streamed; its answer may begin before it ends. Where the client has been told
// nothing yet a failure is an answer of ours, else the connection breaks off, so that half an answer never looks
// whole.
//
//   HEAD -> JUDGING -> (DIALLING, plain only, once) -> ACTIVE -> HEAD ...     ACTIVE -> RAW after 101     any -> ENDING
#include "gate/h1.h"

#include "base/mem.h"
#include "gate/open_int.h"
#include <stdlib.h>
#include <string.h>

#define WRITE_MAX (4u << 20)	// one piece with its framing; a masked one may grow
#define AHEAD_MAX HTTP_HEAD_MAX // bytes of further requests that are taken while one is under way

enum h1_state { H1_HEAD, H1_JUDGING, H1_DIALLING, H1_ACTIVE, H1_RAW, H1_ENDING };

struct h1 {
	struct opened *o;
	enum h1_state state;
	struct buf in;	 // client: a head, or what comes behind the request under way
	struct buf back; // host: the head of an answer
	struct exchange x;
	struct h1_message req, ans;
	struct body up, down;
	enum body_kind framing;	 // of the answer towards the client
	bool to_head, answering; // answering: the client has the head of an answer
	bool half_closed;	 // client: no more requests
	bool keep;
};

static void on_judged(struct exchange *x, enum refusal why);
static void next_request(struct h1 *h);

static void *h1_start(struct opened *o)
{
	struct h1 *h = xcalloc(1, sizeof *h);
	*h = (struct h1){
		.o = o, .in = BUF_INIT(2 * HTTP_HEAD_MAX + 2 * TLS_CHUNK), .back = BUF_INIT(2 * HTTP_HEAD_MAX)};
	opened_late(o, GATE_HEAD_MS, true);
	return h;
}

static void end_exchange(struct h1 *h)
{
	exchange_done(&h->x);
	h1_message_done(&h->req);
	h1_message_done(&h->ans);
	body_done(&h->up);
	body_done(&h->down);
}

static void finish(struct h1 *h, bool broken)
{
	end_exchange(h);
	h->state = H1_ENDING;
	opened_finish(h->o, broken);
}

static void refuse(struct h1 *h, enum refusal why)
{
	auto_buf struct buf text = BUF_INIT(8192), out = BUF_INIT(WRITE_MAX);
	if (h->answering) {
		finish(h, true);
		return;
	}
	if (h->x.begun)
		h->x.refused = why, h->x.status = refusal_status(why);
	refusal_text(why, h->x.judging.rule, &text);
	h1_put_refusal(refusal_status(why), refusal_reason(why), &text, h->to_head, &out);
	tls_write(&h->o->client, out.p, out.n);
	finish(h, false);
}

// The host went away. On a connection that has served before it is the ordinary end of a kept one: the client, seeing
// it closed without an answer, tries again.
static void host_lost(struct h1 *h)
{
	if (h->o->c->requests)
		finish(h, true);
	else
		refuse(h, REFUSE_REACH);
}

static void bound_client(struct h1 *h)
{
	bool behind = h->in.n > AHEAD_MAX && h->state != H1_HEAD;
	tls_pause(&h->o->client, behind || tls_queued(&h->o->server) > TLS_QUEUE_HIGH);
}

// --- the request ---------------------------------------------------------------------------------------------------

static bool put_up_end(struct h1 *h, struct buf *out)
{
	struct http_head t;
	struct err e;
	struct head trailer = {0};
	if (h->up.trailer.n && !http_trailer_parse(h->up.trailer.p, h->up.trailer.n, &t, &e))
		for (int i = 0; i < t.n_fields; i++)
			head_add(&trailer, t.fields[i].name, t.fields[i].value);
	bool clean = exchange_up_trailer(&h->x, &trailer);
	if (clean)
		h1_put_end(h->up.kind, &trailer, out);
	head_done(&trailer);
	return clean;
}

// Streams what belongs to the request's body; the rest stays in h->in.
static void feed_request(struct h1 *h, const char *p, size_t n)
{
	auto_buf struct buf body = BUF_INIT(WRITE_MAX), out = BUF_INIT(WRITE_MAX);
	struct err e;
	bool was_done = h->up.done;
	ssize_t used = body_take(&h->up, p, n, &body, &e);
	if (used < 0) {
		gate_denied(h->o->g, h->o->c, "request", e.msg, NULL);
		refuse(h, REFUSE_BAD);
		return;
	}
	if (body.n && !exchange_up(&h->x, body.p, body.n)) {
		refuse(h, h->x.refused);
		return;
	}
	h1_put_body(h->up.kind, body.p, body.n, &out);
	if (h->up.done && !was_done && !put_up_end(h, &out)) {
		refuse(h, REFUSE_SECRET);
		return;
	}
	tls_write(&h->o->server, out.p, out.n);
	if ((size_t)used < n)
		buf_add(&h->in, p + used, n - (size_t)used);
	bound_client(h);
}

static void feed_from_in(struct h1 *h)
{
	struct buf in = h->in;
	h->in = BUF_INIT(in.max);
	feed_request(h, in.p, in.n);
	buf_done(&in);
}

static void send_request(struct h1 *h)
{
	struct conn *c = h->o->c;
	auto_buf struct buf out = BUF_INIT(WRITE_MAX);
	auto_free char *name = xasprintf(strchr(c->host.s, ':') ? "[%s]" : "%s", c->host.s); // IPv6, dialled as it is
	auto_free char *authority = c->port == (h->o->tls ? 443 : 80) ? xstrdup(name) : xasprintf("%s:%u", name, c->port);
	if (!tls_is_open(&h->o->server)) {
		host_lost(h);
		return;
	}
	h->req.head = h->x.req;
	h->x.req = (struct head){0};
	h1_put_request(&h->req, authority, &out);
	tls_write_secret(&h->o->server, out.p, out.n);
	explicit_bzero(out.p, out.cap);
	head_done(&h->req.head);
	h->state = H1_ACTIVE;
	feed_from_in(h);
}

static void on_judged(struct exchange *x, enum refusal why)
{
	struct h1 *h = container_of(x, struct h1, x);
	if (why) {
		refuse(h, why);
	} else if (!h->o->tls && h->o->server.state == TLS_NONE) {
		h->state = H1_DIALLING;
		opened_dial(h->o);
	} else {
		send_request(h);
	}
}

static void h1_dialled(void *d)
{
	struct h1 *h = d;
	if (h->state != H1_DIALLING)
		return;
	if (h->o->failed)
		refuse(h, h->o->failed);
	else
		send_request(h);
}

static void malformed(struct h1 *h, const char *why)
{
	gate_denied(h->o->g, h->o->c, "request", why, NULL);
	h->to_head = false;
	refuse(h, REFUSE_BAD);
}

static void late_bytes(struct exchange *x, const struct buf *clean)
{
	struct h1 *h = container_of(x, struct h1, x);
	auto_buf struct buf out = BUF_INIT(WRITE_MAX);
	h1_put_body(h->state == H1_RAW ? BODY_EOF : h->framing, clean->p, clean->n, &out);
	tls_write(&h->o->client, out.p, out.n);
}

static void next_request(struct h1 *h)
{
	struct err e;
	if (!h->in.n)
		return;
	if (!h->o->fixed)
		opened_late(h->o, GATE_HEAD_MS, true); // a head has begun: however slowly it drips, it ends by then
	ssize_t used = h1_read_request(h->in.p, h->in.n, &h->req, &e);
	if (used < 0)
		malformed(h, e.msg);
	if (used <= 0)
		return;
	buf_cut(&h->in, (size_t)used);
	opened_late(h->o, GATE_IDLE_MS, false);
	exchange_init(&h->x, h->o, on_judged);
	h->x.late_bytes = late_bytes;
	h->x.req = h->req.head;
	h->req.head = (struct head){0};
	h->to_head = !strcmp(h->x.req.method, "HEAD");
	h->answering = false;
	h->keep = h->req.keep;
	body_init(&h->up, &h->req);
	h->state = H1_JUDGING;
	exchange_begin(&h->x, h->req.authority);
}

static void h1_client_data(void *d, const char *p, size_t n)
{
	struct h1 *h = d;
	if (h->state == H1_ENDING)
		return;
	if (h->state == H1_RAW) {
		h->x.up += n;
		tls_write(&h->o->server, p, n);
		bound_client(h);
	} else if (h->state == H1_ACTIVE && !h->up.done) {
		feed_request(h, p, n);
	} else {
		buf_add(&h->in, p, n);
		if (h->state == H1_HEAD)
			next_request(h);
		if (h->state != H1_ENDING)
			bound_client(h);
	}
}

// --- the answer ----------------------------------------------------------------------------------------------------

static void bound_server(struct h1 *h)
{
	tls_pause(&h->o->server, tls_queued(&h->o->client) > TLS_QUEUE_HIGH);
}

static void answered(struct h1 *h)
{
	if (!h->keep || !h->up.done || h->half_closed) {
		finish(h, false);
		return;
	}
	end_exchange(h);
	buf_clear(&h->back);
	h->state = H1_HEAD;
	opened_late(h->o, OPENED_IDLE_MS, false);
	bound_client(h);
	next_request(h);
}

static void put_down_end(struct h1 *h, struct buf *out)
{
	struct http_head t;
	struct err e;
	struct head trailer = {0};
	if (h->down.trailer.n && !http_trailer_parse(h->down.trailer.p, h->down.trailer.n, &t, &e))
		for (int i = 0; i < t.n_fields; i++)
			head_add(&trailer, t.fields[i].name, t.fields[i].value);
	exchange_answer(&h->x, &trailer);
	h1_put_end(h->framing, &trailer, out);
	head_done(&trailer);
}

// end: the host has closed, which ends a body that had no other end.
static void feed_answer(struct h1 *h, const char *p, size_t n, bool end)
{
	auto_buf struct buf body = BUF_INIT(WRITE_MAX), clean = BUF_INIT(WRITE_MAX), out = BUF_INIT(WRITE_MAX);
	struct err e;
	ssize_t used = n ? body_take(&h->down, p, n, &body, &e) : 0;
	if (used < 0) {
		finish(h, true);
		return;
	}
	end |= h->down.done;
	exchange_down(&h->x, body.p, body.n, end, &clean);
	h1_put_body(h->framing, clean.p, clean.n, &out);
	if (end)
		put_down_end(h, &out);
	tls_write(&h->o->client, out.p, out.n);
	bound_server(h);
	if (!end)
		return;
	if ((size_t)used < n)
		h->keep = false; // more than the answer: nobody asked for it
	answered(h);
}

static enum body_kind framing_down(const struct h1 *h)
{
	if (h->ans.body == BODY_NONE || (h->ans.body == BODY_LENGTH && !h->x.masked))
		return h->ans.body;
	return h->req.old ? BODY_EOF : BODY_CHUNKED;
}

static void put_head(struct h1 *h)
{
	auto_buf struct buf out = BUF_INIT(WRITE_MAX);
	h1_put_answer(&h->ans, h->framing, h->keep, &out);
	tls_write(&h->o->client, out.p, out.n);
}

static void begin_answer(struct h1 *h)
{
	enum refusal why = exchange_answer(&h->x, &h->ans.head);
	if (why) {
		refuse(h, why);
		return;
	}
	h->framing = framing_down(h);
	h->keep = h->keep && h->ans.keep && h->framing != BODY_EOF && h->up.done;
	if (h->x.masked)
		h->ans.has_length &= h->ans.body == BODY_LENGTH; // what HEAD tells is not what GET will have
	put_head(h);
	h->answering = true;
	body_init(&h->down, &h->ans);
}

static void feed_raw(struct h1 *h, const char *p, size_t n, bool end)
{
	auto_buf struct buf clean = BUF_INIT(WRITE_MAX);
	exchange_down(&h->x, p, n, end, &clean);
	tls_write(&h->o->client, clean.p, clean.n);
	bound_server(h);
}

// Interim answers go on as they are; 101 makes a stream of the connection, if that was asked for.
static void interim(struct h1 *h)
{
	bool upgrade = h->ans.head.status == 101;
	if (upgrade && (!h->req.websocket || !h->ans.websocket)) {
		refuse(h, REFUSE_ANSWER);
		return;
	}
	enum refusal why = exchange_answer(&h->x, &h->ans.head);
	if (why) {
		refuse(h, why);
		return;
	}
	h->framing = BODY_NONE;
	if (!h->req.old)
		put_head(h);
	h1_message_done(&h->ans);
	if (!upgrade)
		return;
	h->state = H1_RAW;
	h->answering = true;
	if (h->in.n) { // the client could not know yet, but may have hoped
		h->x.up += h->in.n;
		tls_write(&h->o->server, h->in.p, h->in.n);
		buf_clear(&h->in);
	}
}

// Reads heads from h->back until a final one is found. True when p's rest now is a body or a raw stream.
static bool read_heads(struct h1 *h)
{
	struct err e;
	while (h->state == H1_ACTIVE && !h->answering) {
		ssize_t used = h1_read_answer(buf_cstr(&h->back), h->back.n, h->to_head, &h->ans, &e);
		if (used < 0)
			refuse(h, REFUSE_ANSWER);
		if (used <= 0)
			return false;
		buf_cut(&h->back, (size_t)used);
		if (h->ans.head.status < 200)
			interim(h);
		else
			begin_answer(h);
	}
	return h->state == H1_ACTIVE || h->state == H1_RAW;
}

static void h1_server_data(void *d, const char *p, size_t n)
{
	struct h1 *h = d;
	if (h->state == H1_ENDING)
		return;
	if (h->state == H1_RAW) {
		feed_raw(h, p, n, false);
	} else if (h->state != H1_ACTIVE) {
		finish(h, true); // an answer that nobody asked for
	} else if (h->answering) {
		feed_answer(h, p, n, false);
	} else {
		buf_add(&h->back, p, n);
		if (!read_heads(h))
			return;
		struct buf rest = h->back;
		h->back = BUF_INIT(rest.max);
		if (h->state == H1_RAW)
			feed_raw(h, rest.p, rest.n, false);
		else if (rest.n || h->down.done)
			feed_answer(h, rest.p, rest.n, false);
		buf_done(&rest);
	}
}

static void h1_server_end(void *d, bool clean)
{
	struct h1 *h = d;
	if (h->state == H1_ENDING)
		return;
	if (h->state == H1_RAW) {
		if (clean)
			feed_raw(h, NULL, 0, true);
		finish(h, !clean);
	} else if (h->state == H1_HEAD) {
		finish(h, false);
	} else if (h->state == H1_JUDGING) {
		return; // seen when the request is to be sent
	} else if (!h->answering) {
		host_lost(h);
	} else if (clean && h->ans.body == BODY_EOF) {
		feed_answer(h, NULL, 0, true);
	} else {
		finish(h, true);
	}
}

static void h1_client_end(void *d, bool clean)
{
	struct h1 *h = d;
	h->half_closed = true;
	// With TLS nobody closes one half only: whoever says goodbye is gone, and the host need not work on.
	if (!clean || h->o->tls || h->state == H1_HEAD || h->state == H1_RAW || !h->up.done)
		finish(h, true);
}

static void h1_client_drain(void *d)
{
	struct h1 *h = d;
	if (h->state != H1_ENDING)
		bound_server(h);
}

static void h1_server_drain(void *d)
{
	struct h1 *h = d;
	if (h->state != H1_ENDING)
		bound_client(h);
}

static bool h1_is_idle(void *d)
{
	struct h1 *h = d;
	return h->state == H1_HEAD || h->state == H1_ENDING;
}

static void h1_policy(void *d)
{
	struct h1 *h = d;
	if (h->state != H1_ENDING && !exchange_is_allowed(&h->x))
		refuse(h, REFUSE_POLICY);
}

static void h1_stop(void *d)
{
	struct h1 *h = d;
	end_exchange(h);
	h->state = H1_ENDING;
}

static void h1_free(void *d)
{
	struct h1 *h = d;
	buf_done(&h->in);
	buf_done(&h->back);
	free(h);
}

const struct driver h1_driver = {
	h1_start,      h1_client_data, h1_server_data, h1_client_drain, h1_server_drain, h1_client_end,
	h1_server_end, h1_dialled,     h1_is_idle,     h1_policy,	h1_stop,
	h1_free,
};

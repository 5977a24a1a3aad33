// SPDX-License-Identifier: Apache-2.0
// The byte side of a preview: one visit per client connection. What is read from one side is passed on to the other at
// once; where that does not take it, reading stops. So a visit holds a few hundred KiB, however large its bodies are.
#include "api/preview_int.h"

#include "base/mem.h"
#include "engine/access.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_MS 10000	  // for the rest of a head that began behind another request
#define BODY_MS 60000	  // a request's body may stand still so long
#define CLOSING_MS 5000	  // for the last bytes, and for the client to close
#define HALF_MS 30000	  // a tunnel of which one side ended
#define IN_MAX (HTTP_HEAD_MAX + (256u << 10))

// The engine answers when it answers: by then the visit may be over.
struct dialling_visit {
	struct visit *v; // NULL = it is
};

static const struct flow_ops client_ops, inside_ops;

// --- life ---

static void visit_free(void *obj)
{
	struct visit *v = obj;
	buf_done(&v->in);
	buf_done(&v->head);
	buf_done(&v->request);
	free(v);
}

static void leave_inside(struct visit *v)
{
	if (v->dialling)
		v->dialling->v = NULL;
	v->dialling = NULL;
	flow_close(take(&v->inside));
	buf_clear(&v->head);
	buf_clear(&v->request);
}

// Lets go of the connection: it is the front's again, which closes it or waits for its next head.
static void let_go(struct visit *v, bool again)
{
	leave_inside(v);
	front_until(v->conn, 0);
	timer_clear(v->p->loop, &v->late);
	list_unlink(&v->p->visits, v, next);
	struct front_conn *c = take(&v->conn);
	flow_detach(take(&v->client));
	loop_bury(v->p->loop, v, visit_free);
	if (again)
		front_again(c);
	else
		front_close(c);
}

void visit_end(struct visit *v)
{
	if (v->conn)
		let_go(v, false);
}

static void on_late(struct timer *t)
{
	visit_end(container_of(t, struct visit, late));
}

static void wait_at_most(struct visit *v, uint64_t ms)
{
	v->late.fn = on_late;
	timer_set(v->p->loop, &v->late, ms);
}

static void close_behind(struct visit *v)
{
	leave_inside(v);
	v->stage = VISIT_CLOSING;
	v->half = false;
	flow_eof(v->client);
	flow_pause(v->client, false);
	wait_at_most(v, CLOSING_MS);
}

void visit_say(struct visit *v, struct buf *page)
{
	flow_send(v->client, page->p, page->n);
	close_behind(v);
}

static void try_head(struct visit *v)
{
	struct http_head h;
	struct err e;
	ssize_t used = http_request_parse(v->in.p, v->in.n, &h, &e);
	if (!used) {
		wait_at_most(v, HEAD_MS);
		return;
	}
	timer_clear(v->p->loop, &v->late);
	v->answered = v->half = v->html = v->e2b = false;
	if (used < 0) {
		visit_page(v, PAGE_MALFORMED, e.msg);
		return;
	}
	v->old = !h.minor;
	visit_judge(v, &h);
	if (v->conn && v->stage != VISIT_CLOSING)
		buf_cut(&v->in, (size_t)used);
}

static void exchange_over(struct visit *v)
{
	bool done = v->inwards.done && !v->answer.close;
	leave_inside(v);
	timer_clear(v->p->loop, &v->late);
	if (!done) {
		close_behind(v);
		return;
	}
	if (v->in.n) {
		v->stage = VISIT_READING;
		flow_pause(v->client, false);
		try_head(v);
	} else if (flow_queued(v->client)) {
		v->stage = VISIT_RESTING;
	} else {
		let_go(v, true);
	}
}

// --- bodies ---

static void keep(struct visit *v, const char *p, size_t n)
{
	buf_add(&v->in, p, n);
	if (v->in.overflow)
		visit_end(v);
}

// What came of the request's body; what is behind it waits for its turn.
static void pass_inwards(struct visit *v, const char *p, size_t n)
{
	ssize_t used = relay_pass(&v->inwards, p, n, v->inside);
	if (used < 0) {
		visit_end(v);
		return;
	}
	if (v->inwards.done)
		timer_clear(v->p->loop, &v->late);
	else
		wait_at_most(v, BODY_MS);
	if ((size_t)used < n)
		keep(v, p + used, n - (size_t)used);
	if (v->conn && (flow_queued(v->inside) >= FLOW_HIGH || v->in.n))
		flow_pause(v->client, true);
}

// --- the client's side ---

static void client_data(void *ctx, const char *p, size_t n)
{
	struct visit *v = ctx;
	switch (v->stage) {
	case VISIT_READING:
		keep(v, p, n);
		if (v->conn)
			try_head(v);
		break;
	case VISIT_DIALLING:
	case VISIT_RESTING:
		keep(v, p, n);
		break;
	case VISIT_PASSING:
		pass_inwards(v, p, n);
		break;
	case VISIT_TUNNEL:
		if (!flow_send(v->inside, p, n))
			flow_pause(v->client, true);
		break;
	case VISIT_CLOSING:
		break;
	}
}

static void client_drain(void *ctx)
{
	struct visit *v = ctx;
	if (v->inside)
		flow_pause(v->inside, false);
	if (v->stage == VISIT_RESTING && v->in.n) {
		v->stage = VISIT_READING;
		try_head(v);
	} else if (v->stage == VISIT_RESTING) {
		let_go(v, true);
	} else if (v->stage == VISIT_CLOSING && v->half) {
		visit_end(v);
	}
}

static void half_closed(struct visit *v, struct flow *other)
{
	if (v->half) {
		close_behind(v);
		return;
	}
	v->half = true;
	flow_eof(other);
	wait_at_most(v, HALF_MS);
}

static void client_end(void *ctx, const struct err *e)
{
	struct visit *v = ctx;
	if (!e && v->stage == VISIT_TUNNEL)
		half_closed(v, v->inside);
	else if (!e && v->stage == VISIT_CLOSING && flow_queued(v->client))
		v->half = true; // it still reads
	else
		visit_end(v);
}

static const struct flow_ops client_ops = {client_data, client_drain, client_end};

// --- the inside ---

static void begin_tunnel(struct visit *v, size_t used)
{
	v->stage = VISIT_TUNNEL;
	v->half = false;
	timer_clear(v->p->loop, &v->late);
	flow_send(v->client, v->head.p + used, v->head.n - used);
	flow_send(v->inside, v->in.p, v->in.n);
	buf_clear(&v->in);
	buf_clear(&v->head);
	flow_pause(v->client, false);
}

static void broken(struct visit *v, const char *why)
{
	if (v->answered)
		visit_end(v); // so that the client sees that it is not the end
	else
		visit_page(v, PAGE_BROKEN, why);
}

static void pass_outwards(struct visit *v, const char *p, size_t n)
{
	ssize_t used = relay_pass(&v->outwards, p, n, v->client);
	if (used < 0)
		visit_end(v);
	else if (v->outwards.done)
		exchange_over(v);
	else if (flow_queued(v->client) >= FLOW_HIGH)
		flow_pause(v->inside, true);
}

static void send_head(struct visit *v, const struct http_head *h, size_t used)
{
	struct err e;
	auto_buf struct buf out = BUF_INIT(2 * HTTP_HEAD_MAX);
	if (preview_put_answer(h, &v->target, &v->asked, v->old, &out, &v->answer, &e)) {
		broken(v, e.msg);
		return;
	}
	bool interim = h->status < 200 && !v->answer.websocket;
	if (!interim || !v->old)
		flow_send(v->client, out.p, out.n);
	if (v->answer.websocket) {
		v->answered = true;
		begin_tunnel(v, used);
	}
	if (interim || v->answer.websocket)
		return;
	v->answered = true;
	relay_begin(&v->outwards, v->answer.frame, v->answer.length, v->answer.chunk);
}

static void inside_data(void *ctx, const char *p, size_t n)
{
	struct visit *v = ctx;
	struct http_head h;
	struct err e;
	if (v->stage == VISIT_TUNNEL) {
		if (!flow_send(v->client, p, n))
			flow_pause(v->inside, true);
		return;
	}
	if (v->answered) {
		pass_outwards(v, p, n);
		return;
	}
	buf_add(&v->head, p, n);
	while (v->conn && v->inside && !v->answered) {
		ssize_t used = v->head.overflow ? -1 : http_head_parse(v->head.p, v->head.n, &h, &e);
		if (!used)
			return;
		if (used < 0) {
			broken(v, v->head.overflow ? "its answer's head is too long" : e.msg);
			return;
		}
		send_head(v, &h, (size_t)used);
		if (v->conn && v->inside && v->stage == VISIT_PASSING)
			buf_cut(&v->head, (size_t)used);
	}
	if (v->conn && v->inside && v->answered && v->stage == VISIT_PASSING) {
		auto_buf struct buf rest = v->head;
		v->head = BUF_INIT(rest.max);
		if (v->outwards.done)
			exchange_over(v);
		else if (rest.n)
			pass_outwards(v, rest.p, rest.n);
	}
}

static void inside_drain(void *ctx)
{
	struct visit *v = ctx;
	if (v->stage == VISIT_TUNNEL || !v->in.n)
		flow_pause(v->client, false);
}

static void inside_end(void *ctx, const struct err *e)
{
	struct visit *v = ctx;
	if (v->stage == VISIT_TUNNEL) {
		if (e)
			visit_end(v);
		else
			half_closed(v, v->client);
	} else if (v->answered && v->outwards.frame == FRAME_END && !e) {
		relay_finish(&v->outwards, v->client);
		exchange_over(v);
	} else {
		broken(v, "it closed the connection without an answer");
	}
}

static const struct flow_ops inside_ops = {inside_data, inside_drain, inside_end};

static void on_dialled(void *ctx, const struct err *e, struct flow *f)
{
	struct dialling_visit *d = ctx;
	struct visit *v = d->v;
	struct err se;
	free(d);
	if (!v) {
		flow_close(f);
		return;
	}
	v->dialling = NULL;
	v->inside = f;
	if (!e && flow_start(f, v->p->loop, &inside_ops, v, &se))
		e = &se;
	if (e) {
		enum page page = e->kind == ERR_NOT_FOUND ? PAGE_UNKNOWN : e->sys == ECONNREFUSED ? PAGE_CLOSED : PAGE_UNAVAILABLE;
		visit_page(v, page, e->msg);
		return;
	}
	v->stage = VISIT_PASSING;
	flow_send(f, v->request.p, v->request.n);
	buf_clear(&v->request);
	relay_begin(&v->inwards, v->asked.frame, v->asked.length, v->asked.frame == FRAME_CHUNKED);
	flow_pause(v->client, false);
	auto_buf struct buf rest = v->in;
	v->in = BUF_INIT(IN_MAX);
	pass_inwards(v, rest.p, rest.n);
}

static void on_awake(void *ctx, bool runs)
{
	struct dialling_visit *d = ctx;
	struct err e;
	err_set(&e, ERR_NOT_FOUND, "it does not run");
	if (d->v && runs)
		engine_dial(d->v->p->engine, d->v->sandbox, d->v->target.port, (struct dial_reply){on_dialled, d});
	else
		on_dialled(d, &e, NULL);
}

void visit_dial(struct visit *v)
{
	struct dialling_visit *d = xcalloc(1, sizeof *d);
	d->v = v;
	v->dialling = d;
	v->stage = VISIT_DIALLING;
	flow_pause(v->client, true);
	const struct preview_policy *policy = v->p->policy;
	if (policy)
		policy->wake(policy->ctx, v->sandbox, on_awake, d);
	else
		on_awake(d, true);
}

// --- the front ---

static bool wants(void *ctx, const struct http_head *h)
{
	struct preview_target t;
	(void)ctx;
	preview_target_parse(h, PREVIEW_ENVD, &t);
	return t.form != PREVIEW_NONE;
}

static void take_conn(void *ctx, struct front_conn *c, const struct http_head *h)
{
	struct preview *p = ctx;
	struct err e;
	(void)h;
	struct visit *v = xcalloc(1, sizeof *v);
	*v = (struct visit){.p = p, .conn = c, .next = p->visits, .stage = VISIT_READING};
	v->in = BUF_INIT(IN_MAX);
	v->head = BUF_INIT(IN_MAX);
	v->request = BUF_INIT(2 * HTTP_HEAD_MAX);
	v->client = flow_new(c->fd);
	p->visits = v;
	if (flow_start(v->client, p->loop, &client_ops, v, &e))
		visit_end(v);
	else
		wait_at_most(v, HEAD_MS);
}

static bool is_void(void *ctx, const struct front_conn *c)
{
	const struct preview *p = ctx;
	const struct visit *v = p->visits;
	while (v && v->conn != c)
		v = v->next;
	if (!v || (v->stage != VISIT_DIALLING && v->stage != VISIT_PASSING && v->stage != VISIT_TUNNEL))
		return false;
	return (v->sign[0] && !preview_check(p->engine, v->sandbox, v->target.port, str_of(v->sign))) ||
	       (v->token[0] && !engine_token_lives(p->engine, v->token));
}

static void stop(void *ctx)
{
	struct preview *p = ctx;
	while (p->visits)
		visit_end(p->visits);
}

struct preview *preview_new(struct loop *l, struct engine *g)
{
	struct preview *p = xcalloc(1, sizeof *p);
	p->loop = l;
	p->engine = g;
	p->taker = xcalloc(1, sizeof *p->taker);
	*p->taker = (struct front_taker){.wants = wants, .take = take_conn, .stop = stop, .is_void = is_void, .ctx = p};
	return p;
}

void preview_free(struct preview *p)
{
	if (!p)
		return;
	stop(p);
	free(p->taker);
	free(p);
}

void preview_set_policy(struct preview *p, const struct preview_policy *policy)
{
	p->policy = policy;
}

const struct front_taker *preview_taker(struct preview *p)
{
	return p->taker;
}

// SPDX-License-Identifier: Apache-2.0
#include "engine/feed.h"

#include "base/loop.h"
#include "base/mem.h"
#include "engine/access.h"
#include <stdlib.h>
#include <string.h>

#define CHUNK (64u << 10)

struct feed {
	struct loop *loop;
	struct engine *g;
	const struct feed_ops *ops;
	void *ctx;
	struct tap *tap;
	char exec[ID_SIZE];
	uint64_t from[2];
	struct chore next; // of what was kept; or to tell a failure
	struct err why;
	struct exec_result result; // of one that is over
	bool failed, kept, starting, closed, paused;
};

static void feed_free(void *obj)
{
	struct feed *f = obj;
	exec_result_done(&f->result);
	free(f);
}

static void finish(struct feed *f, const struct err *e, const struct exec_result *r)
{
	f->tap = NULL;
	f->kept = false; // nobody asks for the next piece any more
	if (!f->closed)
		f->ops->end(f->ctx, e, r);
	loop_forget(f->loop, &f->next);
	loop_bury(f->loop, f, feed_free);
}

static void fail_soon(struct feed *f, const struct err *e)
{
	f->why = *e;
	f->failed = true;
	loop_soon(f->loop, &f->next);
}

// --- live ---

static void on_data(void *ctx, int stream, uint64_t offset, const void *p, size_t n)
{
	struct feed *f = ctx;
	f->ops->data(f->ctx, stream, offset, p, n);
}

static void on_gap(void *ctx, int stream, uint64_t from, uint64_t to)
{
	struct feed *f = ctx;
	f->ops->gap(f->ctx, stream, from, to);
}

static void on_room(void *ctx, uint64_t received)
{
	struct feed *f = ctx;
	if (f->ops->room)
		f->ops->room(f->ctx, received);
}

static void on_end(void *ctx, const struct err *e, const struct exec_result *r)
{
	finish(ctx, e, r);
}

static const struct tap_ops ops = {on_data, on_gap, on_room, on_end};

static void begin_kept(struct feed *f, struct exec_row *row);

static bool is_over(struct feed *f, struct exec_row *out)
{
	struct err e;
	if (engine_exec_get(f->g, f->exec, out, &e))
		return false;
	if (!out->running)
		return true;
	exec_row_done(out);
	return false;
}

static void on_begun(void *ctx, const struct err *e, const struct outcome *o)
{
	struct feed *f = ctx;
	struct exec_row row;
	struct err te;
	f->starting = false;
	if (e) { // it may have ended between the look at it and now
		if (f->exec[0] && is_over(f, &row))
			begin_kept(f, &row);
		else
			fail_soon(f, e);
		return;
	}
	memcpy(f->exec, o->exec_id, strlen(o->exec_id) + 1 < ID_SIZE ? strlen(o->exec_id) + 1 : ID_SIZE - 1);
	f->tap = tap_open(f->loop, f->g, o->sandbox->id, o->ticket, f->from, &ops, f, &te);
	if (!f->tap) {
		fail_soon(f, &te);
	} else if (f->closed) {
		tap_close(f->tap);
		loop_bury(f->loop, f, feed_free);
	} else {
		tap_pause(f->tap, f->paused);
		f->ops->begun(f->ctx, f->exec);
	}
}

// --- kept ---

// One piece of one stream; true: there was one.
static bool give_piece(struct feed *f, int i, struct err *e, int *rc)
{
	auto_buf struct buf b = BUF_INIT(CHUNK);
	uint64_t first, end;
	*rc = engine_output(f->g, f->exec, i ? "stderr" : "stdout", f->from[i], &b, &first, &end, e);
	if (*rc || f->from[i] >= end)
		return false;
	uint64_t was = f->from[i];
	f->from[i] = first + b.n;
	if (first > was)
		f->ops->gap(f->ctx, i + 1, was, first);
	if (b.n && !f->closed)
		f->ops->data(f->ctx, i + 1, first, b.p, b.n);
	return true;
}

static void on_next(struct chore *c)
{
	struct feed *f = container_of(c, struct feed, next);
	struct err e;
	int rc = 0;
	if (f->failed || f->closed) {
		finish(f, &f->why, NULL);
		return;
	}
	if (f->starting) {
		f->starting = false;
		f->ops->begun(f->ctx, f->exec);
		loop_soon(f->loop, &f->next);
		return;
	}
	if (f->paused)
		return;
	bool more = give_piece(f, 0, &e, &rc) || (!rc && !f->paused && !f->closed && give_piece(f, 1, &e, &rc));
	if (rc)
		finish(f, &e, NULL);
	else if (more || f->paused || f->closed)
		loop_soon(f->loop, &f->next);
	else
		finish(f, NULL, &f->result);
}

static void begin_kept(struct feed *f, struct exec_row *row)
{
	f->kept = f->starting = true;
	f->result = row->result;
	row->result = (struct exec_result){0};
	exec_row_done(row);
	loop_soon(f->loop, &f->next);
}

// --- both ---

static struct feed *feed_new(struct loop *l, struct engine *g, const struct feed_ops *fops, void *ctx)
{
	struct feed *f = xcalloc(1, sizeof *f);
	f->loop = l;
	f->g = g;
	f->ops = fops;
	f->ctx = ctx;
	f->next.fn = on_next;
	return f;
}

// begun() must not come before we return: the engine may answer at once.
struct starter {
	struct chore go;
	struct feed *f;
	struct exec_request x;
	char *id;
	struct actor who;
};

static void on_go(struct chore *c)
{
	struct starter *s = container_of(c, struct starter, go);
	struct feed *f = s->f;
	struct engine *g = f->g;
	struct actor was = engine_act(g, s->who);
	if (f->closed)
		loop_bury(f->loop, f, feed_free);
	else if (s->x.argv)
		engine_exec(f->g, s->id, &s->x, (struct done){on_begun, f});
	else
		engine_attach(f->g, s->id, (struct done){on_begun, f});
	engine_act(g, was);
	exec_request_done(&s->x);
	free(s->id);
	free(s);
}

static void start(struct feed *f, const char *id, struct exec_request *x)
{
	struct starter *s = xcalloc(1, sizeof *s);
	s->go.fn = on_go;
	s->f = f;
	s->id = xstrdup(id);
	s->who = engine_actor(f->g);
	if (x) {
		s->x = *x;
		*x = (struct exec_request){0};
	}
	f->starting = true;
	loop_soon(f->loop, &s->go);
}

struct feed *feed_exec(struct loop *l, struct engine *g, const char *sandbox, struct exec_request *x, const struct feed_ops *fops, void *ctx)
{
	struct feed *f = feed_new(l, g, fops, ctx);
	x->detached = false; // somebody reads it
	start(f, sandbox, x);
	return f;
}

struct feed *feed_attach(struct loop *l, struct engine *g, const char *exec, const uint64_t from[2], const struct feed_ops *fops, void *ctx)
{
	struct feed *f = feed_new(l, g, fops, ctx);
	struct exec_row row;
	struct err e;
	f->from[0] = from[0];
	f->from[1] = from[1];
	if (engine_exec_get(g, exec, &row, &e)) {
		fail_soon(f, &e);
		return f;
	}
	memcpy(f->exec, row.id, sizeof f->exec);
	if (!row.running) {
		begin_kept(f, &row);
	} else {
		exec_row_done(&row);
		start(f, f->exec, NULL);
	}
	return f;
}

void feed_close(struct feed *f)
{
	f->closed = true;
	if (f->starting || f->failed)
		return; // whoever comes next buries it
	if (f->kept) {
		loop_soon(f->loop, &f->next);
	} else {
		tap_close(f->tap);
		f->tap = NULL;
		loop_bury(f->loop, f, feed_free);
	}
}

void feed_pause(struct feed *f, bool on)
{
	f->paused = on;
	if (f->tap)
		tap_pause(f->tap, on);
	else if (!on && f->kept)
		loop_soon(f->loop, &f->next);
}

struct tap *feed_tap(struct feed *f)
{
	return f->closed ? NULL : f->tap;
}

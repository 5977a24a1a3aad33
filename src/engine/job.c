// SPDX-License-Identifier: Apache-2.0
// File operations for surfaces: in pieces, or whole.
#include "engine/tap.h"

#include "base/loop.h"
#include "base/mem.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SAID_MAX 4096

struct job_run {
	struct loop *loop;
	struct engine *g;
	struct tap *tap;
	const struct job_ops *ops;
	void *ctx;
	char *sandbox;
	struct exec_request x;
	struct buf said;
	struct chore failed; // before it began
	struct err why;
	bool paused, closed, starting, eof; // eof: before there was somebody to tell
};

static void free_run(void *obj)
{
	struct job_run *r = obj;
	buf_done(&r->said);
	exec_request_done(&r->x);
	free(r->sandbox);
	free(r);
}

static void finish(struct job_run *r, const struct err *e)
{
	if (!r->closed)
		r->ops->end(r->ctx, e);
	r->tap = NULL;
	loop_bury(r->loop, r, free_run);
}

static void on_failed(struct chore *c)
{
	struct job_run *r = container_of(c, struct job_run, failed);
	finish(r, &r->why);
}

static void fail_soon(struct job_run *r, const struct err *e)
{
	r->why = *e;
	r->starting = true; // nothing to close until then
	loop_soon(r->loop, &r->failed);
}

static void on_data(void *ctx, int stream, uint64_t offset, const void *p, size_t n)
{
	struct job_run *r = ctx;
	(void)offset;
	if (stream == 1)
		r->ops->data(r->ctx, p, n);
	else
		buf_add(&r->said, p, n < SAID_MAX - r->said.n ? n : SAID_MAX - r->said.n);
}

static void on_room(void *ctx, uint64_t received)
{
	struct job_run *r = ctx;
	(void)received;
	if (r->ops->room)
		r->ops->room(r->ctx);
}

static enum err_kind kind_of(int sys)
{
	switch (sys) {
	case ENOENT:
		return ERR_NOT_FOUND;
	case EACCES:
	case EPERM:
	case EROFS:
		return ERR_DENIED;
	case EEXIST:
	case ENOTEMPTY:
	case ESTALE:
	case ENOTUNIQ:
		return ERR_CONFLICT;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return ERR_LIMIT;
	default:
		return ERR_INVALID;
	}
}

static void on_end(void *ctx, const struct err *why, const struct exec_result *res)
{
	struct job_run *r = ctx;
	struct err e;
	if (!res || !res->status) {
		finish(r, res ? NULL : why);
		return;
	}
	const char *said = buf_cstr(&r->said);
	size_t n = strcspn(said, "\n");
	if (n) {
		err_set(&e, kind_of((int)res->status), "%.*s", (int)n, said);
		e.sys = (int)res->status;
	} else if (res->reason) { // it did not even begin
		err_set(&e, res->status == 127 ? ERR_NOT_FOUND : ERR_DENIED, "%s", res->reason);
	} else if (!res->signal && res->status < 128) { // its words were lost on the way; the status is the errno that it failed with
		err_set(&e, kind_of((int)res->status), "%s", strerror((int)res->status));
		e.sys = (int)res->status;
	} else {
		err_set(&e, ERR_UNAVAILABLE, "the file operation ended with status %u, signal %u, and did not say why", res->status, res->signal);
	}
	finish(r, &e);
}

static const struct tap_ops ops = {.data = on_data, .room = on_room, .end = on_end};

static void on_begun(void *ctx, const struct err *e, const struct outcome *o)
{
	struct job_run *r = ctx;
	struct err te;
	r->starting = false;
	if (e) {
		fail_soon(r, e);
		return;
	}
	r->tap = tap_open(r->loop, r->g, o->sandbox ? o->sandbox->id : r->sandbox, o->ticket, NULL, &ops, r, &te);
	if (!r->tap) {
		fail_soon(r, &te);
	} else if (r->closed) { // so that the cell sees that it has no client
		tap_close(r->tap);
		loop_bury(r->loop, r, free_run);
	} else {
		tap_pause(r->tap, r->paused);
		if (r->eof)
			tap_eof(r->tap);
	}
}

static void begin(struct job_run *r)
{
	engine_exec(r->g, r->sandbox, &r->x, (struct done){on_begun, r});
}

// A sandbox that can not start (its base is gone) still shows what is there.
static void on_started(void *ctx, const struct err *e, const struct outcome *o)
{
	(void)e, (void)o;
	begin(ctx);
}

// The cell stays: one made for this operation alone would keep others waiting while it lasts, and forget /tmp.
struct job_run *job_open(struct loop *l, struct engine *g, const struct job *j, const struct job_ops *jops, void *ctx)
{
	struct err e;
	const struct sandbox *s = engine_get(g, j->sandbox, &e);
	struct job_run *r = xcalloc(1, sizeof *r);
	*r = (struct job_run){.loop = l, .g = g, .ops = jops, .ctx = ctx, .said = BUF_INIT(SAID_MAX), .failed = {.fn = on_failed}};
	if (!s) {
		fail_soon(r, &e);
		return r;
	}
	r->x = (struct exec_request){
		.job = true, .want_stdin = true, .argv = strv_copy(j->argv), .user = j->user ? xstrdup(j->user) : NULL};
	r->sandbox = xstrdup(s->id);
	r->starting = true;
	if (s->state == STATE_STOPPED)
		engine_start(g, r->sandbox, (struct done){on_started, r});
	else
		begin(r);
	return r;
}

void job_close(struct job_run *r)
{
	r->closed = true;
	if (r->starting)
		return; // on_begun or on_failed buries it
	tap_close(r->tap);
	loop_bury(r->loop, r, free_run);
}

void job_pause(struct job_run *r, bool on)
{
	r->paused = on;
	if (r->tap)
		tap_pause(r->tap, on);
}

size_t job_send(struct job_run *r, const void *p, size_t n)
{
	return r->tap ? tap_send(r->tap, p, n) : 0;
}

void job_eof(struct job_run *r)
{
	r->eof = true;
	if (r->tap)
		tap_eof(r->tap);
}

// --- whole ---

struct whole {
	struct job_run *run;
	struct job_done done;
	char *input;
	size_t n_input, sent;
	struct buf out;
};

static void whole_data(void *ctx, const void *p, size_t n)
{
	buf_add(&((struct whole *)ctx)->out, p, n);
}

static void whole_room(void *ctx)
{
	struct whole *w = ctx;
	w->sent += job_send(w->run, w->input + w->sent, w->n_input - w->sent);
	if (w->sent == w->n_input)
		job_eof(w->run);
}

static void whole_end(void *ctx, const struct err *e)
{
	struct whole *w = ctx;
	struct err over;
	if (!e && w->out.overflow) {
		err_set(&over, ERR_LIMIT, "the answer is longer than %zu bytes", w->out.max);
		e = &over;
	}
	w->done.fn(w->done.ctx, e, e ? NULL : &w->out);
	buf_done(&w->out);
	free(w->input);
	free(w);
}

static const struct job_ops whole_ops = {whole_data, whole_room, whole_end};

void engine_job(struct loop *l, struct engine *g, const struct job *j, struct job_done d)
{
	struct whole *w = xcalloc(1, sizeof *w);
	w->done = d;
	w->n_input = j->n_input;
	w->input = j->n_input ? memcpy(xcalloc(1, j->n_input), j->input, j->n_input) : NULL;
	w->out = BUF_INIT(j->max);
	w->run = job_open(l, g, j, &whole_ops, w);
}

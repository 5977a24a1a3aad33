// SPDX-License-Identifier: Apache-2.0
// File operations for surfaces: one job, its input given whole, its output gathered.
#include "engine/tap.h"

#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SAID_MAX 4096

struct run {
	struct loop *loop;
	struct engine *g;
	struct tap *tap;
	struct job_done done;
	char *sandbox;
	char *input;
	size_t n_input, sent;
	struct buf out, said;
};

static void finish(struct run *r, const struct err *e)
{
	r->done.fn(r->done.ctx, e, &r->out);
	buf_done(&r->out);
	buf_done(&r->said);
	free(r->input);
	free(r->sandbox);
	free(r);
}

static void on_data(void *ctx, int stream, uint64_t offset, const void *p, size_t n)
{
	struct run *r = ctx;
	(void)offset;
	buf_add(stream == 1 ? &r->out : &r->said, p, n);
}

static void on_room(void *ctx, uint64_t received)
{
	struct run *r = ctx;
	(void)received;
	if (!r->tap)
		return; // the first frame comes after tap_open has returned; this only keeps it so
	r->sent += tap_send(r->tap, r->input + r->sent, r->n_input - r->sent);
	if (r->sent == r->n_input)
		tap_eof(r->tap);
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
		return ERR_CONFLICT;
	case ENOSPC:
	case EDQUOT:
		return ERR_LIMIT;
	default:
		return ERR_INVALID;
	}
}

static void on_end(void *ctx, const struct err *why, const struct exec_result *res)
{
	struct run *r = ctx;
	struct err e;
	if (!res) {
		finish(r, why);
		return;
	}
	if (!res->status && !r->out.overflow) {
		finish(r, NULL);
		return;
	}
	const char *said = buf_cstr(&r->said);
	size_t n = strcspn(said, "\n");
	if (!res->status) {
		err_set(&e, ERR_LIMIT, "the answer is longer than %zu bytes", r->out.max);
	} else {
		err_set(&e, kind_of((int)res->status), "%.*s", n ? (int)n : 24, n ? said : "the file operation died");
		e.sys = (int)res->status;
	}
	finish(r, &e);
}

static const struct tap_ops ops = {.data = on_data, .room = on_room, .end = on_end};

static void on_begun(void *ctx, const struct err *e, const struct outcome *o)
{
	struct run *r = ctx;
	struct err te;
	if (e) {
		finish(r, e);
		return;
	}
	r->tap = tap_open(r->loop, r->g, o->sandbox ? o->sandbox->id : r->sandbox, o->ticket, NULL, &ops, r, &te);
	if (!r->tap)
		finish(r, &te);
}

void engine_job(struct loop *l, struct engine *g, const struct job *j, struct job_done d)
{
	struct err e;
	struct exec_request x = {
		.job = true, .want_stdin = true, .argv = strv_copy(j->argv), .user = j->user ? xstrdup(j->user) : NULL};
	const struct sandbox *s = engine_get(g, j->sandbox, &e);
	if (!s) {
		exec_request_done(&x);
		d.fn(d.ctx, &e, NULL);
		return;
	}
	struct run *r = xcalloc(1, sizeof *r);
	r->loop = l;
	r->g = g;
	r->done = d;
	r->sandbox = xstrdup(s->id);
	r->n_input = j->n_input;
	r->input = j->n_input ? memcpy(xcalloc(1, j->n_input), j->input, j->n_input) : NULL;
	r->out = BUF_INIT(j->max);
	r->said = BUF_INIT(SAID_MAX);
	engine_exec(g, r->sandbox, &x, (struct done){on_begun, r});
}

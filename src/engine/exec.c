// SPDX-License-Identifier: Apache-2.0
// Commands in a cell. For a local client skepd only hands out a one-time ticket; the bytes never pass here.
#include "engine/net_int.h"

#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/ring.h"
#include <errno.h>
#include <string.h>

#define AGAIN_MS 50
#define AGAIN_TRIES 100

static void logged(const struct box *b, int rc, const struct err *e)
{
	engine_wrote(b->g);
	if (rc)
		log_line(LOG_ERROR, "sandbox=%s %s", b->row.id, e->msg);
}

void exec_store(struct task *t)
{
	struct err e;
	logged(t->box, store_exec_add(t->box->g->store, &t->row, &e), &e);
}

static void on_again(struct timer *tm)
{
	struct task *t = container_of(tm, struct task, wait);
	task_unfloat(t);
	task_submit(t);
}

// It came while the cell was ending by itself (idle, expired): the next cell is for it.
static bool try_again(struct task *t, const struct err *e)
{
	struct err se;
	if (!e || e->kind != ERR_CONFLICT || t->exec.kind != EXEC_COMMAND || t->tries++ >= AGAIN_TRIES)
		return false;
	logged(t->box, store_exec_drop(t->box->g->store, t->row.id, &se), &se);
	t->wait.fn = on_again;
	timer_set(t->box->g->loop, &t->wait, AGAIN_MS);
	return true;
}

static void on_begun(void *ctx, const struct err *e)
{
	struct task *t = ctx;
	struct box *b = t->box;
	struct err se;
	if (try_again(t, e))
		return;
	task_answer(t, e);
	if (t->exec.kind == EXEC_COMMAND) {
		int rc = e ? store_exec_drop(b->g->store, t->row.id, &se)
			   : store_exec_started(b->g->store, t->row.id, t->row.pid, &se);
		logged(b, rc, &se);
	}
	task_end(t, e);
}

// The row is written after the request is on its way: the cell works meanwhile.
int exec_begin(struct task *t, struct err *e)
{
	struct box *b = t->box;
	if (t->exec.kind == EXEC_COMMAND && b->maintenance)
		return err_set(e, ERR_CONFLICT, "files of sandbox %s are being copied: try again", b->row.id);
	if (fault(FAULT_ENGINE_EXEC, e))
		return -1;
	b->g->backend->ops->exec(b->cell, &t->exec, t->ticket, (struct reply){on_begun, t});
	if (t->exec.kind == EXEC_COMMAND) {
		struct err se;
		exec_store(t);
		logged(b, store_flush(b->g->store, &se), &se); // before its id is out, and while the cell works
		b->row.pending = -1;
	}
	task_float(t);
	return 0;
}

void engine_exec(struct engine *g, const char *id, struct exec_request *x, struct done d)
{
	struct err e;
	struct box *b = box_find(g, id, &e);
	if (!b) {
		exec_request_done(x);
		task_refuse(d, &e);
		return;
	}
	struct task *t = task_new(b, TASK_EXEC, d);
	t->want = *x;
	*x = (struct exec_request){0};
	bool settle = !t->want.job && !b->cell; // a secret that is new to it needs its placeholder before the environment is made
	if ((settle && net_settle(b, &e)) || exec_make(b, t->want.caller_cwd, t, &e)) {
		t->floating = true; // never held the box
		task_end(t, &e);
		return;
	}
	task_submit(t);
}

static struct box *box_of_exec(struct engine *g, const char *id, struct exec_row *out, struct err *e)
{
	if (engine_exec_get(g, id, out, e))
		return NULL;
	struct box *b = box_by_id(g, out->sandbox);
	if (b) {
		lease_renew(b);
		return b;
	}
	err_set(e, ERR_NOT_FOUND, "the sandbox of exec %s is gone", out->id);
	exec_row_done(out);
	return NULL;
}

static void on_ticket(void *ctx, const struct err *e)
{
	struct task *t = ctx;
	struct err over;
	if (e && e->kind == ERR_NOT_FOUND) { // a cell forgets what ended long ago
		err_set(&over, ERR_CONFLICT, "exec %s has ended: read its output with `skep logs %s`", t->row.id, t->row.id);
		e = &over;
	}
	task_end(t, e);
}

void attach_begin(struct task *t)
{
	struct box *b = t->box;
	key_make(t->ticket);
	b->g->backend->ops->ticket(b->cell, t->row.id, t->ticket, (struct reply){on_ticket, t});
	task_float(t);
}

void engine_attach(struct engine *g, const char *exec, struct done d)
{
	struct err e;
	struct exec_row row;
	struct box *b = box_of_exec(g, exec, &row, &e);
	if (!b) {
		task_refuse(d, &e);
		return;
	}
	struct task *t = task_new(b, TASK_ATTACH, d);
	t->row = row;
	task_submit(t);
}

static void on_killed(void *ctx, const struct err *e)
{
	task_end(ctx, e);
}

static void kill_now(struct task *t);

static void on_kill_again(struct timer *tm)
{
	kill_now(container_of(tm, struct task, wait));
}

// A cell that a new daemon has yet to hear from is waited for.
static void kill_now(struct task *t)
{
	struct box *b = t->box;
	struct err e;
	if (b->cell && b->up) {
		b->g->backend->ops->kill(b->cell, t->row.id, t->count, (struct reply){on_killed, t});
	} else if (b->cell && t->tries++ < AGAIN_TRIES) {
		t->wait.fn = on_kill_again;
		timer_set(b->g->loop, &t->wait, AGAIN_MS);
	} else {
		err_set(&e, ERR_CONFLICT, "exec %s has ended", t->row.id);
		task_end(t, &e);
	}
}

void engine_kill(struct engine *g, const char *exec, uint32_t signal, struct done d)
{
	struct err e;
	struct exec_row row;
	struct box *b = box_of_exec(g, exec, &row, &e);
	if (b && (!row.running || !b->cell)) {
		err_set(&e, ERR_CONFLICT, "exec %s has ended", row.id);
		exec_row_done(&row);
		b = NULL;
	}
	if (!b) {
		task_refuse(d, &e);
		return;
	}
	// A kill does not wait for its turn: it may be what ends the operation that holds the box.
	struct task *t = task_new(b, TASK_ATTACH, d);
	t->row = row;
	t->floating = true;
	t->next = b->floating;
	b->floating = t;
	t->count = signal;
	kill_now(t);
}

int engine_exec_get(struct engine *g, const char *id, struct exec_row *out, struct err *e)
{
	if (strlen(id) < 3)
		return err_set(e, ERR_NOT_FOUND, "no exec %.40s (skep ps --execs lists them)", id);
	return store_exec_get(g->store, id, out, e);
}

int engine_execs(struct engine *g, const char *id, void (*each)(void *ctx, const struct exec_row *x), void *ctx,
		 struct err *e)
{
	struct box *b = id ? box_find(g, id, e) : NULL;
	if (id && !b)
		return -1;
	return store_execs(g->store, b ? b->row.id : NULL, each, ctx, e);
}

static int read_kept(struct ring *r, uint64_t offset, struct buf *out, struct err *e)
{
	while (offset < r->total && out->n < out->max) {
		size_t want = out->max - out->n < 65536 ? out->max - out->n : 65536;
		char *p = buf_room(out, want);
		long n = p ? ring_read(r, offset, p, want) : 0;
		if (n < 0)
			return err_set(e, ERR_CONFLICT, "the output moved on while it was read: ask again");
		if (!n)
			break;
		out->n += (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

int engine_output(struct engine *g, const char *exec, const char *stream, uint64_t offset, struct buf *out,
		  uint64_t *out_first, uint64_t *out_end, struct err *e)
{
	struct exec_row row;
	struct ring r;
	if (strcmp(stream, "stdout") && strcmp(stream, "stderr"))
		return err_set(e, ERR_INVALID, "stream must be stdout or stderr");
	struct box *b = box_of_exec(g, exec, &row, e);
	if (!b)
		return -1;
	auto_free char *path = xasprintf("%s/out/%s.%s", b->row.id, row.id, stream);
	// With a full disk there was more than could be kept: then nothing is to be had from there to the end.
	uint64_t all = row.running ? 0 : !strcmp(stream, "stdout") ? row.result.out_bytes : row.result.err_bytes;
	exec_row_done(&row);
	*out_first = *out_end = all;
	if (ring_open(&r, g->sandboxes, path, e))
		return e->sys == ENOENT ? 0 : -1; // nothing was written on that stream
	*out_end = r.total > all ? r.total : all;
	*out_first = offset < ring_first(&r) ? ring_first(&r) : offset < r.total ? offset : *out_end;
	int rc = read_kept(&r, *out_first, out, e);
	ring_close(&r);
	return rc;
}

// SPDX-License-Identifier: Apache-2.0
// Boxes: found by id, prefix or name; their rows written, together with others; one task at a time.
#include "engine/base_int.h"
#include "engine/volume_int.h"
#include "engine/net_int.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define COMMIT_MS 20
#define CHECKPOINT_MS 5000

bool name_is_valid(const char *s)
{
	size_t n = strlen(s);
	return n >= 1 && n <= 40 && s[0] != '-' && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == n && !id_is(s);
}

struct box *box_by_id(struct engine *g, const char *id)
{
	for (struct box *b = g->boxes; b; b = b->next)
		if (!strcmp(b->row.id, id))
			return b;
	return NULL;
}

struct box *box_look(struct engine *g, const char *id, struct err *e)
{
	size_t n = strlen(id);
	struct box *found = NULL;
	int fit = 0;
	for (struct box *b = g->boxes; b; b = b->next) {
		if (!strcmp(b->row.id, id) || (b->row.name && !strcmp(b->row.name, id)))
			return b;
		if (n >= 3 && !strncmp(b->row.id, id, n)) {
			found = b;
			fit++;
		}
	}
	if (fit == 1)
		return found;
	err_set(e, fit ? ERR_CONFLICT : ERR_NOT_FOUND,
		fit ? "%.40s fits several sandboxes: give more of the id" : "no sandbox %.40s (skep ps lists them)", id);
	return NULL;
}

struct box *box_find(struct engine *g, const char *id, struct err *e)
{
	struct box *b = box_look(g, id, e);
	if (b)
		lease_renew(b);
	return b;
}

const char *box_project(const struct box *b)
{
	return b->row.project.off ? NULL : b->row.repo;
}

struct box *box_add(struct engine *g, struct sandbox *row)
{
	struct box *b = xcalloc(1, sizeof *b);
	b->g = g;
	b->row = *row;
	b->unkept = true;
	*row = (struct sandbox){0};
	box_events_init(b);
	b->next = g->boxes;
	g->boxes = b;
	if (g->on_new && !b->row.project.setup_of)
		g->on_new(g->on_new_ctx, &b->row);
	return b;
}

void box_free(void *p)
{
	struct box *b = p; // its engine may be gone already
	strv_free(b->notices);
	strv_free(b->create_notices);
	cell_net_done(&b->net);
	ports_forget(b);
	sandbox_done(&b->row);
	cell_row_done(&b->cell_row);
	free(b);
}

void box_drop(struct box *b)
{
	struct err e;
	list_unlink(&b->g->boxes, b, next);
	if (b->g->backend->ops->forsake)
		b->g->backend->ops->forsake(b->g->backend, b->row.id);
	volumes_moved(b);
	box_tell(b, true);
	err_set(&e, ERR_NOT_FOUND, "sandbox %s was removed", b->row.id);
	while (b->queue) {
		struct task *t = b->queue;
		b->queue = t->next;
		t->floating = true; // it never held the box
		t->next = b->floating;
		b->floating = t;
		task_end(t, &e);
	}
	for (struct task *t = b->floating, *next; t; t = next) {
		next = t->next;
		if (t->wait.at_ms) // it waits for the next cell, which will not come
			task_end(t, &e);
	}
	setup_box_gone(b);
	record_forget(b);
	pin_forget(b, false);
	net_done(b, false);
	loop_bury(b->g->loop, b, box_free);
}

void box_write(struct box *b)
{
	struct err e;
	if ((b->row_dirty && store_sandbox_set(b->g->store, &b->row, &e)) ||
	    (b->cell_dirty && store_cell_set(b->g->store, &b->cell_row, &e)) ||
	    (b->net_dirty && store_net_set(b->g->store, b->row.id, &b->row.net, &e)))
		log_line(LOG_ERROR, "sandbox=%s %s", b->row.id, e.msg);
	b->row_dirty = b->cell_dirty = b->net_dirty = false;
}

bool engine_flush(struct engine *g)
{
	struct err e;
	for (struct box *b = g->boxes; b; b = b->next)
		box_write(b);
	if (!store_flush(g->store, &e))
		return true;
	log_line(LOG_ERROR, "%s", e.msg);
	return false;
}

static void on_checkpoint(struct timer *t)
{
	struct engine *g = container_of(t, struct engine, checkpoint);
	engine_flush(g);
	if (store_is_dirty(g->store))
		store_checkpoint(g->store);
	if (keep_write(g))
		engine_wrote(g);
}

static void on_commit(struct timer *t)
{
	engine_flush(container_of(t, struct engine, commit));
}

void engine_wrote(struct engine *g)
{
	g->commit.fn = on_commit;
	if (!g->commit.at_ms)
		timer_set(g->loop, &g->commit, COMMIT_MS);
	g->checkpoint.fn = on_checkpoint;
	if (!g->checkpoint.at_ms)
		timer_set(g->loop, &g->checkpoint, CHECKPOINT_MS);
	sync_wrote(g);
}

void box_save(struct box *b)
{
	b->row_dirty = b->unkept = true;
	engine_wrote(b->g);
}

void box_move(struct box *b, enum state to, const char *reason)
{
	enum state from = b->row.state;
	free(b->row.reason);
	b->row.reason = reason ? xstrdup(reason) : NULL;
	if (from != to && !state_may(from, to))
		log_line(LOG_ERROR, "sandbox=%s bug: illegal move %s to %s", b->row.id, state_name(from), state_name(to));
	b->row.state = to;
	b->row.used = clock_unix_ms();
	if (from != to)
		record_state(b, from);
	box_save(b);
	if (from != to)
		volumes_moved(b);
	if (from != to)
		box_tell(b, false);
}

struct task *task_new(struct box *b, enum task_kind kind, struct done d)
{
	struct task *t = xcalloc(1, sizeof *t);
	t->kind = kind;
	t->box = b;
	t->done = d;
	t->actor = b->g->actor;
	return t;
}

static bool unlink_task(struct task **list, struct task *t)
{
	for (; *list; list = &(*list)->next)
		if (*list == t) {
			*list = t->next;
			return true;
		}
	return false;
}

static void on_waited(struct timer *tm)
{
	struct task *t = container_of(tm, struct task, wait);
	struct box *b = t->box;
	struct err e;
	unlink_task(&b->queue, t);
	t->floating = true;
	t->next = b->floating;
	b->floating = t;
	err_set(&e, ERR_CONFLICT, "sandbox %s is busy with another operation: try again", b->row.id);
	task_end(t, &e);
}

// What it does from here on is done by who asked for it.
static void run(struct task *t)
{
	struct engine *g = t->box->g;
	struct actor was = engine_act(g, t->actor);
	task_run(t);
	engine_act(g, was);
}

void task_submit(struct task *t)
{
	struct box *b = t->box;
	if (!b->holder && !b->queue) {
		b->holder = t;
		run(t);
		return;
	}
	struct task **p = &b->queue;
	while (*p)
		p = &(*p)->next;
	*p = t;
	t->wait.fn = on_waited;
	timer_set(b->g->loop, &t->wait, LIMIT_PENDING_OP_MS);
}

static void run_next(struct box *b)
{
	struct task *t = b->queue;
	if (b->holder || !t)
		return;
	b->queue = t->next;
	timer_clear(b->g->loop, &t->wait);
	b->holder = t;
	run(t);
}

void task_answer(struct task *t, const struct err *e)
{
	if (t->answered)
		return;
	t->answered = true;
	struct err injected;
	if (fault(FAULT_ENGINE_ANSWER, &injected))
		log_line(LOG_WARN, "%s", injected.msg); // what matters here is dying before the answer
	struct outcome o = {.sandbox = &t->box->row, .setup = t->told, .setup_box = t->told_box, .setup_ticket = t->told_ticket, .notices = t->box->notices};
	if (t->has_exec || t->kind == TASK_ATTACH) {
		o.exec = t->exec.kind == EXEC_JOB ? NULL : &t->row;
		o.exec_id = t->row.id;
		o.ticket = t->ticket[0] ? t->ticket : NULL;
	}
	if (t->kind == TASK_DIAL)
		o.ticket = t->ticket[0] ? t->ticket : NULL;
	const struct sandbox **forks = xcalloc(t->count + 1, sizeof *forks);
	for (uint32_t i = 0; i < t->count && t->forks; i++)
		forks[i] = &t->forks[i]->row;
	o.forks = forks;
	o.snapshot = t->made && t->kind >= TASK_SNAPSHOT ? &t->made->row : NULL;
	struct engine *g = t->box->g;
	struct actor was = engine_act(g, t->actor); // what follows from it is theirs, too
	if (t->done.fn)
		t->done.fn(t->done.ctx, e, e ? NULL : &o);
	engine_act(g, was);
	free(forks);
}

void task_float(struct task *t)
{
	struct box *b = t->box;
	assert(b->holder == t);
	b->holder = NULL;
	t->floating = true;
	t->next = b->floating;
	b->floating = t;
	run_next(b);
}

void task_unfloat(struct task *t)
{
	unlink_task(&t->box->floating, t);
	t->floating = false;
}

void task_end(struct task *t, const struct err *e)
{
	struct box *b = t->box;
	task_answer(t, e);
	timer_clear(b->g->loop, &t->wait);
	if (t->floating)
		unlink_task(&b->floating, t);
	else if (b->holder == t)
		b->holder = NULL;
	exec_request_done(&t->want);
	exec_spec_done(&t->exec);
	exec_row_done(&t->row);
	seal_free(t);
	free(t->word);
	free(t->url);
	free(t->cwd);
	strv_free(t->git_env);
	strv_free(t->alternates);
	free(t->forks);
	if (t->later)
		create_done(t->later);
	free(t->later);
	free(t);
	run_next(b);
}

int task_refuse(struct done d, const struct err *e)
{
	if (d.fn)
		d.fn(d.ctx, e, NULL);
	return -1;
}

// SPDX-License-Identifier: Apache-2.0
// start, stop, pause, resume, remove. A task holds its box; cells report back in events.c, which ends it.
#include "engine/net_int.h"
#include "engine/base_int.h"
#include "engine/heritage_int.h"
#include "engine/review_int.h"

#include "base/fault.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FD_RESERVE 20 // for requests, files and commands that end cells

// A sandbox that starts without one of its layers would show another tree than the one that was left.
int box_check_layers(struct box *b, struct err *e)
{
	auto_free char *upper = xasprintf("layers/%s", b->row.layer);
	char *own[] = {b->row.layer_made ? upper : NULL, NULL};
	if (b->broken)
		return err_set(e, ERR_CONFLICT, "%s", b->row.reason ? b->row.reason : "its row in state.db is wrong");
	if (!stack_check(b->g, b->row.lowers, e) && !stack_check(b->g, own, e))
		return 0;
	err_set(e, ERR_CONFLICT, "a layer of it was removed by somebody else and what was written there is lost: go back to a snapshot with "
		"`skep rollback`, or remove it with `skep rm --force`");
	return -1;
}

bool box_base_is_gone(const struct box *b)
{
	const struct sandbox *s = &b->row;
	return s->tree ? !fs_exists(b->g->home_fd, s->tree) : s->repo && !source_is(s->repo, s->base_dev, s->base_ino);
}

// A cell holds a descriptor of ours for as long as it lives. Without a free one nobody could ask to end a cell.
static int check_descriptors(struct err *e)
{
	uint64_t limit = fd_limit();
	if (fd_lowest_free() + FD_RESERVE < limit)
		return 0;
	return err_set(e, ERR_LIMIT, "skepd may have %llu files open, and nearly all are: stop sandboxes (skep ps lists them), or start "
			"skepd with a higher limit (ulimit -n)", (unsigned long long)limit);
}

// What was made can be looked at without the base; nothing new is made without it.
static int may_start(struct box *b, bool maintenance, struct err *e)
{
	const struct sandbox *s = &b->row;
	bool gone = !maintenance && box_base_is_gone(b);
	if (gone && s->tree)
		return err_set(e, ERR_CONFLICT, "the checkout that sandbox %s is based on was removed: make a new sandbox on %s", s->id,
			       s->url ? s->url : s->repo);
	if (gone)
		return err_set(e, ERR_CONFLICT, "the directory %s that sandbox %s is based on is gone or was replaced", s->repo, s->id);
	if (!box_check_layers(b, e))
		return 0;
	box_move(b, STATE_FAILED, e->msg);
	return err_wrap(e, "sandbox %s", s->id);
}

void box_start_cell(struct box *b, const struct task *t, bool maintenance)
{
	struct cell_spec spec;
	cellspec_make(b, t, maintenance, &spec);
	b->maintenance = maintenance;
	b->up = false;
	bool fresh = !fs_exists(b->g->layers, b->row.layer);
	b->cell = b->g->backend->ops->start(b->g->backend, &spec, fresh, &b->w);
	cell_spec_done(&spec);
}

// A new cell for a sandbox that has none.
static int begin_cell(struct task *t, bool maintenance, struct err *e)
{
	struct box *b = t->box;
	if (check_descriptors(e) || may_start(b, maintenance, e) || (!maintenance && net_settle(b, e)))
		return -1;
	if (!maintenance)
		expiry_lift(b);
	if (b->row.layer_made) // a first cell has nothing behind it
		record_before_cell(b);
	memcpy(b->cell_row.sandbox, b->row.id, sizeof b->cell_row.sandbox);
	key_make(b->cell_row.key);
	b->cell_row.pid = 0;
	b->cell_row.start = 0;
	strv_free(b->cell_row.lowers);
	b->cell_row.lowers = strv_copy(b->row.lowers);
	b->cell_dirty = false;
	if (store_cell_set(b->g->store, &b->cell_row, e) || store_flush(b->g->store, e))
		return -1;
	b->unkept = true;
	engine_wrote(b->g);
	if (!maintenance && !b->setup && b->row.base_pin == PIN_NONE)
		pin_begin(b);
	net_start_cell(b, t, maintenance);
	return 0;
}

static void run_start(struct task *t)
{
	struct err e;
	if (t->box->cell)
		task_end(t, NULL);
	else if (begin_cell(t, false, &e))
		task_end(t, &e);
}

static void on_paused(void *ctx, const struct err *e)
{
	struct task *t = ctx;
	struct box *b = t->box;
	bool pause = t->kind == TASK_PAUSE;
	if (e || !b->cell) {
		task_end(t, e);
		return;
	}
	if (!pause)
		expiry_lift(b);
	if (pause || t->kind == TASK_RESUME) {
		box_move(b, pause ? STATE_PAUSED : STATE_RUNNING, NULL);
		task_end(t, NULL);
		return;
	}
	box_move(b, STATE_RUNNING, NULL);
	task_run(t); // what needed it resumed
}

static void ask_pause(struct task *t, bool on)
{
	struct box *b = t->box;
	b->g->backend->ops->pause(b->cell, on, (struct reply){on_paused, t});
}

static void run_pause(struct task *t)
{
	struct box *b = t->box;
	struct err e;
	if (!b->cell) {
		err_set(&e, ERR_CONFLICT, "sandbox %s is %s: only a running one can be paused", b->row.id, state_name(b->row.state));
		task_end(t, &e);
	} else if (!b->g->backend->can_pause) {
		err_set(&e, ERR_UNSUPPORTED, "the %s backend can not pause", b->g->backend->name);
		task_end(t, &e);
	} else if (b->row.state == STATE_PAUSED) {
		task_end(t, NULL);
	} else {
		ask_pause(t, true);
	}
}

static void run_resume(struct task *t)
{
	struct box *b = t->box;
	struct err e;
	if (!b->cell) {
		err_set(&e, ERR_CONFLICT, "sandbox %s is %s, not paused: `skep start %s` starts it", b->row.id,
			state_name(b->row.state), b->row.id);
		task_end(t, &e);
	} else if (b->row.state == STATE_PAUSED) {
		ask_pause(t, false);
	} else {
		task_end(t, NULL);
	}
}

static void run_stop(struct task *t)
{
	struct box *b = t->box;
	if (b->cell) {
		b->g->backend->ops->stop(b->cell, LIMIT_STOP_GRACE_MS, false);
		return;
	}
	if (b->row.state == STATE_FAILED)
		box_move(b, STATE_STOPPED, NULL);
	task_end(t, NULL);
}

static void on_auto_snapshot(struct task *t, const struct err *e)
{
	if (e)
		task_end(t, e);
	else
		task_run(t);
}

static void run_exec(struct task *t)
{
	struct box *b = t->box;
	struct err e;
	if (b->row.auto_snapshot && !t->sealed && t->exec.kind == EXEC_COMMAND) {
		t->sealed = true;
		seal_begin(t, &(struct seal_want){.automatic = true}, on_auto_snapshot);
		return;
	}
	if (!b->cell) {
		if (begin_cell(t, t->exec.kind == EXEC_JOB, &e)) {
			task_end(t, &e);
			return;
		}
		if (t->exec.kind != EXEC_JOB)
			exec_store(t);
		return;
	}
	if (b->row.state == STATE_PAUSED)
		ask_pause(t, false);
	else if (exec_begin(t, &e))
		task_end(t, &e);
}

static void run_attach(struct task *t)
{
	struct box *b = t->box;
	struct err e;
	if (!b->cell) {
		err_set(&e, ERR_CONFLICT, "exec %s has ended with its cell: read its output with `skep logs %s`", t->row.id, t->row.id);
		task_end(t, &e);
	} else if (b->row.state == STATE_PAUSED) {
		ask_pause(t, false);
	} else {
		attach_begin(t);
	}
}

static void run_dial(struct task *t)
{
	struct box *b = t->box;
	struct err e;
	if (!b->cell) {
		if (begin_cell(t, false, &e))
			task_end(t, &e);
	} else if (b->maintenance) {
		err_set(&e, ERR_CONFLICT, "files of sandbox %s are being copied: try again", b->row.id);
		task_end(t, &e);
	} else if (b->row.state == STATE_PAUSED) {
		ask_pause(t, false);
	} else {
		dial_begin(t);
	}
}

void box_dirs(const struct box *b, char ***dirs)
{
	auto_free char *layer = xasprintf("layers/%s", b->row.layer), *out = xasprintf("journals/%s/out", b->row.id);
	strv_add(dirs, layer);
	strv_add(dirs, out);
}

static void on_discarded(void *ctx, const struct err *e)
{
	(void)ctx;
	if (e)
		log_line(LOG_WARN, "left for gc: %s", e->msg);
}

// Of the directory of a removed sandbox only the journal stays. What review kept goes behind it: a child may just be
// dying over it.
static void discard_review(struct box *b)
{
	static const char *const parts[] = {"shadow.git", "apply"};
	char **dirs = NULL;
	bool needed = heritage_needs(b->g, b->row.id);
	auto_free char *dismissed = xasprintf("journals/%s/dismissed", b->row.id);
	unlinkat(b->g->home_fd, dismissed, 0);
	if (needed)
		heritage_keep(b);
	if (review_outlives(b, needed))
		return;
	for (size_t i = needed ? 1 : 0; i < countof(parts); i++) {
		auto_free char *dir = xasprintf("journals/%s/%s", b->row.id, parts[i]);
		if (b->pinning || fs_exists(b->g->home_fd, dir))
			strv_add(&dirs, dir);
	}
	if (dirs)
		engine_discard(b->g, dirs);
	strv_free(dirs);
}

void box_release(struct box *b)
{
	struct engine *g = b->g;
	discard_review(b);
	char **lowers = take(&b->row.lowers);
	auto_free char *tree = take(&b->row.tree);
	char id[ID_SIZE];
	memcpy(id, b->row.id, sizeof id);
	snaps_of_gone(b);
	box_drop(b);
	derived_release_copy(g, tree, id);
	layers_release(g, lowers);
	strv_free(lowers);
}

// After a crash nothing may be believed to be whole that was being removed: who named it is written down first. Nobody is
// asked about the parts of a removed sandbox any more.
static bool is_named_by_nobody(struct engine *g, char *const *dirs)
{
	bool named = false;
	for (; *dirs; dirs++)
		named |= !str_has_prefix(*dirs, "journals/");
	return !named || engine_flush(g);
}

void engine_discard(struct engine *g, char *const *dirs)
{
	if (is_named_by_nobody(g, dirs))
		engine_discard_unmade(g, dirs);
	// else left for gc
}

void engine_discard_unmade(struct engine *g, char *const *dirs)
{
	for (char *const *d = dirs; *d; d++)
		size_drop(g, *d);
	g->backend->ops->remove(g->backend, dirs, (struct reply){on_discarded, NULL});
}

static void on_removed(void *ctx, const struct err *e)
{
	struct task *t = ctx;
	struct box *b = t->box;
	struct err se;
	if (e) {
		// the row stays: the next start or gc goes on from here
		free(b->row.reason);
		b->row.reason = xstrdup(e->msg);
		box_save(b);
		task_end(t, e);
		return;
	}
	record_gone(b);
	if (store_sandbox_drop(b->g->store, b->row.id, &se) || store_flush(b->g->store, &se))
		log_line(LOG_ERROR, "sandbox=%s %s", b->row.id, se.msg);
	engine_wrote(b->g);
	task_answer(t, NULL);
	box_release(b);
	task_end(t, NULL);
}

static void remove_now(struct task *t)
{
	struct box *b = t->box;
	struct err e;
	char **dirs = NULL;
	if (fault(FAULT_ENGINE_REMOVE, &e)) {
		task_end(t, &e);
		return;
	}
	if (b->row.state != STATE_DELETING) {
		record(b, "sandbox.deleted", t->force ? "\"force\":true" : "");
		b->row.state = STATE_DELETING;
		box_save(b);
		box_write(b);
		if (store_flush(b->g->store, &e))
			log_line(LOG_ERROR, "sandbox=%s %s", b->row.id, e.msg);
	}
	pin_stop(b);
	if (record_keep(b, &e))
		log_line(LOG_WARN, "sandbox=%s journal not kept: %s", b->row.id, e.msg);
	box_dirs(b, &dirs);
	size_drop(b->g, dirs[0]);
	b->g->backend->ops->remove(b->g->backend, dirs, (struct reply){on_removed, t});
	strv_free(dirs);
}

static void on_review_ended(void *ctx)
{
	struct task *t = ctx;
	t->reviewed = true;
	box_remove(t);
}

// With a cell: stopped first, which also tells what is pending. Without one and with pending unknown (the
// cell died): a maintenance cell comes and goes, as it counts at its end.
void box_remove(struct task *t)
{
	struct box *b = t->box;
	const char *ref = b->row.name && *b->row.name ? b->row.name : b->row.id;
	struct err e;
	bool refused = b->row.pinned && !t->force;
	if (!refused && !t->reviewed && review_end(b, t->force, on_review_ended, t))
		return;
	if (refused) {
		err_set(&e, ERR_CONFLICT, "sandbox %s is pinned: `skep unpin %s` first, or remove it with --force", ref, ref);
		task_end(t, &e);
	} else if (b->cell) {
		b->g->backend->ops->stop(b->cell, t->force ? 0 : LIMIT_STOP_GRACE_MS, t->force);
	} else if (t->force || b->row.pending == 0 || b->row.state == STATE_DELETING) {
		remove_now(t);
	} else if (b->row.pending > 0) {
		bool one = b->row.pending == 1;
		const char *them = one ? "it" : "them";
		err_set(&e, ERR_CONFLICT, "%s has %lld pending change%s: skep diff %s shows %s, skep apply %s takes %s, rm --force removes %s too", ref,
			(long long)b->row.pending, one ? "" : "s", ref, them, ref, them, them);
		task_end(t, &e);
	} else if (t->counting) {
		err_set(&e, ERR_UNAVAILABLE, "whether changes of %s are pending is not known: the cell that counted them died (--force removes it anyway)", ref);
		task_end(t, &e);
	} else if (begin_cell(t, true, &e)) {
		err_wrap(&e, "whether changes are pending is not known (--force removes anyway)");
		task_end(t, &e);
	} else {
		t->counting = true;
	}
}

void task_run(struct task *t)
{
	switch (t->kind) {
	case TASK_START:
		run_start(t);
		break;
	case TASK_EXEC:
		run_exec(t);
		break;
	case TASK_ATTACH:
		run_attach(t);
		break;
	case TASK_STOP:
		run_stop(t);
		break;
	case TASK_PAUSE:
		run_pause(t);
		break;
	case TASK_RESUME:
		run_resume(t);
		break;
	case TASK_REMOVE:
		box_remove(t);
		break;
	case TASK_SNAPSHOT:
		run_snapshot(t);
		break;
	case TASK_ROLLBACK:
		run_rollback(t);
		break;
	case TASK_FORK:
		run_fork(t);
		break;
	case TASK_DIAL:
		run_dial(t);
		break;
	case TASK_CREATE:
	case TASK_ADOPT: // these take an empty box themselves
		break;
	}
}

static void submit(struct engine *g, const char *id, enum task_kind kind, bool force, struct done d)
{
	struct err e;
	struct box *b = box_find(g, id, &e);
	if (!b) {
		task_refuse(d, &e);
		return;
	}
	struct task *t = task_new(b, kind, d);
	t->force = force;
	task_submit(t);
}

void engine_start(struct engine *g, const char *id, struct done d)
{
	submit(g, id, TASK_START, false, d);
}

void engine_stop(struct engine *g, const char *id, struct done d)
{
	submit(g, id, TASK_STOP, false, d);
}

void engine_pause(struct engine *g, const char *id, bool on, struct done d)
{
	submit(g, id, on ? TASK_PAUSE : TASK_RESUME, false, d);
}

void engine_remove(struct engine *g, const char *id, bool force, struct done d)
{
	struct err e;
	struct box *b = force ? box_find(g, id, &e) : NULL;
	if (b) // at once: one may hold what the removal waits for
		review_cancel_all(g, b->row.id, true);
	submit(g, id, TASK_REMOVE, force, d);
}

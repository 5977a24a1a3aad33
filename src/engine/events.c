// SPDX-License-Identifier: Apache-2.0
// What cells report, and the settling of rows whose cell ended while nobody watched.
#include "engine/review_int.h"
#include "engine/net_int.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIM_EVERY 100
#define FEW_EXECS 4

static struct box *box_of(struct cell_watcher *w)
{
	return container_of(w, struct box, w);
}

static void logged(const struct box *b, int rc, const struct err *e)
{
	engine_wrote(b->g);
	if (rc)
		log_line(LOG_ERROR, "sandbox=%s %s", b->row.id, e->msg);
}

static void forget_cell(struct box *b)
{
	b->cell = NULL;
	b->up = b->cell_dirty = false;
	ports_forget(b);
	net_down(b);
}

// A cell that said goodbye removes its socket itself, after its last client: a short command can be over before
// the one who asked for it has connected.
static void drop_cell(struct box *b, bool died)
{
	struct err e;
	auto_free char *sock = xasprintf("%s.sock", b->row.id);
	forget_cell(b);
	logged(b, store_cell_drop(b->g->store, b->row.id, &e), &e);
	if (died)
		unlinkat(b->g->cells, sock, 0);
}

static void start_failed(struct box *b, const struct err *e)
{
	struct task *t = b->holder;
	struct err se;
	// On a busy machine a cell may not get to answer in time; it is no less alive for that.
	if (t->kind == TASK_ADOPT && e->kind == ERR_TIMEOUT && b->cell_row.pid && proc_start_time((pid_t)b->cell_row.pid) == b->cell_row.start) {
		log_line(LOG_WARN, "sandbox=%s its cell does not answer: asked again", b->row.id);
		b->cell = b->g->backend->ops->adopt(b->g->backend, b->row.id, b->cell_row.key, &b->w);
		return;
	}
	if (t->kind == TASK_ADOPT) {
		b->holder = NULL; // the box may go with its cell, and is not asked for by anybody
		cell_lost(b);
		task_end(t, NULL);
		return;
	}
	drop_cell(b, true);
	if (t->kind == TASK_CREATE) {
		create_undo(t, e);
		return;
	}
	if (t->has_exec && t->exec.kind == EXEC_COMMAND)
		logged(b, store_exec_drop(b->g->store, t->row.id, &se), &se);
	task_answer(t, e);
	if (!b->maintenance)
		box_move(b, STATE_FAILED, e->msg);
	task_end(t, e);
}

static void take_up(struct box *b, struct cell_up *up)
{
	b->up = true;
	b->row.layer_made = true;
	b->expired = false;
	b->cell_row.pid = up->pid;
	b->cell_row.start = up->start;
	if (up->foreign) // it tells nothing; what was known of it stays
		return;
	isolation_done(&b->row.isolation);
	b->row.isolation = up->isolation;
	up->isolation = (struct isolation){0};
	b->row.has_isolation = true;
	b->row.anchor_seq = up->seq;
	memcpy(b->row.anchor, up->head, sizeof b->row.anchor);
}

static void save_up(struct box *b)
{
	b->cell_dirty = true;
	box_save(b);
}

static void maintenance_up(struct box *b, struct task *t)
{
	if (t->kind != TASK_REMOVE)
		task_answer(t, NULL);
	save_up(b);
	if (t->kind == TASK_REMOVE)
		b->g->backend->ops->stop(b->cell, 0, false); // it counts what is pending at its end, and the answer hangs on that
}

// By the cell itself, at the end of its time.
static bool paused_by_time(const struct box *b)
{
	return b->row.on_expiry == EXPIRY_PAUSE && b->row.expires && b->row.expires <= clock_unix_ms() && !b->row.pinned;
}

// The caller is answered before anything is written: the rows of a crash in between are settled at the
// next start, from the cell itself.
static void on_up(struct cell_watcher *w, struct cell_up *up, const struct err *e)
{
	struct box *b = box_of(w);
	struct task *t = b->holder;
	struct err injected;
	if (fault(FAULT_ENGINE_UP, &injected))
		log_line(LOG_WARN, "%s", injected.msg);
	if (e) {
		start_failed(b, e);
		return;
	}
	take_up(b, up);
	if (b->maintenance) {
		maintenance_up(b, t);
		return;
	}
	enum state from = b->row.state;
	bool thaw = up->paused && t->kind == TASK_ADOPT && from == STATE_RUNNING && !paused_by_time(b);
	// Of a foreign one only that it is there is known: the row may be older than its start, and one that "stopped" could not be stopped.
	bool paused = up->foreign ? from == STATE_PAUSED : up->paused && !thaw;
	b->row.state = paused ? STATE_PAUSED : STATE_RUNNING;
	if (thaw) // it was frozen for a snapshot, by a daemon that died over it
		b->g->backend->ops->pause(b->cell, false, (struct reply){NULL, NULL});
	b->row.pending = -1;
	b->row.used = clock_unix_ms();
	free(b->row.reason);
	b->row.reason = up->foreign ? xstrdup("made by another build of skep: stop it and start it again")
			: b->row.state == STATE_PAUSED && paused_by_time(b) ? xstrdup("expired") : NULL;
	if (t->kind != TASK_DIAL)
		task_answer(t, NULL);
	record_late_flush(b);
	if (from != b->row.state && (t->kind == TASK_ADOPT || b->row.state != STATE_RUNNING))
		record_state(b, from); // else the cell did
	save_up(b);
	b->net_stale |= t->kind == TASK_ADOPT; // rules may have changed while nobody told it
	net_up(b);
	if (t->kind == TASK_DIAL)
		task_run(t);
	else
		task_end(t, NULL);
}

static struct task *waiting_exec(struct box *b, const char *exec)
{
	for (struct task *t = b->floating; t; t = t->next)
		if (t->has_exec && !strcmp(t->row.id, exec))
			return t;
	return NULL;
}

static void on_started(struct cell_watcher *w, const char *exec, uint32_t pid)
{
	struct box *b = box_of(w);
	struct task *t = waiting_exec(b, exec);
	struct err e;
	if (t)
		t->row.pid = pid; // stored when its caller has been answered
	else
		logged(b, store_exec_started(b->g->store, exec, pid, &e), &e);
}

static void on_exited(struct cell_watcher *w, const char *exec, const struct exec_result *r)
{
	struct box *b = box_of(w);
	struct err e;
	logged(b, store_exec_ended(b->g->store, exec, r, &e), &e);
	b->row.used = clock_unix_ms();
	if (++b->ended % TRIM_EVERY == 0)
		logged(b, store_exec_trim(b->g->store, b->row.id, &e), &e);
	setup_exited(b, exec, r);
}

static void on_hit(struct cell_watcher *w, const char *limit, const char *message)
{
	struct box *b = box_of(w);
	log_line(LOG_WARN, "sandbox=%s limit=%s %s", b->row.id, limit, message);
	free(b->row.reason);
	b->row.reason = xstrdup(message);
	box_save(b);
}

// Counted a moment after a command ended; a newer command makes it unknown again.
static void on_pending(struct cell_watcher *w, uint32_t count)
{
	struct box *b = box_of(w);
	b->row.pending = count;
	box_save(b);
}

static void on_paused(struct cell_watcher *w, bool paused)
{
	struct box *b = box_of(w);
	enum state to = paused ? STATE_PAUSED : STATE_RUNNING;
	if (b->maintenance || b->freezing || b->row.state == to)
		return;
	auto_free char *reason = paused && b->row.reason ? xstrdup(b->row.reason) : NULL; // the limit that did it
	box_move(b, to, reason);
}

// What a removed sandbox captured: seldom more than the few files of one command, which is not worth a child.
static void drop_output(struct box *b)
{
	struct err e;
	auto_free char *out = xasprintf("%s/out", b->row.id), *path = xasprintf("journals/%s", out);
	char *dirs[] = {path, NULL};
	if (!b->holder && b->ended <= FEW_EXECS) {
		if (fs_remove_tree(b->g->journals, out, &e))
			log_line(LOG_WARN, "left for gc: %s", e.msg);
	} else if (fs_exists(b->g->journals, out)) {
		engine_discard(b->g, dirs);
	}
}

// Its layer is the cell's to dispose of: what is left of the sandbox is small and ours alone.
static void removed_by_cell(struct box *b)
{
	struct task *t = b->holder;
	struct err e;
	pin_stop(b);
	record_unheard(b);
	record(b, "sandbox.deleted", t && t->force ? "\"force\":true" : "");
	if (record_keep(b, &e))
		log_line(LOG_WARN, "sandbox=%s journal not kept: %s", b->row.id, e.msg);
	drop_output(b);
	auto_free char *layer = xasprintf("layers/%s", b->row.layer);
	size_drop(b->g, layer);
	record_gone(b);
	logged(b, store_sandbox_drop(b->g->store, b->row.id, &e), &e);
	struct err gone;
	err_set(&gone, ERR_NOT_FOUND, "sandbox %s was removed: its command ended and changed nothing", b->row.id);
	if (t)
		task_answer(t, t->kind >= TASK_SNAPSHOT ? &gone : NULL);
	box_release(b);
	if (t)
		task_end(t, NULL);
}

static void settle_end(struct box *b, const struct cell_end *end)
{
	struct err e;
	const char *why = end->died ? "its cell died" : "its cell was stopped";
	auto_free char *journal = xasprintf("sandboxes/%s", b->row.id);
	drop_cell(b, end->died);
	sync_journal(b->g, journal); // its last lines
	record_unheard(b);
	logged(b, store_execs_lost(b->g->store, b->row.id, why, clock_unix_ms(), &e), &e);
	b->row.pending = end->pending;
	if (!end->died) {
		b->row.anchor_seq = end->seq;
		memcpy(b->row.anchor, end->head, sizeof b->row.anchor);
	} else {
		record_by(b, "skepd", "cell.gone", "\"reason\":\"died\"");
	}
	if (b->maintenance)
		box_save(b);
	else
		box_move(b, STATE_STOPPED, end->died && !strcmp(end->reason, "died") ? "cell died" : strcmp(end->reason, "stopped") ? end->reason : NULL);
	if (strcmp(end->reason ? end->reason : "", "expired"))
		lease_renew(b);
	size_box(b);
}

static void on_gone(struct cell_watcher *w, const struct cell_end *end)
{
	struct box *b = box_of(w);
	bool was_maintenance = b->maintenance;
	struct err injected;
	if (fault(FAULT_ENGINE_GONE, &injected))
		log_line(LOG_WARN, "%s", injected.msg);
	if (end->removed) {
		forget_cell(b); // its row goes with the sandbox's
		b->row.anchor_seq = end->seq;
		memcpy(b->row.anchor, end->head, sizeof b->row.anchor);
		removed_by_cell(b);
		return;
	}
	settle_end(b, end);
	b->maintenance = false;
	if (b->row.expires)
		expiry_arm(b->g);
	struct task *t = b->holder;
	if (!t) {
		setup_cell_gone(b);
		return;
	}
	if (t->sealing)
		seal_gone(t);
	else if (t->kind == TASK_STOP || (t->kind == TASK_EXEC && was_maintenance))
		task_end(t, NULL);
	else if (t->kind == TASK_REMOVE)
		box_remove(t);
	setup_cell_gone(b); // if it is one, and somebody else than its own end stopped it
}

void box_events_init(struct box *b)
{
	b->w = (struct cell_watcher){
		.up = on_up, .started = on_started, .exited = on_exited, .hit = on_hit, .paused = on_paused, .pending = on_pending, .gone = on_gone,
	};
	ask_events_init(b);
	ports_events_init(b);
}

// It said goodbye, and nobody was there to hear it.
static void ended_unseen(struct box *b, const struct settled *s)
{
	// a `run` with nothing pending, or an rm under way. Any other layer that is not there was taken away by somebody else.
	bool removed = !strcmp(s->reason, "removed") || (b->row.run && !b->row.keep && !b->row.name);
	if (removed && !fs_exists(b->g->layers, b->row.layer)) {
		removed_by_cell(b);
		return;
	}
	b->row.pending = s->pending;
	box_move(b, STATE_STOPPED, strcmp(s->reason, "stopped") ? s->reason : NULL);
}

static void died_unseen(struct box *b)
{
	bool was_live = b->row.state == STATE_RUNNING || b->row.state == STATE_PAUSED;
	b->row.pending = -1;
	record_by(b, "skepd", "cell.gone", "\"reason\":\"died\"");
	if (b->row.state == STATE_CREATING)
		box_move(b, STATE_FAILED, "skepd ended while it was being created");
	else if (was_live)
		box_move(b, STATE_FAILED, "cell died");
	else
		box_save(b);
}

void cell_lost(struct box *b)
{
	struct err e;
	struct settled s;
	drop_cell(b, true);
	if (!fs_exists(b->g->sandboxes, b->row.id)) { // removed, and the last rows of it died with the old daemon
		logged(b, store_sandbox_drop(b->g->store, b->row.id, &e), &e);
		box_drop(b);
		return;
	}
	record_settle(b, &s);
	logged(b, store_execs_lost(b->g->store, b->row.id, "its cell died", clock_unix_ms(), &e), &e);
	if (s.ended)
		ended_unseen(b, &s);
	else
		died_unseen(b);
	free(s.reason);
}

static void adopt(struct engine *g, struct cell_row *row)
{
	struct err e;
	struct box *b = box_by_id(g, row->sandbox);
	if (!b) {
		if (store_cell_drop(g->store, row->sandbox, &e))
			log_line(LOG_ERROR, "%s", e.msg);
		cell_row_done(row);
		return;
	}
	b->cell_row = *row;
	if (row->pid && proc_start_time((pid_t)row->pid) != row->start) {
		cell_lost(b);
		return;
	}
	b->holder = task_new(b, TASK_ADOPT, (struct done){0});
	b->cell = g->backend->ops->adopt(g->backend, row->sandbox, row->key, &b->w);
}

struct rows {
	struct cell_row *row;
	size_t n;
};

static void collect(void *ctx, struct cell_row *row)
{
	struct rows *r = ctx;
	r->row = xrealloc(r->row, (r->n + 1) * sizeof *r->row);
	r->row[r->n++] = *row;
}

// Rows without a cell in a state that needs one, or half removed.
static void settle_rows(struct engine *g)
{
	struct err e;
	for (struct box *b = g->boxes, *next; b; b = next) {
		next = b->next;
		if (b->cell || b->holder)
			continue;
		if (!fs_exists(g->sandboxes, b->row.id) && b->row.state != STATE_DELETING) {
			cell_lost(b);
		} else if (b->row.state == STATE_DELETING) {
			struct task *t = task_new(b, TASK_REMOVE, (struct done){0});
			t->force = true;
			task_submit(t);
		} else if (b->row.state == STATE_RUNNING || b->row.state == STATE_PAUSED || b->row.state == STATE_CREATING) {
			cell_lost(b);
		} else if (b->row.state == STATE_STOPPED && box_check_layers(b, &e)) {
			box_move(b, STATE_FAILED, e.msg);
		}
	}
}

int engine_reconcile(struct engine *g, struct err *e)
{
	struct rows rows = {0};
	int rc = store_cells(g->store, collect, &rows, e);
	for (size_t i = 0; i < rows.n; i++)
		adopt(g, &rows.row[i]);
	free(rows.row);
	settle_rows(g);
	for (struct box *b = g->boxes; b; b = b->next)
		if (b->row.base_pin == PIN_PINNING || b->row.base_pin == PIN_INHERITED)
			pin_begin(b);
	review_recover(g);
	seal_resume(g);
	blank_sweep(g);
	archive_arm(g);
	archive_count(g);
	setup_sweep(g);
	expiry_arm(g);
	return rc;
}

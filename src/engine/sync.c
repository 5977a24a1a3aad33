// SPDX-License-Identifier: Apache-2.0
// Power cuts. Rows and journals are written without waiting for the disk; what was written is synced a moment later, by a child
// (skep-cell --sync), for a disk may take seconds and the loop has none. Nothing is called durable before that child said so.
//
// Journals come before the rows that know their ends, and what a row names before the row: then whatever is found after a
// power cut was true at some moment.
#include "engine/snap_int.h"

#include "base/durable.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/child.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SYNC_MS 2000
#define LIST_MAX_BYTES (16u << 20)

struct sync_wait {
	struct reply r;
	struct sync_wait *next;
};

// What one child has been asked for.
struct sync_round {
	char **trees, **dirs;
	bool snaps; // records of snapshots
	struct sync_wait *waits;
};

static void on_timer(struct timer *t);

static void arm(struct engine *g)
{
	g->sync.fn = on_timer;
	if (!g->sync.at_ms)
		timer_set(g->loop, &g->sync, SYNC_MS);
}

static bool has(char *const *list, const char *s)
{
	for (; list && *list; list++)
		if (!strcmp(*list, s))
			return true;
	return false;
}

void sync_journal(struct engine *g, const char *dir)
{
	if (!has(g->unsynced, dir))
		strv_add(&g->unsynced, dir);
	arm(g);
}

void sync_tree(struct engine *g, const char *path)
{
	if (!has(g->unsynced_trees, path))
		strv_add(&g->unsynced_trees, path);
	arm(g);
}

void sync_wrote(struct engine *g)
{
	g->rows_unsynced = true;
	arm(g);
}

// While a cell lives it writes the journal, and does not tell us: its size does.
static void look_at_cells(struct engine *g)
{
	for (struct box *b = g->boxes; b; b = b->next) {
		if (!b->cell)
			continue;
		uint64_t end = record_end(b);
		auto_free char *dir = xasprintf("sandboxes/%s", b->row.id);
		if (end != b->journal_end)
			sync_journal(g, dir);
		b->journal_end = end;
		arm(g);
	}
}

static struct buf make_list(char *const *trees, char *const *dirs, bool snaps)
{
	struct buf list = BUF_INIT(LIST_MAX_BYTES);
	for (char *const *t = trees; t && *t; t++)
		durable_add(&list, DURABLE_TREE, *t);
	if (trees)
		durable_add(&list, DURABLE_DIR, "trees");
	for (char *const *d = dirs; d && *d; d++)
		durable_add(&list, DURABLE_FILES, *d);
	durable_add(&list, DURABLE_DIR, "sandboxes");
	durable_add(&list, DURABLE_DIR, "journals");
	durable_add(&list, DURABLE_FILE, "state.db");
	durable_add(&list, DURABLE_FILE, "state.db-wal");
	durable_add(&list, DURABLE_FILE, "state.db.backup");
	if (snaps)
		durable_add(&list, DURABLE_FILES, "snapshots");
	durable_add(&list, DURABLE_DIR, ".");
	return list;
}

static void answer(struct sync_wait *waits, const struct err *e)
{
	while (waits) {
		struct sync_wait *w = waits;
		waits = w->next;
		w->r.fn(w->r.ctx, e);
		free(w);
	}
}

static void begin(struct engine *g);

static void end_round(struct engine *g, const struct err *e)
{
	struct sync_round *r = g->sync_round;
	g->sync_round = NULL;
	if (e) {
		log_line(LOG_ERROR, "what was written may not survive a power cut, and is synced again in a moment: %s", e->msg);
		for (char **t = r->trees; t && *t; t++)
			sync_tree(g, *t);
		for (char **d = r->dirs; d && *d; d++)
			sync_journal(g, *d);
		sync_wrote(g);
	}
	strv_free(r->trees);
	strv_free(r->dirs);
	struct sync_wait *waits = r->waits;
	free(r);
	answer(waits, e);
	if (g->sync_waits)
		begin(g);
}

static void on_synced(void *ctx, const struct child_end *end)
{
	struct err e;
	if (end->status)
		err_set(&e, ERR_SYSTEM, "%s", end->out->n ? end->out->p : "skep-cell --sync ended without a result");
	end_round(ctx, end->status ? &e : NULL);
}

static int start(struct engine *g, const struct sync_round *r, struct err *e)
{
	auto_buf struct buf list = make_list(r->trees, r->dirs, r->snaps);
	char a0[] = "skep-cell", a1[] = "--sync", *argv[] = {a0, a1, g->skep_home, NULL};
	struct child_spec spec = {.program = "skep-cell", .argv = argv, .in = &list, .out_max = 4096};
	if (list.overflow)
		return err_set(e, ERR_LIMIT, "too many journals");
	return !fault(FAULT_SYNC_START, e) && child_start(g, &spec, on_synced, g, e) ? 0 : -1;
}

static void begin(struct engine *g)
{
	struct err e;
	if (g->sync_round)
		return; // its end begins the next one
	bool flushed = engine_flush(g);
	if (!flushed)
		err_set(&e, ERR_SYSTEM, "state.db could not be written");
	struct sync_round *r = xcalloc(1, sizeof *r);
	r->trees = take(&g->unsynced_trees);
	r->dirs = take(&g->unsynced);
	r->waits = take(&g->sync_waits);
	g->rows_unsynced = false;
	r->snaps = g->snaps_unsynced;
	g->snaps_unsynced = false;
	g->sync_round = r;
	if (!flushed || start(g, r, &e))
		end_round(g, &e);
}

static void on_timer(struct timer *t)
{
	struct engine *g = container_of(t, struct engine, sync);
	look_at_cells(g);
	if (g->unsynced || g->unsynced_trees || g->rows_unsynced || g->sync_waits)
		begin(g);
}

void sync_rows(struct engine *g, struct reply r)
{
	struct sync_wait *w = xcalloc(1, sizeof *w), **p = &g->sync_waits;
	w->r = r;
	while (*p)
		p = &(*p)->next;
	*p = w;
	begin(g);
}

static void forget(struct sync_wait *waits)
{
	while (waits) {
		struct sync_wait *w = waits;
		waits = w->next;
		free(w);
	}
}

// The last thing a daemon does has the time that it takes. What a child is just at is done here as well: it may be killed.
void sync_free(struct engine *g)
{
	struct err e;
	timer_clear(g->loop, &g->sync);
	look_at_cells(g);
	timer_clear(g->loop, &g->sync);
	struct sync_round *r = g->sync_round;
	for (char **d = r ? r->dirs : NULL; d && *d; d++)
		if (!has(g->unsynced, *d))
			strv_add(&g->unsynced, *d);
	auto_buf struct buf list = make_list(NULL, g->unsynced, true); // whose trees were open says so: it is not durable yet
	if ((g->unsynced || g->rows_unsynced || r) && g->home_fd >= 0 && durable_sync(g->home_fd, &list, &e))
		log_line(LOG_ERROR, "what was written last may not survive a power cut: %s", e.msg);
	if (r) {
		strv_free(r->trees);
		strv_free(r->dirs);
		forget(r->waits);
		free(r);
	}
	forget(g->sync_waits);
	strv_free(g->unsynced);
	strv_free(g->unsynced_trees);
}

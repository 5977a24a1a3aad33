// SPDX-License-Identifier: Apache-2.0
// Sealing. With no process but pid 1 the cell is ended and its upper simply becomes the newest sealed layer: nothing is
// copied, only rows change, and the next start makes a new upper. (An upper can not be taken away under a live mount: it
// goes on receiving writes.) Beside running processes everything is frozen, what they have written is copied, and they
// go on where they were.
#include "engine/snap_int.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

enum phase { MERGING, ASKING, ENDING, FREEZING, COPYING, THAWING };

struct sealing {
	struct task *t;
	enum phase phase;
	char *name;
	bool automatic, end, froze;
	char copy[ID_SIZE]; // the frozen copy, "" = none
	void (*then)(struct task *t, const struct err *e);
};

void seal_free(struct task *t)
{
	if (!t->sealing)
		return;
	free(t->sealing->name);
	free(t->sealing);
	t->sealing = NULL;
}

const char *seal_copy(const struct task *t)
{
	return t->sealing ? t->sealing->copy : "";
}

static void finish(struct sealing *s, const struct err *e)
{
	struct task *t = s->t;
	void (*then)(struct task *, const struct err *) = s->then;
	t->box->freezing = false;
	seal_free(t);
	then(t, e);
}

// --- to the disk: the result is told at once; that it will outlive a power cut is known later, and said ---

static struct snap *snap_of(const struct sync *y)
{
	for (struct snap *n = y->g->snaps; n; n = n->next)
		if (!strcmp(n->row.id, y->snapshot))
			return n;
	return NULL;
}

static void sync_next(struct engine *g);

static void sync_end(struct engine *g, const struct err *e)
{
	struct sync *y = g->syncs;
	struct snap *n = snap_of(y); // removed meanwhile: nobody asks any more
	struct err se;
	if (n && e) {
		log_line(LOG_WARN, "snapshot=%s not synced: %s", y->snapshot, e->msg);
	} else if (n) {
		n->row.durable = true;
		if (store_snapshot_durable(g->store, y->snapshot, &se))
			log_line(LOG_ERROR, "%s", se.msg);
		engine_wrote(g);
	}
	g->syncs = y->next;
	strv_free(y->layers);
	free(y);
	sync_next(g);
}

static void on_rows_synced(void *ctx, const struct err *e)
{
	sync_end(ctx, e);
}

static void on_layer_synced(void *ctx, const struct err *e, const struct layer_result *r)
{
	struct engine *g = ctx;
	(void)r;
	if (e)
		sync_end(g, e);
	else
		sync_next(g);
}

static void sync_base(struct engine *g, const char *path)
{
	for (struct derived *d = g->derived; d; d = d->next)
		if (path_is_below(path, d->row.path) && str_has_prefix(d->row.path, "trees/") && !d->asked) {
			d->asked = true;
			sync_tree(g, d->row.path);
		}
}

// A private .git, a checkout, a frozen copy. Setup layers were synced when they were made.
static void choose_bases(struct engine *g, const struct snap *of)
{
	struct sandbox was = {0};
	size_t own = strv_len(of->row.lowers) - of->row.n_base;
	for (char **l = of->row.lowers + own; *l; l++)
		sync_base(g, *l);
	if (!sandbox_template_read(&of->row.template, &was) && was.tree)
		sync_base(g, was.tree);
	sandbox_done(&was);
}

// Of its own layers those that no snapshot is known to have on disk.
static void choose_layers(struct sync *y, const struct snap *of)
{
	size_t own = strv_len(of->row.lowers) - of->row.n_base;
	y->layers = xcalloc(1, sizeof *y->layers);
	for (size_t i = 0; i < own; i++) {
		bool known = false;
		for (struct snap *n = y->g->snaps; n && !known; n = n->next)
			for (char **l = n->row.lowers; n->row.durable && *l && !known; l++)
				known = !strcmp(*l, of->row.lowers[i]);
		if (!known)
			strv_add(&y->layers, of->row.lowers[i] + strlen("layers/"));
	}
}

static void sync_next(struct engine *g)
{
	struct sync *y = g->syncs;
	if (!y)
		return;
	struct snap *n = snap_of(y);
	if (n && !y->layers) {
		choose_layers(y, n);
		choose_bases(g, n);
	}
	if (n && y->layers[y->at]) {
		char *from[] = {y->layers[y->at++], NULL};
		struct layer_op op = {.verb = LAYER_SYNC, .from = from, .sealed = true};
		g->backend->ops->layer(g->backend, &op, (struct layer_reply){on_layer_synced, g});
	} else if (n) {
		sync_rows(g, (struct reply){on_rows_synced, g});
	} else {
		sync_end(g, NULL);
	}
}

static void sync_snapshot(struct engine *g, const char *snapshot)
{
	struct sync *y = xcalloc(1, sizeof *y), **p = &g->syncs;
	y->g = g;
	memcpy(y->snapshot, snapshot, sizeof y->snapshot);
	while (*p)
		p = &(*p)->next;
	*p = y;
	if (g->syncs == y)
		sync_next(g);
}

void seal_resume(struct engine *g)
{
	for (struct snap *n = g->snaps; n; n = n->next)
		if (!n->row.durable)
			sync_snapshot(g, n->row.id);
}

void seal_forget(struct engine *g)
{
	while (g->syncs) {
		struct sync *y = g->syncs;
		g->syncs = y->next;
		strv_free(y->layers);
		free(y);
	}
}

// --- the rows ---

static void note(struct box *b, const struct snapshot *n)
{
	auto_buf struct buf body = BUF_INIT(64u << 10);
	struct jsonw w = {.b = &body};
	jw_kstr(&w, "snapshot", n->id);
	jw_kstr(&w, "name", n->name);
	jw_kstr(&w, "mode", n->frozen ? "frozen-copy" : "sealed");
	jw_kbool(&w, "automatic", n->automatic);
	jw_ku64(&w, "layers", strv_len(n->lowers));
	record(b, "snapshot.made", buf_cstr(&body));
}

static struct snapshot describe(const struct sealing *s)
{
	const struct sandbox *row = &s->t->box->row;
	struct snapshot n = {
		.name = s->name ? xstrdup(s->name) : NULL,
		.created = clock_unix_ms(),
		.automatic = s->automatic,
		.frozen = s->copy[0],
		.n_base = row->n_base,
		.pending = row->pending,
		.template = BUF_INIT(4 * LIMIT_REQUEST_BODY),
	};
	id_make('n', n.id);
	memcpy(n.sandbox, row->id, sizeof n.sandbox);
	sandbox_template_write(&n.template, row);
	return n;
}

static int store_both(struct engine *g, const struct snapshot *n, const struct sandbox *row, struct err *e)
{
	struct store *s = g->store;
	keep_mark(g, row->id);
	engine_wrote(g);
	if (store_begin(s, e))
		return -1;
	if (store_snapshot_add(s, n, e) || store_sandbox_stack(s, row, e) || fault(FAULT_SEAL_STORE, e)) {
		store_rollback(s);
		return -1;
	}
	return store_commit(s, e);
}

// The upper becomes the newest sealed layer by being named as one.
static char **seal_upper(struct box *b, char layer[ID_SIZE])
{
	struct sandbox *s = &b->row;
	if (!layer_is_touched(b->g, s->layer))
		return NULL;
	char **lowers = stack_push(s->layer, s->lowers);
	memcpy(layer, s->layer, ID_SIZE);
	id_make('l', s->layer);
	s->layer_made = false;
	char **old = s->lowers;
	s->lowers = lowers;
	return old;
}

static void unseal(struct box *b, char **old, const char layer[ID_SIZE])
{
	strv_free(b->row.lowers);
	b->row.lowers = old;
	memcpy(b->row.layer, layer, ID_SIZE);
	b->row.layer_made = true;
}

static int make(struct sealing *s, struct err *e)
{
	struct box *b = s->t->box;
	char layer[ID_SIZE] = "";
	if (fault(FAULT_SEAL_MAKE, e))
		return -1;
	struct snapshot n = describe(s);
	char **old = s->copy[0] ? NULL : seal_upper(b, layer);
	n.lowers = s->copy[0] ? stack_push(s->copy, b->row.lowers) : strv_copy(b->row.lowers);
	if (store_both(b->g, &n, &b->row, e)) {
		if (old)
			unseal(b, old, layer);
		snapshot_done(&n);
		return -1;
	}
	strv_free(old);
	note(b, &n);
	s->t->made = snap_add(b->g, &n);
	auto_free char *sealed = xasprintf("layers/%s", layer);
	size_drop(b->g, sealed); // what was counted while it was written to
	size_box(b);
	sync_snapshot(b->g, s->t->made->row.id);
	layers_compact(b);
	snaps_trim(b);
	return 0;
}

// Every moment that is asked for is kept, except an automatic one that is known already.
static bool is_known(const struct sealing *s)
{
	struct box *b = s->t->box;
	if (!s->automatic || s->copy[0] || layer_is_touched(b->g, b->row.layer))
		return false;
	for (struct snap *n = b->g->snaps; n; n = n->next)
		if (!strcmp(n->row.sandbox, b->row.id) && stack_equal(n->row.lowers, b->row.lowers)) {
			s->t->made = n;
			return true;
		}
	return false;
}

static void seal_rows(struct sealing *s)
{
	struct err e;
	bool failed = !is_known(s) && make(s, &e);
	finish(s, failed ? &e : NULL);
}

static void drop_copy(struct sealing *s)
{
	layer_discard(s->t->box->g, s->copy);
}

static void on_thawed(void *ctx, const struct err *e)
{
	struct sealing *s = ctx;
	if (e)
		log_line(LOG_WARN, "sandbox=%s not resumed after a snapshot: %s", s->t->box->row.id, e->msg);
	seal_rows(s);
}

static void on_copied(void *ctx, const struct err *e, const struct layer_result *r)
{
	struct sealing *s = ctx;
	struct box *b = s->t->box;
	struct err why;
	(void)r;
	if (e) {
		why = *e;
		if (s->froze && b->cell)
			b->g->backend->ops->pause(b->cell, false, (struct reply){NULL, NULL});
		drop_copy(s);
		finish(s, &why);
	} else if (s->froze && b->cell) {
		s->phase = THAWING;
		b->g->backend->ops->pause(b->cell, false, (struct reply){on_thawed, s});
	} else {
		seal_rows(s);
	}
}

// An earlier copy of this same upper: what has not changed since is linked, not copied again.
static const char *earlier_copy(const struct box *b)
{
	for (struct snap *n = b->g->snaps; n; n = n->next)
		if (n->row.frozen && !strcmp(n->row.sandbox, b->row.id) && n->row.lowers[0] && stack_equal(n->row.lowers + 1, b->row.lowers))
			return n->row.lowers[0] + strlen("layers/");
	return NULL;
}

static void on_frozen(void *ctx, const struct err *e)
{
	struct sealing *s = ctx;
	struct box *b = s->t->box;
	struct err injected;
	if (e || fault(FAULT_SEAL_COPY, &injected)) {
		struct err why = e ? *e : injected;
		if (s->froze && b->cell)
			b->g->backend->ops->pause(b->cell, false, (struct reply){NULL, NULL});
		finish(s, &why);
		return;
	}
	s->phase = COPYING;
	id_make('l', s->copy);
	char *from[] = {b->row.layer, NULL};
	struct layer_op op = {.verb = LAYER_COPY, .from = from, .to = s->copy, .like = earlier_copy(b)};
	b->g->backend->ops->layer(b->g->backend, &op, (struct layer_reply){on_copied, s});
}

static void freeze(struct sealing *s)
{
	struct box *b = s->t->box;
	s->phase = FREEZING;
	s->froze = b->row.state != STATE_PAUSED;
	b->freezing = true; // the state stays what it is: nobody asked for a pause
	if (s->froze)
		b->g->backend->ops->pause(b->cell, true, (struct reply){on_frozen, s});
	else
		on_frozen(s, NULL);
}

static void end_cell(struct sealing *s)
{
	s->phase = ENDING; // the outcome is seal_gone
	s->t->box->g->backend->ops->stop(s->t->box->cell, s->end ? LIMIT_STOP_GRACE_MS : 0, false);
}

static void on_members(void *ctx, const struct err *e, uint32_t count)
{
	struct sealing *s = ctx;
	if (e)
		finish(s, e);
	else if (count)
		freeze(s);
	else
		end_cell(s);
}

void seal_gone(struct task *t)
{
	if (t->sealing->phase == ENDING)
		seal_rows(t->sealing);
	// else: what is asked or copied right now has its own end
}

static void seal_start(struct sealing *s)
{
	struct box *b = s->t->box;
	s->phase = ASKING;
	if (!b->cell)
		seal_rows(s);
	else if (s->end)
		end_cell(s);
	else
		b->g->backend->ops->members(b->cell, (struct count_reply){on_members, s});
}

static bool seal_has_room(const struct box *b)
{
	return strv_len(b->row.lowers) + 1 < STACK_MAX;
}

void seal_merged(struct box *b)
{
	struct sealing *s = b->holder ? b->holder->sealing : NULL;
	struct err e;
	if (!s || s->phase != MERGING)
		return;
	if (seal_has_room(b)) {
		seal_start(s);
		return;
	}
	err_set(&e, ERR_CONFLICT, "the layers of sandbox %s could not be merged (skepd's log says why): try again, or fork it", b->row.id);
	finish(s, &e);
}

// A stack that can not grow is merged first: seal_merged goes on.
void seal_begin(struct task *t, const struct seal_want *want, void (*then)(struct task *t, const struct err *e))
{
	struct box *b = t->box;
	struct sealing *s = xcalloc(1, sizeof *s);
	*s = (struct sealing){.t = t, .name = want->name ? xstrdup(want->name) : NULL, .automatic = want->automatic, .end = want->end, .then = then};
	t->sealing = s;
	if (seal_has_room(b))
		seal_start(s);
	else
		layers_compact(b);
}

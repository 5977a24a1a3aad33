// SPDX-License-Identifier: Apache-2.0
// Snapshots by name and id, going back to one, letting go of them.
#include "engine/heritage_int.h"

#include "base/fault.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

struct snap *snap_add(struct engine *g, struct snapshot *row)
{
	struct snap *n = xcalloc(1, sizeof *n);
	n->row = *row;
	*row = (struct snapshot){0};
	n->next = g->snaps;
	g->snaps = n;
	return n;
}

static void load(void *ctx, struct snapshot *taken)
{
	if (snapshot_check(taken))
		snap_add(ctx, taken);
	else
		snapshot_done(taken);
}

int snaps_load(struct engine *g, struct err *e)
{
	return store_snapshots(g->store, load, g, e);
}

void snaps_free(struct engine *g)
{
	while (g->snaps) {
		struct snap *n = g->snaps;
		g->snaps = n->next;
		snapshot_done(&n->row);
		free(n);
	}
}

static bool is_of(const struct snap *n, const struct box *b)
{
	return b && !strcmp(n->row.sandbox, b->row.id);
}

// 2: exactly this one; 1: an id that starts like it; 0: not meant
static int fits(const struct snap *n, const char *word)
{
	if (!strcmp(n->row.id, word) || (n->row.name && !strcmp(n->row.name, word)))
		return 2;
	return strlen(word) >= 3 && !strncmp(n->row.id, word, strlen(word));
}

struct snap *snap_find(struct engine *g, const struct box *b, const char *word, struct err *e)
{
	struct snap *found = NULL;
	int best = 0, many = 0;
	for (struct snap *n = g->snaps; n; n = n->next) {
		int fit = fits(n, word);
		if (!fit)
			continue;
		fit += is_of(n, b) ? 4 : 0;
		many = fit > best ? 1 : many + (fit == best);
		found = fit > best ? n : found;
		best = fit > best ? fit : best;
	}
	if (many == 1)
		return found;
	err_set(e, many ? ERR_CONFLICT : ERR_NOT_FOUND,
		many ? "%.40s fits several snapshots: give the id (skep snapshots)" : "no snapshot %.40s (see skep snapshots)", word);
	return NULL;
}

static char *snap_tree(const struct snap *n)
{
	struct sandbox was = {0};
	char *tree = sandbox_template_read(&n->row.template, &was) ? NULL : take(&was.tree);
	sandbox_done(&was);
	return tree;
}

int snap_drop(struct engine *g, struct snap *n, struct err *e)
{
	step_forget(g, n);
	if (store_snapshot_drop(g->store, n->row.id, e))
		return -1;
	keep_snap_gone(g, n->row.id);
	engine_wrote(g);
	list_unlink(&g->snaps, n, next);
	char of[ID_SIZE];
	memcpy(of, n->row.sandbox, sizeof of);
	auto_free char *tree = snap_tree(n);
	layers_release(g, n->row.lowers);
	snapshot_done(&n->row);
	free(n);
	derived_release_copy(g, tree, of);
	heritage_release(g, of);
	return 0;
}

static void drop_logged(struct engine *g, struct snap *n)
{
	struct err e;
	if (snap_drop(g, n, &e))
		log_line(LOG_ERROR, "snapshot=%s %s", n->row.id, e.msg);
}

void snaps_trim(struct box *b)
{
	int kept = 0;
	for (struct snap *n = b->g->snaps, *next; n; n = next) {
		next = n->next;
		if (is_of(n, b) && n->row.automatic && ++kept > AUTO_KEPT)
			drop_logged(b->g, n);
	}
}

void snaps_of_gone(struct box *b)
{
	for (struct snap *n = b->g->snaps, *next; n; n = next) {
		next = n->next;
		if (is_of(n, b) && !n->row.name && !step_is(b->g, n))
			drop_logged(b->g, n);
	}
}

// --- snapshot ---

static int check_name(struct box *b, const char *name, struct err *e)
{
	if (!name)
		return 0;
	if (!name_is_valid(name))
		return err_set(e, ERR_INVALID, "\"%.60s\" is not a name: 1 to 40 of a-z 0-9 -, not starting with -, and not like an id", name);
	for (struct snap *n = b->g->snaps; n; n = n->next)
		if (is_of(n, b) && n->row.name && !strcmp(n->row.name, name))
			return err_set(e, ERR_CONFLICT, "sandbox %s has a snapshot named %s: choose another name or `skep snapshot rm %s`",
				       b->row.id, name, n->row.id);
	return 0;
}

static void on_made(struct task *t, const struct err *e)
{
	task_end(t, e);
}

void run_snapshot(struct task *t)
{
	struct err e;
	if (check_name(t->box, t->word, &e))
		task_end(t, &e);
	else
		seal_begin(t, &(struct seal_want){.name = t->word}, on_made);
}

// --- rollback ---

static struct snap *target(struct task *t, struct err *e)
{
	struct box *b = t->box;
	if (t->word) {
		struct snap *n = snap_find(b->g, b, t->word, e);
		if (n && !is_of(n, b)) {
			err_set(e, ERR_CONFLICT, "snapshot %s is not one of sandbox %s: `skep new --from %s` makes a sandbox on it", n->row.id,
				b->row.id, n->row.id);
			return NULL;
		}
		return n;
	}
	for (struct snap *n = b->g->snaps; n; n = n->next)
		if (is_of(n, b) && n->row.name)
			return n;
	err_set(e, ERR_NOT_FOUND, "sandbox %s has no named snapshot: give the id of one (skep snapshots %s)", b->row.id, b->row.id);
	return NULL;
}

// What a snapshot covers comes back: files by its layers, environment, image, and what the base was. *next is the row with
// these of its own; the rest is borrowed from *s.
static int restored(struct engine *g, const struct sandbox *s, const struct snapshot *n, struct sandbox *next, struct err *e)
{
	struct sandbox was = {0};
	if (sandbox_template_read(&n->template, &was)) {
		sandbox_done(&was);
		return err_set(e, ERR_SYSTEM, "snapshot %s can not be read: state.db was changed by somebody else", n->id);
	}
	*next = *s;
	next->env = take(&was.env);
	next->image = take(&was.image);
	next->pin = take(&was.pin);
	next->base_pin = was.base_pin;
	heritage_back(g, next);
	sandbox_done(&was);
	next->lowers = strv_copy(n->lowers);
	next->n_base = n->n_base;
	next->pending = n->pending;
	id_make('l', next->layer);
	next->layer_made = false;
	return 0;
}

static void free_restored(struct sandbox *s)
{
	strv_free(s->env);
	strv_free(s->lowers);
	free(s->image);
	free(s->pin);
}

static int store_restored(struct store *s, const struct sandbox *next, struct err *e)
{
	if (store_begin(s, e))
		return -1;
	if (store_sandbox_stack(s, next, e) || fault(FAULT_ROLLBACK_STORE, e)) {
		store_rollback(s);
		return -1;
	}
	return store_commit(s, e);
}

static int go_back(struct box *b, const struct snap *n, struct err *e)
{
	struct sandbox next;
	if (stack_check(b->g, n->row.lowers, e))
		return err_wrap(e, "snapshot %s can not be used", n->row.id);
	if (restored(b->g, &b->row, &n->row, &next, e))
		return -1;
	b->unkept = true;
	engine_wrote(b->g);
	if (store_restored(b->g->store, &next, e)) {
		free_restored(&next);
		return -1;
	}
	char **left = stack_push(b->row.layer, b->row.lowers);
	free_restored(&b->row);
	b->row = next;
	layers_release(b->g, left); // an upper nobody ever wrote to; what was written is in the automatic snapshot
	strv_free(left);
	return 0;
}

static void on_kept(struct task *t, const struct err *e)
{
	struct box *b = t->box;
	struct err why;
	struct snap *kept = t->made, *n = e ? NULL : target(t, &why);
	if (e || !n || go_back(b, n, &why)) {
		task_end(t, e ? e : &why);
		return;
	}
	auto_buf struct buf body = BUF_INIT(4096);
	struct jsonw w = {.b = &body};
	jw_kstr(&w, "snapshot", n->row.id);
	jw_kstr(&w, "name", n->row.name);
	jw_kstr(&w, "kept", kept ? kept->row.id : NULL);
	record(b, "rollback", buf_cstr(&body));
	t->made = n;
	b->broken = false;
	if (b->row.state == STATE_FAILED)
		box_move(b, STATE_STOPPED, NULL);
	size_box(b);
	box_save(b);
	task_end(t, NULL);
}

void run_rollback(struct task *t)
{
	struct err e;
	struct snap *n = target(t, &e);
	if (!n)
		task_end(t, &e);
	else
		seal_begin(t, &(struct seal_want){.automatic = true, .end = true}, on_kept);
}

// --- the calls ---

static void submit(struct engine *g, const char *id, enum task_kind kind, const char *word, uint32_t count, struct done d)
{
	struct err e;
	struct box *b = box_find(g, id, &e);
	if (!b) {
		task_refuse(d, &e);
		return;
	}
	struct task *t = task_new(b, kind, d);
	t->word = word ? xstrdup(word) : NULL;
	t->count = count;
	task_submit(t);
}

void engine_snapshot(struct engine *g, const char *id, const char *name, struct done d)
{
	submit(g, id, TASK_SNAPSHOT, name, 0, d);
}

void engine_rollback(struct engine *g, const char *id, const char *word, struct done d)
{
	submit(g, id, TASK_ROLLBACK, word, 0, d);
}

void engine_fork(struct engine *g, const char *id, const char *word, uint32_t count, struct done d)
{
	submit(g, id, TASK_FORK, word, count, d);
}

int engine_snapshots(struct engine *g, const char *id, void (*each)(void *ctx, const struct snapshot *n), void *ctx, struct err *e)
{
	struct box *b = id ? box_find(g, id, e) : NULL;
	if (id && !b)
		return -1;
	for (struct snap *n = g->snaps; n; n = n->next)
		if (!b || is_of(n, b))
			each(ctx, &n->row);
	return 0;
}

const struct snapshot *engine_snapshot_get(struct engine *g, const char *word, struct err *e)
{
	struct snap *n = snap_find(g, NULL, word, e);
	return n ? &n->row : NULL;
}

void engine_snapshot_remove(struct engine *g, const char *word, struct done d)
{
	struct err e;
	struct snap *n = snap_find(g, NULL, word, &e);
	struct box *b = n ? box_by_id(g, n->row.sandbox) : NULL;
	if (b && b->holder) // it may be the one that is being made, or gone back to
		err_set(&e, ERR_CONFLICT, "sandbox %s is busy with another operation: try again", b->row.id);
	if (!n || (b && b->holder) || snap_drop(g, n, &e) || store_flush(g->store, &e))
		task_refuse(d, &e);
	else
		d.fn(d.ctx, NULL, &(struct outcome){0});
}

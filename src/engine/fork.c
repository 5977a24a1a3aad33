// SPDX-License-Identifier: Apache-2.0
// New sandboxes on a snapshot: they share its sealed layers and get an identity, a token and placeholders of their own.
#include "engine/base_int.h"
#include "engine/heritage_int.h"
#include "engine/net_int.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define FORKS_PREPARED 2

// Rules and names of secrets as they are now, never as they were: a fork may not reach more than its origin may.
static void copy_net(struct sandbox *s, const struct sandbox *from)
{
	const struct net_row *n = &from->net;
	s->has_net = from->has_net;
	if (!s->has_net)
		return;
	s->net = (struct net_row){
		.preset = n->preset ? xstrdup(n->preset) : NULL,
		.rules = strv_copy(n->rules),
		.registries = n->registries ? strv_copy(n->registries) : NULL,
		.has_ask = n->has_ask,
		.ask = n->ask,
		.phase = n->phase ? xstrdup(n->phase) : NULL,
		.headers = n->headers ? strv_copy(n->headers) : NULL,
	};
	for (char **x = n->secrets; x && *x; x++) {
		auto_free char *name = xstrndup(*x, strcspn(*x, "\t"));
		net_row_add_secret(&s->net, name);
	}
}

static int inherit(struct engine *g, const struct snapshot *n, struct sandbox *s, struct err *e)
{
	if (stack_check(g, n->lowers, e))
		return err_wrap(e, "snapshot %s can not be used", n->id);
	if (sandbox_template_read(&n->template, s))
		return err_set(e, ERR_SYSTEM, "snapshot %s can not be read: state.db was changed by somebody else", n->id);
	s->lowers = strv_copy(n->lowers);
	s->n_base = n->n_base;
	s->pending = n->pending;
	s->origin = xstrdup(n->id);
	heritage_fork(s, n->sandbox);
	return 0;
}

int create_from(struct engine *g, const char *word, struct sandbox *row, struct err *e)
{
	struct snap *n = snap_find(g, NULL, word, e);
	return n ? inherit(g, &n->row, row, e) : -1;
}

static int make_row(struct box *from, const struct snapshot *n, struct sandbox *s, struct err *e)
{
	struct engine *g = from->g;
	if (inherit(g, n, s, e) || blank_take(g, s->id, e))
		return -1;
	id_make('l', s->layer);
	key_make(s->machine_id);
	s->owner = xstrdup(g->owner);
	s->state = STATE_STOPPED;
	s->keep = true;
	s->created = s->used = clock_unix_ms();
	s->expires = s->ttl_ms ? s->created + s->ttl_ms : 0;
	copy_net(s, &from->row);
	return 0;
}

static int store_one(struct engine *g, const struct sandbox *s, struct err *e)
{
	return store_sandbox_add(g->store, s, e) || (s->has_net && store_net_set(g->store, s->id, &s->net, e)) ||
			       store_project_set(g->store, s->id, &s->project, e)
		       ? -1
		       : 0;
}

// All of them or none.
static int make_all(struct task *t, struct sandbox *rows, struct err *e)
{
	struct engine *g = t->box->g;
	struct store *s = g->store;
	for (uint32_t i = 0; i < t->count; i++)
		if (make_row(t->box, &t->made->row, &rows[i], e))
			return -1;
	engine_wrote(g);
	if (store_begin(s, e))
		return -1;
	int rc = 0;
	for (uint32_t i = 0; i < t->count && !rc; i++)
		rc = store_one(g, &rows[i], e);
	if (rc || fault(FAULT_FORK_STORE, e)) {
		store_rollback(s);
		return -1;
	}
	return store_commit(s, e);
}

static void discard_dirs(struct engine *g, const struct sandbox *rows, uint32_t n)
{
	char **dirs = NULL;
	for (uint32_t i = 0; i < n; i++) {
		auto_free char *dir = xasprintf("sandboxes/%s", rows[i].id);
		if (*rows[i].id)
			strv_add(&dirs, dir);
	}
	if (dirs)
		engine_discard(g, dirs);
	strv_free(dirs);
}

static void note(struct box *from, struct box *b, const struct snapshot *n)
{
	auto_buf struct buf body = BUF_INIT(4096);
	struct jsonw w = {.b = &body};
	jw_kstr(&w, "sandbox", b->row.id);
	jw_kstr(&w, "snapshot", n->id);
	record(from, "fork", buf_cstr(&body));
	record_created(b);
}

// The first of them is mostly used at once.
static void fork_prepare(struct task *t)
{
	struct backend *be = t->box->g->backend;
	for (uint32_t i = 0; i < t->count && i < FORKS_PREPARED && be->ops->prepare; i++) {
		struct cell_spec spec;
		cellspec_make(t->forks[i], t, false, &spec);
		be->ops->prepare(be, &spec);
		cell_spec_done(&spec);
	}
}

static void on_sealed(struct task *t, const struct err *e)
{
	struct box *b = t->box;
	struct err why;
	if (e) {
		task_end(t, e);
		return;
	}
	struct sandbox *rows = xcalloc(t->count, sizeof *rows);
	bool failed = make_all(t, rows, &why);
	if (failed)
		discard_dirs(b->g, rows, t->count);
	t->forks = xcalloc(t->count, sizeof *t->forks);
	for (uint32_t i = 0; i < t->count; i++) {
		if (failed) {
			sandbox_done(&rows[i]);
			continue;
		}
		t->forks[i] = box_add(b->g, &rows[i]);
		note(b, t->forks[i], &t->made->row);
		if (t->forks[i]->row.base_pin == PIN_INHERITED)
			pin_begin(t->forks[i]);
	}
	free(rows);
	expiry_arm(b->g);
	if (failed)
		t->count = 0;
	fork_prepare(t);
	task_end(t, failed ? &why : NULL);
}

void run_fork(struct task *t)
{
	struct err e;
	if (t->word) {
		t->made = snap_find(t->box->g, t->box, t->word, &e);
		on_sealed(t, t->made ? NULL : &e);
	} else {
		seal_begin(t, &(struct seal_want){.automatic = true}, on_sealed);
	}
}

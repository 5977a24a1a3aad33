// SPDX-License-Identifier: Apache-2.0
// Steps: moments of sandboxes that can be made again, found by what they were made from. Each is a snapshot without a name and a
// derived row that says so; the row goes first, so that what is left when we die in between is a snapshot that gc knows.
#include "engine/snap_int.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

struct keeping {
	struct engine *g;
	char *key;
	struct done done;
};

struct snap *step_snap(const struct engine *g, const struct derived *d)
{
	for (struct snap *n = g->snaps; n && d->row.kind == DERIVED_STEP && d->row.info && *d->row.info; n = n->next)
		if (!strcmp(n->row.id, *d->row.info))
			return n;
	return NULL;
}

static struct derived *row_of(const struct engine *g, const struct snap *n)
{
	for (struct derived *d = g->derived; d; d = d->next)
		if (step_snap(g, d) == n)
			return d;
	return NULL;
}

bool step_is(const struct engine *g, const struct snap *n)
{
	return row_of(g, n);
}

bool step_is_of(const struct engine *g, const struct snap *n, const char *path)
{
	const struct derived *d = row_of(g, n);
	return d && !strcmp(d->row.path, path);
}

void step_forget(struct engine *g, const struct snap *n)
{
	struct derived *d = row_of(g, n);
	if (d)
		derived_drop(g, d);
}

const char *engine_step_find(struct engine *g, const char *key)
{
	struct err e;
	struct derived *d = derived_find(g, DERIVED_STEP, key);
	struct snap *n = d ? step_snap(g, d) : NULL;
	if (!n || stack_check(g, n->row.lowers, &e))
		return NULL;
	return n->row.id;
}

// One that was made from the same goes: who makes it again has a reason.
static int keep(struct engine *g, const char *key, const struct snapshot *made, struct err *e)
{
	struct derived *old = derived_find(g, DERIVED_STEP, key);
	struct snap *before = old ? step_snap(g, old) : NULL;
	if (!*made->lowers)
		return err_set(e, ERR_INVALID, "nothing was written yet");
	if (before && snap_drop(g, before, e))
		return -1;
	if (old && !before)
		derived_drop(g, old);
	struct derived_row row = {.kind = DERIVED_STEP, .key = xstrdup(key), .path = xstrdup(*made->lowers)};
	strv_add(&row.info, made->id);
	return derived_add(g, &row, e) ? 0 : -1;
}

static void on_made(void *ctx, const struct err *e, const struct outcome *o)
{
	struct keeping *k = ctx;
	struct err why;
	if (!e && keep(k->g, k->key, o->snapshot, &why))
		e = &why;
	k->done.fn(k->done.ctx, e, o);
	free(k->key);
	free(k);
}

void engine_step_keep(struct engine *g, const char *id, const char *key, struct done d)
{
	struct keeping *k = xcalloc(1, sizeof *k);
	*k = (struct keeping){g, xstrdup(key), d};
	engine_snapshot(g, id, NULL, (struct done){on_made, k});
}

// SPDX-License-Identifier: Apache-2.0
// What can be made again, and therefore may be thrown away.
#include "engine/snap_int.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "workspace/source.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USED_MS (3600 * 1000ULL)

static struct derived *put(struct engine *g, struct derived_row *row)
{
	struct derived *d = xcalloc(1, sizeof *d);
	d->row = *row;
	*row = (struct derived_row){0};
	d->next = g->derived;
	g->derived = d;
	return d;
}

static void load(void *ctx, struct derived_row *taken)
{
	if (derived_check(taken))
		put(ctx, taken);
	else
		derived_row_done(taken);
}

int derived_load(struct engine *g, struct err *e)
{
	return store_derived(g->store, load, g, e);
}

void derived_drop(struct engine *g, struct derived *d)
{
	struct err e;
	list_unlink(&g->derived, d, next);
	if (store_derived_drop(g->store, &d->row, &e))
		log_line(LOG_ERROR, "%s", e.msg);
	engine_wrote(g);
	derived_row_done(&d->row);
	free(d);
}

// Under a name that says it is no longer whole, before anything of it goes: whatever is cut short then, nobody takes it for
// what it was, and gc knows it.
char *derived_take(struct engine *g, struct derived *d)
{
	auto_free char *aside = xasprintf("%s.partial", d->row.path);
	bool gone = !fs_exists(g->home_fd, d->row.path);
	if (!gone && renameat(g->home_fd, d->row.path, g->home_fd, aside)) {
		log_line(LOG_ERROR, "%s stays: it can not be renamed: %s", d->row.path, strerror(errno));
		return NULL;
	}
	size_drop(g, d->row.path);
	derived_drop(g, d);
	return gone ? NULL : take(&aside);
}

void derived_free(struct engine *g)
{
	while (g->derived) {
		struct derived *d = g->derived;
		g->derived = d->next;
		derived_row_done(&d->row);
		free(d);
	}
}

// Written down seldom: eviction thinks in days.
static void mark_used(struct engine *g, struct derived *d)
{
	struct err e;
	uint64_t now = clock_unix_ms(), before = d->row.used;
	d->row.used = now;
	if (now - before < USED_MS)
		return;
	if (store_derived_set(g->store, &d->row, &e))
		log_line(LOG_ERROR, "%s", e.msg);
	engine_wrote(g);
}

// Somebody may have removed the directory: then it is made again.
struct derived *derived_find(struct engine *g, enum derived_kind kind, const char *key)
{
	for (struct derived *d = g->derived; d; d = d->next) {
		if (d->row.kind != kind || strcmp(d->row.key, key))
			continue;
		if (fs_exists(g->home_fd, d->row.path)) {
			mark_used(g, d);
			return d;
		}
		derived_drop(g, d);
		return NULL;
	}
	return NULL;
}

struct derived *derived_add(struct engine *g, struct derived_row *row, struct err *e)
{
	row->created = row->used = clock_unix_ms();
	engine_wrote(g);
	if (store_derived_set(g->store, row, e)) {
		derived_row_done(row);
		return NULL;
	}
	return put(g, row);
}

void derived_note(struct engine *g, enum derived_kind kind, const char *key, const char *path, uint64_t bytes)
{
	struct err e;
	struct derived_row row = {.kind = kind, .key = xstrdup(key), .path = xstrdup(path), .info = xcalloc(1, sizeof(char *)), .bytes = bytes};
	struct derived *d = derived_find(g, kind, key);
	int rc;
	if (d) {
		d->row.bytes = bytes;
		rc = store_derived_set(g->store, &d->row, &e);
		engine_wrote(g);
	} else {
		rc = derived_add(g, &row, &e) ? 0 : -1;
	}
	derived_row_done(&row);
	if (rc)
		log_line(LOG_ERROR, "%s", e.msg);
}

bool derived_has(const struct engine *g, const char *path)
{
	size_t n;
	for (const struct derived *d = g->derived; d; d = d->next)
		if (!strncmp(d->row.path, path, n = strlen(d->row.path)) && (!path[n] || path[n] == '/'))
			return true;
	return false;
}

static struct derived *derived_copy_find(struct engine *g, const char *tree, const char *sandbox)
{
	for (struct derived *d = g->derived; d; d = d->next) {
		if (d->row.kind != DERIVED_TREE || !id_is(d->row.key))
			continue; // a checkout: its key is a hash
		if (!strcmp(d->row.key, sandbox) || (tree && path_is_below(tree, d->row.path)))
			return d;
	}
	return NULL;
}

// A copy of a directory is made for one sandbox and shared by its snapshots and forks: the last of them to go removes
// the copy.
void derived_release_copy(struct engine *g, const char *tree, const char *sandbox)
{
	struct derived *d = derived_copy_find(g, tree, sandbox);
	if (!d || path_is_referenced(g, d->row.path))
		return;
	auto_free char *path = derived_take(g, d);
	char *dirs[] = {path, NULL};
	if (path)
		engine_discard(g, dirs);
}

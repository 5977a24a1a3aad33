// SPDX-License-Identifier: Apache-2.0
// Sealed layers belong to nobody: they live as long as a sandbox, a snapshot or a live cell refers to them.
#include "engine/snap_int.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool stack_equal(char *const *a, char *const *b)
{
	for (; *a && *b; a++, b++)
		if (strcmp(*a, *b))
			return false;
	return !*a && !*b;
}

int stack_check(struct engine *g, char *const *lowers, struct err *e)
{
	for (; lowers && *lowers; lowers++)
		if (!fs_exists(g->home_fd, *lowers))
			return err_set(e, ERR_NOT_FOUND, "its layer %s was removed by somebody else", *lowers);
	return 0;
}

char **stack_push(const char *layer, char *const *lowers)
{
	char **out = NULL;
	auto_free char *name = xasprintf("layers/%s", layer);
	strv_add(&out, name);
	for (; lowers && *lowers; lowers++)
		strv_add(&out, *lowers);
	return out;
}

static bool has(char *const *list, const char *name)
{
	for (; list && *list; list++)
		if (!strcmp(*list, name))
			return true;
	return false;
}

bool layer_is_used(struct engine *g, const char *name)
{
	for (struct box *b = g->boxes; b; b = b->next)
		if (!strcmp(b->row.layer, name + strlen("layers/")) || (b->row.tree && path_is_below(b->row.tree, name)) || has(b->row.lowers, name) ||
		    (b->cell && has(b->cell_row.lowers, name)))
			return true;
	for (struct snap *n = g->snaps; n; n = n->next)
		if (has(n->row.lowers, name))
			return true;
	for (struct compaction *c = g->compactions; c; c = c->next)
		if (has(c->from, name))
			return true;
	return str_has_prefix(name, "layers/") && derived_has(g, name);
}

bool layer_is_awaited(struct engine *g, const char *id)
{
	for (struct compaction *c = g->compactions; c; c = c->next)
		if (!strcmp(c->to, id))
			return true;
	for (struct box *b = g->boxes; b; b = b->next)
		if (b->holder && !strcmp(seal_copy(b->holder), id))
			return true;
	return false;
}

void layers_release(struct engine *g, char *const *names)
{
	char **gone = NULL;
	for (; names && *names; names++)
		if (str_has_prefix(*names, "layers/") && !layer_is_used(g, *names))
			strv_add(&gone, *names);
	if (gone)
		engine_discard(g, gone);
	strv_free(gone);
}

void layer_discard(struct engine *g, const char *id)
{
	auto_free char *dir = xasprintf("layers/%s", id), *partial = xasprintf("layers/%s.partial", id);
	char *dirs[] = {dir, partial, NULL};
	engine_discard_unmade(g, dirs);
}

// Only looked at: is there any name in it? One that can not be looked into was changed.
static bool is_empty(int dir, const char *name, int depth)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	bool empty = d;
	while (d && empty && (ent = readdir(d)))
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, ".."))
			empty = depth && is_empty(fd, ent->d_name, depth - 1);
	if (d)
		closedir(d);
	else
		close_fd(&fd);
	return empty;
}

bool layer_is_touched(struct engine *g, const char *layer)
{
	struct err e;
	if (!fs_exists(g->layers, layer))
		return false;
	auto_fd int dir = fs_open(g->layers, layer, O_RDONLY | O_DIRECTORY, 0, &e);
	// root/ holds one directory for each part of the system that can be written to
	return dir < 0 || !is_empty(dir, "ws", 0) || !is_empty(dir, "home", 0) || !is_empty(dir, "root", 1);
}

// --- compaction: the sealed layers of a long stack become one, beside whatever goes on ---

static void compaction_free(struct compaction *c)
{
	list_unlink(&c->g->compactions, c, next);
	strv_free(c->from);
	free(c);
}

// The merged ones are still the oldest of its own layers, or somebody rolled back meanwhile.
static bool replace_tail(struct sandbox *s, const struct compaction *c)
{
	size_t n = strv_len(s->lowers), m = strv_len(c->from), base = s->n_base;
	if (n < m + base)
		return false;
	size_t at = n - base - m;
	for (size_t i = 0; i < m; i++)
		if (strcmp(s->lowers[at + i], c->from[i]))
			return false;
	char **out = NULL;
	auto_free char *merged = xasprintf("layers/%s", c->to);
	for (size_t i = 0; i < at; i++)
		strv_add(&out, s->lowers[i]);
	strv_add(&out, merged);
	for (size_t i = n - base; i < n; i++)
		strv_add(&out, s->lowers[i]);
	strv_free(s->lowers);
	s->lowers = out;
	return true;
}

static void compaction_end(struct compaction *c)
{
	struct box *b = box_by_id(c->g, c->sandbox);
	compaction_free(c);
	if (!b)
		return;
	b->compacting = false;
	seal_merged(b);
}

static void give_up(struct compaction *c, const struct err *e)
{
	log_line(LOG_WARN, "sandbox=%s layers not merged: %s", c->sandbox, e->msg);
	layer_discard(c->g, c->to);
	compaction_end(c);
}

// Only now no power cut can bring a row back that names the old ones.
static void on_row_synced(void *ctx, const struct err *e)
{
	struct compaction *c = ctx;
	struct engine *g = c->g;
	auto_free char *merged = xasprintf("layers/%s", c->to);
	char *made[] = {merged, NULL}, **from = strv_copy(c->from);
	compaction_end(c);
	if (!e) { // else gc finds them
		layers_release(g, made); // nobody took it
		layers_release(g, from);
	}
	strv_free(from);
}

static void on_merged_synced(void *ctx, const struct err *e, const struct layer_result *r)
{
	struct compaction *c = ctx;
	struct engine *g = c->g;
	struct box *b = box_by_id(g, c->sandbox);
	struct err se;
	(void)r;
	if (e) {
		give_up(c, e);
		return;
	}
	if (b)
		b->unkept = true;
	if (b && replace_tail(&b->row, c) && store_sandbox_stack(g->store, &b->row, &se))
		log_line(LOG_ERROR, "sandbox=%s %s", c->sandbox, se.msg); // memory is right until the next start: the old ones stay
	engine_wrote(g);
	sync_rows(g, (struct reply){on_row_synced, c});
}

// The old ones go for it: it must be on disk before a row names it, and the row before they go.
static void on_merged(void *ctx, const struct err *e, const struct layer_result *r)
{
	struct compaction *c = ctx;
	(void)r;
	if (e) {
		give_up(c, e);
		return;
	}
	char *from[] = {c->to, NULL};
	struct layer_op op = {.verb = LAYER_SYNC, .from = from, .sealed = true};
	c->g->backend->ops->layer(c->g->backend, &op, (struct layer_reply){on_merged_synced, c});
}

void layers_compact(struct box *b)
{
	size_t own = strv_len(b->row.lowers) - b->row.n_base;
	if (own < STACK_COMPACT || b->compacting)
		return;
	struct compaction *c = xcalloc(1, sizeof *c);
	c->g = b->g;
	memcpy(c->sandbox, b->row.id, sizeof c->sandbox);
	id_make('l', c->to);
	for (size_t i = 0; i < own; i++)
		strv_add(&c->from, b->row.lowers[i]);
	c->next = b->g->compactions;
	b->g->compactions = c;
	b->compacting = true;
	char **names = NULL, **below = NULL;
	for (char **f = c->from; *f; f++)
		strv_add(&names, *f + strlen("layers/"));
	auto_free char *base = b->row.tree ? xasprintf("%s/%s", b->g->skep_home, b->row.tree) : NULL;
	for (char **l = b->row.lowers + own; *l; l++) {
		auto_free char *path = xasprintf("%s/%s", b->g->skep_home, *l);
		strv_add(&below, path);
	}
	struct layer_op op = {.verb = LAYER_MERGE, .from = names, .to = c->to, .below = below, .base = base ? base : b->row.repo};
	b->g->backend->ops->layer(b->g->backend, &op, (struct layer_reply){on_merged, c});
	strv_free(names);
	strv_free(below);
}

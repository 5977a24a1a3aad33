// SPDX-License-Identifier: Apache-2.0
// The disk budget. What can be made again makes room, least recently used first; what somebody uses, or has written, never
// does: then a new sandbox is refused instead.
#include "engine/pull_int.h"
#include "engine/snap_int.h"
#include "engine/volume_int.h"

#include "base/log.h"
#include "base/mem.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_in(const char *dir, const char *path)
{
	size_t n = strlen(dir);
	return !strncmp(dir, path, n) && (!path[n] || path[n] == '/' || path[n] == '\t'); // objects: HOST\tINSIDE
}

static bool any_in(const char *dir, char *const *paths)
{
	for (; paths && *paths; paths++)
		if (is_in(dir, *paths))
			return true;
	return false;
}

// Layers are named from SKEP_HOME on, bases and object directories by their whole path.
static bool uses(const struct engine *g, const struct sandbox *s, const char *path)
{
	auto_free char *whole = xasprintf("%s/%s", g->skep_home, path);
	return any_in(path, s->lowers) || (s->tree && is_in(path, s->tree)) || any_in(whole, s->objects);
}

static bool snapshot_uses(const struct engine *g, const struct snapshot *n, const char *path)
{
	struct sandbox was = {0};
	bool used = any_in(path, n->lowers) || sandbox_template_read(&n->template, &was) || uses(g, &was, path);
	sandbox_done(&was);
	return used;
}

// Checkouts show objects of their repository.
static bool derived_uses(const struct engine *g, const struct derived *d, const char *path)
{
	auto_free char *whole = xasprintf("%s/%s", g->skep_home, path);
	return strcmp(d->row.path, path) && any_in(whole, d->row.info);
}

bool path_is_referenced(struct engine *g, const char *path)
{
	for (struct derived *o = g->derived; o; o = o->next)
		if (!o->goes && derived_uses(g, o, path))
			return true;
	for (struct box *b = g->boxes; b; b = b->next)
		if (uses(g, &b->row, path) || (b->cell && any_in(path, b->cell_row.lowers)))
			return true;
	for (struct snap *n = g->snaps; n; n = n->next)
		if (!step_is_of(g, n, path) && snapshot_uses(g, &n->row, path))
			return true;
	return false;
}

bool derived_is_used(struct engine *g, const char *path)
{
	return g->makings || g->fetches || path_is_referenced(g, path);
}

static uint64_t bytes_of(struct engine *g, const struct derived *d)
{
	uint64_t bytes;
	return size_of(g, d->row.path, &bytes) ? bytes : d->row.bytes;
}

static void add_image(void *ctx, const struct image_row *i)
{
	*(uint64_t *)ctx += i->bytes;
}

// What reviews of its sandboxes keep.
static uint64_t copies_used(const struct engine *g)
{
	uint64_t sum = 0;
	for (const struct box *b = g->boxes; b; b = b->next) {
		struct stat st;
		auto_free char *copy = xasprintf("%s/shadow.git/skep/d", b->row.id);
		if (!fstatat(g->sandboxes, copy, &st, AT_SYMLINK_NOFOLLOW))
			sum += (uint64_t)st.st_blocks * 512;
	}
	return sum;
}

uint64_t budget_used(struct engine *g)
{
	struct err e;
	uint64_t sum = g->layer_bytes + g->archived + volumes_bytes(g) + copies_used(g), layer;
	for (struct derived *d = g->derived; d; d = d->next)
		if (!size_of(g, d->row.path, &layer)) // else it is among the layers
			sum += d->row.bytes;
	if (store_images(g->store, add_image, &sum, &e))
		log_line(LOG_WARN, "%s", e.msg);
	return sum + pulls_bytes(g);
}

static struct derived *least_used(struct engine *g)
{
	struct derived *found = NULL;
	for (struct derived *d = g->derived; d; d = d->next)
		if (!d->goes && (!found || d->row.used < found->row.used) && !derived_is_used(g, d->row.path))
			found = d;
	return found;
}

// One after the other: with a checkout its mirror loses what used it.
struct derived **budget_victims(struct engine *g, uint64_t budget)
{
	size_t n = 0, all = 0;
	uint64_t used = budget ? budget_used(g) : 0;
	for (struct derived *d = g->derived; d; d = d->next)
		all++;
	struct derived **list = xcalloc(all + 1, sizeof(struct derived *)), *next;
	while (used > budget && (next = least_used(g))) {
		uint64_t bytes = bytes_of(g, next);
		used -= bytes < used ? bytes : used;
		next->goes = true;
		list[n++] = next;
	}
	for (size_t i = 0; i < n; i++)
		list[i]->goes = false;
	return list;
}

static void evict(struct engine *g, struct derived **list)
{
	char **dirs = NULL;
	for (; *list; list++) {
		struct err e;
		struct snap *step = step_snap(g, *list);
		log_line(LOG_INFO, "%s goes: the disk budget is used up", (*list)->row.path);
		if (step && snap_drop(g, step, &e))
			log_line(LOG_ERROR, "%s", e.msg);
		if (step)
			continue;
		auto_free char *path = derived_take(g, *list);
		if (path)
			strv_add(&dirs, path);
	}
	if (dirs)
		engine_discard(g, dirs);
	strv_free(dirs);
}

int budget_check(struct engine *g, struct err *e)
{
	if (!g->budget || budget_used(g) < g->budget)
		return 0;
	pulls_evict(g);
	struct derived **list = budget_victims(g, g->budget - 1);
	evict(g, list);
	free(list);
	uint64_t used = budget_used(g);
	if (used < g->budget)
		return 0;
	return err_set(e, ERR_LIMIT, "the disk budget of %llu MiB is used up (%llu MiB by sandboxes, snapshots, images and volumes): remove some "
		       "(skep ps, skep snapshots, skep image ls, skep volume ls) or raise disk_budget in config.yaml",
		       (unsigned long long)(g->budget >> 20), (unsigned long long)(used >> 20));
}

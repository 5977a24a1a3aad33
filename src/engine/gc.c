// SPDX-License-Identifier: Apache-2.0
// What is left over: directories without rows, rows without directories, stale sockets, unfinished work, journals past their
// time; and what can be made again and was not used for long, or is over the disk budget. Cgroups are the nursery's own.
// What a sandbox, a snapshot or a live cell refers to is never touched.
#include "engine/base_int.h"
#include "engine/heritage_int.h"
#include "engine/image_int.h"
#include "engine/net_int.h"
#include "engine/pull_int.h"
#include "engine/snap_int.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOURNAL_KEPT_MS (30ULL * 86400 * 1000)
#define ENDING_MS 60000
#define UNFINISHED_MS (24ULL * 3600 * 1000) // work that takes longer is not under way any more
#define DERIVED_KEPT_MS (30ULL * 86400 * 1000)

enum how { HOW_LEFT, HOW_TREE, HOW_FILE, HOW_ROW, HOW_SNAPSHOT, HOW_DERIVED };

struct gc {
	struct engine *g;
	struct gc_done done;
	struct gc_item *items;
	enum how *how;
	char **path; // below SKEP_HOME; for HOW_ROW the sandbox's id, for HOW_SNAPSHOT the snapshot's
	size_t n;
};

static void add(struct gc *c, enum how how, const char *path, const char *why)
{
	c->items = xrealloc(c->items, (c->n + 1) * sizeof *c->items);
	c->how = xrealloc(c->how, (c->n + 1) * sizeof *c->how);
	strv_add(&c->path, path);
	c->items[c->n] = (struct gc_item){.what = xstrdup(path), .why = xstrdup(why)};
	size_of(c->g, path, &c->items[c->n].bytes);
	c->how[c->n++] = how;
}

static void gc_free(struct gc *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->items[i].what);
		free(c->items[i].why);
	}
	free(c->items);
	free(c->how);
	strv_free(c->path);
	free(c);
}

static void each_name(int dirfd, struct gc *c, void (*fn)(struct gc *c, const char *name))
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *ent;
	while (d && (ent = readdir(d)))
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, ".."))
			fn(c, ent->d_name);
	if (d)
		closedir(d);
}

static void add_unknown(struct gc *c, int dir, const char *name, const char *path, const char *why)
{
	if (keep_is_older(c->g, dir, name))
		add(c, HOW_LEFT, path, "older than state.db, which was lost: stays until you remove it yourself");
	else
		add(c, HOW_TREE, path, why);
}

// A cell renames its layer to .ending-ID and empties it when nothing has it mounted any more. One that is still there
// a while later lost its cell.
static bool is_older(int dir, const char *name, uint64_t ms)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return false;
	return (uint64_t)st.st_ctim.tv_sec * 1000 + (uint64_t)st.st_ctim.tv_nsec / 1000000 + ms < clock_unix_ms();
}

// What an earlier daemon began has nobody who would end it.
static bool is_unfinished(const struct engine *g, int dir, const char *name)
{
	uint64_t up = clock_unix_ms() - g->started;
	return str_has_suffix(name, ".partial") && is_older(dir, name, up < UNFINISHED_MS ? up : UNFINISHED_MS);
}

// .spare and .fresh-* are the nursery's: layers that wait for their sandbox.
static void look_layer(struct gc *c, const char *name)
{
	auto_free char *path = xasprintf("layers/%s", name);
	if (layer_is_used(c->g, path))
		return;
	if (str_has_prefix(name, ".gone-") || (str_has_prefix(name, ".ending-") && is_older(c->g->layers, name, ENDING_MS)))
		add(c, HOW_TREE, path, "its sandbox was removed");
	else if (is_unfinished(c->g, c->g->layers, name))
		add(c, HOW_TREE, path, "a copy or merge that did not end");
	else if (id_is(name) && name[0] == 'l' && !layer_is_awaited(c->g, name))
		add_unknown(c, c->g->layers, name, path, "no sandbox or snapshot uses it");
}

static void look_sandbox(struct gc *c, const char *name)
{
	if (box_by_id(c->g, name) || blank_is(c->g, name))
		return;
	auto_free char *path = xasprintf("sandboxes/%s", name);
	add_unknown(c, c->g->sandboxes, name, path, "no sandbox with this id");
}

static void mark(void *ctx, const struct image_row *i)
{
	strv_add(ctx, i->id);
}

static bool is_in(char *const *v, const char *s)
{
	for (; v && *v; v++)
		if (!strcmp(*v, s))
			return true;
	return false;
}

static void look_image(struct gc *c, const char *name)
{
	struct err e;
	char **known = NULL;
	if (str_has_prefix(name, "own-"))
		return; // ownership layers of rootless root cells: the nursery's
	for (struct import *im = c->g->imports; im; im = im->next)
		strv_add(&known, im->row.id);
	int rc = store_images(c->g->store, mark, &known, &e);
	size_t n = strcspn(name, ".");
	auto_free char *id = xstrndup(name, n);
	bool keep = rc || is_in(known, id);
	strv_free(known);
	if (keep)
		return;
	auto_free char *path = xasprintf("images/%s", name);
	if (str_has_suffix(name, ".partial"))
		add(c, HOW_TREE, path, "an import that did not end");
	else
		add_unknown(c, c->g->images, name, path, "no image with this id");
}

static void look_pulls(struct gc *c, bool dry_run)
{
	int fd = openat(c->g->home_fd, "pulls", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	char **names = NULL;
	struct dirent *ent;
	while (d && (ent = readdir(d)))
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, ".."))
			strv_add(&names, ent->d_name);
	if (d)
		closedir(d);
	for (char **n = names; n && *n; n++) {
		auto_free char *path = NULL;
		const char *why = pulls_forgotten(c->g, *n, dry_run, &path);
		if (why)
			add(c, HOW_TREE, path, why);
	}
	strv_free(names);
	pulls_measure(c->g);
}

static void look_socket(struct gc *c, const char *name)
{
	struct err e;
	if (name[0] == '.')
		return; // a slot's, which has no sandbox yet: the nursery's
	auto_free char *id = xstrndup(name, strcspn(name, "."));
	struct box *b = box_by_id(c->g, id);
	if (b && b->cell)
		return;
	auto_fd int fd = fs_unix_connect(c->g->cells, name, &e);
	if (fd >= 0)
		return; // somebody serves it: a cell whose row was lost; its own deadline ends it
	auto_free char *path = xasprintf("run/cells/%s", name);
	add(c, HOW_FILE, path, "nobody serves this socket");
}

static void look_journal(struct gc *c, const char *name)
{
	struct err e;
	struct gone_row gone;
	struct stat st;
	uint64_t since = 0;
	if (!store_gone_get(c->g->store, name, &gone, &e))
		since = gone.removed;
	else if (!fstatat(c->g->journals, name, &st, AT_SYMLINK_NOFOLLOW))
		since = (uint64_t)st.st_mtime * 1000;
	if (since + JOURNAL_KEPT_MS > clock_unix_ms() || heritage_needs(c->g, name))
		return;
	auto_free char *path = xasprintf("journals/%s", name);
	add(c, HOW_TREE, path, "its sandbox was removed over 30 days ago");
}

// trees/ and repos/: what no row tells of.
static void look_dir(struct gc *c, const char *dir)
{
	int fd = openat(c->g->home_fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *ent;
	while (d && (ent = readdir(d))) {
		auto_free char *path = xasprintf("%s/%s", dir, ent->d_name);
		if (ent->d_name[0] == '.' || derived_has(c->g, path) || made_is_busy(c->g, path) || c->g->fetches)
			continue;
		if (is_unfinished(c->g, fd, ent->d_name))
			add(c, HOW_TREE, path, "a fetch or checkout that did not end");
		else if (!str_has_suffix(ent->d_name, ".partial") && is_older(fd, ent->d_name, DERIVED_KEPT_MS) &&
			 !derived_is_used(c->g, path))
			add(c, HOW_TREE, path, "nothing knows it");
	}
	if (d)
		closedir(d);
}

// A volume never goes by itself: only what is left of one that was removed.
static void look_volumes(struct gc *c)
{
	int fd = openat(c->g->home_fd, "volumes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *ent;
	while (d && (ent = readdir(d))) {
		auto_free char *path = xasprintf("volumes/%s", ent->d_name);
		if (str_has_prefix(ent->d_name, ".gone-"))
			add(c, HOW_TREE, path, "its volume was removed");
	}
	if (d)
		closedir(d);
}

static void look_snapshots(struct gc *c)
{
	struct err e;
	for (struct snap *n = c->g->snaps; n; n = n->next)
		if (!n->row.name && !box_by_id(c->g, n->row.sandbox) && !step_is(c->g, n))
			add(c, HOW_SNAPSHOT, n->row.id, "a snapshot without a name, and its sandbox was removed");
		else if (stack_check(c->g, n->row.lowers, &e))
			add(c, HOW_SNAPSHOT, n->row.id, e.msg);
}

static void add_derived(struct gc *c, const struct derived *d, const char *why)
{
	const struct snap *step = step_snap(c->g, d);
	for (size_t i = 0; step && i < c->n; i++)
		if (c->how[i] == HOW_SNAPSHOT && !strcmp(c->path[i], step->row.id))
			return;
	if (step) {
		add(c, HOW_SNAPSHOT, step->row.id, why);
		size_of(c->g, d->row.path, &c->items[c->n - 1].bytes);
		return;
	}
	for (size_t i = 0; i < c->n; i++)
		if (c->how[i] == HOW_DERIVED && !strcmp(c->path[i], d->row.path))
			return;
	add(c, HOW_DERIVED, d->row.path, why);
	if (!c->items[c->n - 1].bytes)
		c->items[c->n - 1].bytes = d->row.bytes;
}

static void look_derived(struct gc *c)
{
	uint64_t now = clock_unix_ms();
	for (struct derived *d = c->g->derived; d; d = d->next) {
		if (!fs_exists(c->g->home_fd, d->row.path))
			add_derived(c, d, "its directory is gone");
		else if (d->row.used + DERIVED_KEPT_MS < now && !derived_is_used(c->g, d->row.path))
			add_derived(c, d, "not used for 30 days");
	}
	struct derived **over = budget_victims(c->g, c->g->budget);
	auto_free char *why = xasprintf("over the disk budget of %llu MiB, and least recently used", (unsigned long long)(c->g->budget >> 20));
	for (struct derived **d = over; *d; d++)
		add_derived(c, *d, why);
	free(over);
}

static void look_rows(struct gc *c)
{
	for (struct box *b = c->g->boxes; b; b = b->next)
		if (!b->cell && !b->holder && !fs_exists(c->g->sandboxes, b->row.id))
			add(c, HOW_ROW, b->row.id, "its directory is gone");
}

static void drop_row(struct gc *c, size_t i)
{
	struct err e;
	struct box *b = box_by_id(c->g, c->path[i]);
	if (!b || b->holder || b->cell || fault(FAULT_GC_ROW, &e) || store_sandbox_drop(c->g->store, b->row.id, &e))
		return;
	engine_wrote(c->g);
	box_drop(b);
	c->items[i].done = true;
}

static void drop_snapshot(struct gc *c, size_t i)
{
	struct err e;
	for (struct snap *n = c->g->snaps; n; n = n->next)
		if (!strcmp(n->row.id, c->path[i])) {
			c->items[i].done = !fault(FAULT_GC_SNAPSHOT, &e) && !snap_drop(c->g, n, &e);
			return;
		}
}

static bool drop_derived(struct gc *c, size_t i)
{
	struct err e;
	for (struct derived *d = c->g->derived; d; d = d->next)
		if (!strcmp(d->row.path, c->path[i])) {
			char *aside = fault(FAULT_GC_DERIVED, &e) ? NULL : derived_take(c->g, d);
			if (!aside)
				return false;
			free(c->path[i]);
			c->path[i] = aside;
			return true;
		}
	return false;
}

static bool drop_file(struct gc *c, size_t i)
{
	struct err e;
	return !fault(FAULT_GC_FILE, &e) && !unlinkat(c->g->home_fd, c->path[i], 0);
}

static void finish(struct gc *c, const struct err *e)
{
	c->done.fn(c->done.ctx, e, c->items, c->n);
	gc_free(c);
}

static void on_removed(void *ctx, const struct err *e)
{
	struct gc *c = ctx;
	struct err se;
	if (!e && fault(FAULT_GC_REMOVED, &se))
		e = &se;
	for (size_t i = 0; i < c->n; i++) {
		if (c->how[i] != HOW_TREE && c->how[i] != HOW_DERIVED)
			continue;
		c->items[i].done = !fs_exists(c->g->home_fd, c->path[i]);
		const char *name = strchr(c->path[i], '/') + 1;
		if (c->items[i].done && str_has_prefix(c->path[i], "journals/") && store_gone_drop(c->g->store, name, &se))
			e = &se;
	}
	sizes_sweep(c->g);
	size_everything(c->g);
	engine_wrote(c->g);
	finish(c, e);
}

// One item that is no directory, or that something knows the directory of. True: the directory may go.
static bool forget(struct gc *c, size_t i)
{
	switch (c->how[i]) {
	case HOW_LEFT:
		break;
	case HOW_TREE:
		return true;
	case HOW_DERIVED:
		return drop_derived(c, i);
	case HOW_FILE:
		c->items[i].done = drop_file(c, i);
		break;
	case HOW_ROW:
		drop_row(c, i);
		break;
	case HOW_SNAPSHOT:
		drop_snapshot(c, i);
		break;
	}
	return false;
}

static void clean(struct gc *c)
{
	char **trees = NULL;
	struct err e;
	for (size_t i = 0; i < c->n; i++)
		if (forget(c, i))
			strv_add(&trees, c->path[i]);
	// Nothing that is half removed may be named by a row when somebody looks again.
	if (trees && (fault(FAULT_GC_STORE, &e) || !engine_flush(c->g))) {
		err_set(&e, ERR_SYSTEM, "state.db could not be written: no directory was removed; try again");
		on_removed(c, &e);
	} else if (trees) {
		c->g->backend->ops->remove(c->g->backend, trees, (struct reply){on_removed, c});
	} else {
		on_removed(c, NULL);
	}
	strv_free(trees);
}

void engine_gc(struct engine *g, bool dry_run, struct gc_done d)
{
	struct err e;
	if (budget_read(g, &e) || fault(FAULT_GC_LOOK, &e)) {
		d.fn(d.ctx, &e, NULL, 0);
		return;
	}
	struct gc *c = xcalloc(1, sizeof *c);
	c->g = g;
	c->done = d;
	look_snapshots(c);
	look_derived(c);
	look_rows(c);
	each_name(g->layers, c, look_layer);
	each_name(g->sandboxes, c, look_sandbox);
	each_name(g->images, c, look_image);
	each_name(g->cells, c, look_socket);
	each_name(g->journals, c, look_journal);
	look_dir(c, "trees");
	look_dir(c, "repos");
	look_pulls(c, dry_run);
	look_volumes(c);
	for (struct box *b = g->boxes; b && !dry_run; b = b->next)
		b->expired = false; // those that were kept may be clean by now
	expiry_arm(g);
	if (dry_run)
		finish(c, NULL);
	else
		clean(c);
}

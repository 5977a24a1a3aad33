// SPDX-License-Identifier: Apache-2.0
#include "init/layer.h"

#include "base/fault.h"
#include "base/fs.h"
#include "base/mem.h"
#include "init/layer_int.h"
#include "init/names.h"
#include "init/stack.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#define SYNC_EACH 1000 // files; past that the whole file system is told once

const char *const layer_parts[] = {"ws", "home", "root", NULL};

// --- every entry of a layer, for sizes and syncing ---

struct look {
	int (*fn)(struct look *l, int dir, const char *name, const struct stat *st, struct err *e); // dir itself: name "."
	struct layer_result *r;
	struct seen_map links;
};

static int look_dir(struct look *l, int dir, const char *name, int depth, struct err *e)
{
	struct stat st;
	auto_names struct names n = {0};
	if (depth > LAYER_DEPTH)
		return err_set(e, ERR_LIMIT, "more than %d directories below each other", LAYER_DEPTH);
	auto_fd int fd = entry_open_dir(dir, name, e);
	if (fd < 0 || names_read(&n, fd, 0, SIZE_MAX))
		return fd < 0 ? -1 : err_sys(e, "list %s", name);
	for (size_t i = 0; i < n.n; i++) {
		if (fstatat(fd, n.list[i].name, &st, AT_SYMLINK_NOFOLLOW)) {
			if (errno == ENOENT)
				continue; // of a live layer
			return err_sys(e, "%s", n.list[i].name);
		}
		if (S_ISDIR(st.st_mode) ? look_dir(l, fd, n.list[i].name, depth + 1, e) : l->fn(l, fd, n.list[i].name, &st, e)) {
			if (e->sys == ENOENT)
				continue;
			return -1;
		}
	}
	return fstat(fd, &st) ? err_sys(e, "%s", name) : l->fn(l, fd, ".", &st, e);
}

static int look_all(struct look *l, int layer, struct err *e)
{
	struct stat st;
	int rc = 0;
	for (const char *const *part = layer_parts; *part && !rc; part++)
		if (!fstatat(layer, *part, &st, AT_SYMLINK_NOFOLLOW))
			rc = look_dir(l, layer, *part, 0, e);
	seen_done(&l->links);
	return rc;
}

static int add_size(struct look *l, int dir, const char *name, const struct stat *st, struct err *e)
{
	(void)e;
	if (!S_ISDIR(st->st_mode)) {
		size_t before = l->links.n;
		if (stack_is_whiteout(dir, name, st))
			return 0;
		if (st->st_nlink > 1)
			seen_add(&l->links, st->st_ino);
		if (st->st_nlink > 1 && l->links.n == before)
			return 0;
		l->r->files++;
	}
	l->r->bytes += (uint64_t)st->st_blocks * 512;
	return 0;
}

static int size_of(int layer, struct layer_result *r, struct err *e)
{
	return look_all(&(struct look){.fn = add_size, .r = r}, layer, e);
}

// --- to the disk ---

static int sync_entry(struct look *l, int dir, const char *name, const struct stat *st, struct err *e)
{
	(void)l;
	if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
		return 0; // is in its directory
	auto_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 || fsync(fd) ? err_sys(e, "sync %s", name) : 0;
}

static int start_entry(struct look *l, int dir, const char *name, const struct stat *st, struct err *e)
{
	(void)l;
	(void)e;
	auto_fd int fd = S_ISREG(st->st_mode) ? openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK) : -1;
	if (fd >= 0)
		sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); // only so that the disk has work
	return 0;
}

static int sync_tree(int layer, const struct layer_result *size, struct err *e)
{
	if (size->files > SYNC_EACH)
		return syncfs(layer) ? err_sys(e, "sync the file system of the layers") : 0;
	return look_all(&(struct look){.fn = start_entry}, layer, e) || look_all(&(struct look){.fn = sync_entry}, layer, e) ? -1 : 0;
}

// Overlay's scratch directories, with the marks that say a volatile mount was not ended in order: it was, by us.
static int clear_scratch(int layer, struct err *e)
{
	return fault(FAULT_LAYER_CLEAR, e) ? -1 : fs_remove_tree(layer, "work", e);
}

static int do_sync(int layers, int layer, bool sealed, struct layer_result *r, struct err *e)
{
	if (size_of(layer, r, e) || fault(FAULT_LAYER_SYNC, e) || sync_tree(layer, r, e))
		return -1;
	if (sealed && clear_scratch(layer, e))
		return -1;
	auto_fd int manifest = openat(layer, "manifest", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if ((manifest >= 0 && fsync(manifest)) || fsync(layer) || fsync(layers))
		return err_sys(e, "sync the layer");
	return 0;
}

// --- making ---

// Empty, and locked by us until we are gone.
static int open_partial(int layers, const char *name, struct err *e)
{
	if (fs_remove_tree(layers, name, e))
		return -1;
	if (mkdirat(layers, name, 0700))
		return err_sys(e, "make %s", name);
	auto_fd int fd = entry_open_dir(layers, name, e);
	if (fd < 0)
		return -1;
	return flock(fd, LOCK_EX | LOCK_NB) ? err_sys(e, "lock %s", name) : take_fd(&fd);
}

static int merge(const struct layer_op *op, const int *from, int n, int to, struct layer_result *r, struct err *e)
{
	int below[LIMIT_LAYERS], n_below = 0, rc = 0;
	auto_fd int base = op->base ? fs_open(AT_FDCWD, op->base, O_RDONLY | O_DIRECTORY, 0, e) : -1;
	bool gone = op->base && base < 0;
	for (; op->below && op->below[n_below] && n_below < LIMIT_LAYERS && !rc; n_below++) {
		below[n_below] = fs_open(AT_FDCWD, op->below[n_below], O_RDONLY | O_DIRECTORY, 0, e);
		rc = below[n_below] < 0 ? -1 : 0;
	}
	if (!rc)
		rc = layer_merge(from, n, below, n_below, gone ? LAYER_BASE_GONE : base, to, r, e);
	while (n_below--)
		close_fd(&below[n_below]);
	return rc;
}

static int fill(int layers, const struct layer_op *op, int to, struct layer_result *r, struct err *e)
{
	int from[LIMIT_LAYERS], n = 0, rc = 0;
	auto_fd int like = op->like ? openat(layers, op->like, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	for (; op->from[n] && !rc; n++) {
		from[n] = entry_open_dir(layers, op->from[n], e);
		rc = from[n] < 0 ? -1 : 0;
	}
	if (!rc)
		rc = op->verb == LAYER_COPY ? layer_copy(from[0], to, like, r, e) : merge(op, from, n, to, r, e);
	struct stat st;
	if (!rc && (fstat(from[0], &st) || fchmod(to, st.st_mode & 0777)))
		rc = err_sys(e, "layer %s", op->to);
	while (n--)
		close_fd(&from[n]);
	return rc;
}

static int make(int layers, const struct layer_op *op, struct layer_result *r, struct err *e)
{
	struct err ignored;
	auto_free char *partial = xasprintf("%s" LAYER_PARTIAL, op->to);
	if (fault(FAULT_LAYER_BEGIN, e))
		return -1;
	auto_fd int to = open_partial(layers, partial, e);
	if (to < 0)
		return -1;
	if (!fill(layers, op, to, r, e) && !fault(FAULT_LAYER_RENAME, e)) {
		if (!renameat(layers, partial, layers, op->to))
			return fault(FAULT_LAYER_DONE, e) ? -1 : 0;
		err_sys(e, "name the layer %s", op->to);
	}
	if (fs_remove_tree(layers, partial, &ignored))
		return -1; // the next nursery does
	return -1;
}

static void want_descriptors(void)
{
	struct rlimit l;
	if (!getrlimit(RLIMIT_NOFILE, &l) && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l); // deep trees need them; without, they are refused
	}
}

int layer_do(int layers, const struct layer_op *op, struct layer_result *out, struct err *e)
{
	bool makes = op->verb == LAYER_COPY || op->verb == LAYER_MERGE;
	struct layer_result r = {0};
	want_descriptors();
	umask(0);
	int rc;
	if (makes && !fs_exists(layers, op->to)) {
		rc = make(layers, op, &r, e);
	} else {
		const char *name = makes ? op->to : op->from[0]; // made before, and nobody heard of it
		auto_fd int layer = entry_open_dir(layers, name, e);
		rc = layer < 0 || (op->verb == LAYER_TRIM && layer_trim(layer, op->base, e)) ? -1 : op->verb == LAYER_SYNC ? do_sync(layers, layer, op->sealed, &r, e) : size_of(layer, &r, e);
	}
	if (rc)
		return err_wrap(e, "layer %s", makes ? op->to : op->from[0]);
	*out = r;
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
// What a cell stands on and writes to: its layer's own directories, the base and the sealed layers below, what is hidden of the
// base. Each is a step of the list in contain.c, while the host's file tree is still there.
#include "isolate/contain_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include "isolate/hide.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int contain_staged(const struct contain *c, const char *name, struct err *e)
{
	auto_free char *path = xasprintf("%s/stage/%s", c->host->template, name);
	return fs_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, e);
}

// The writable layer's own directories: made on the first start, and the overlay's scratch directories made anew
// on every start, for a `volatile` one refuses to be used twice.
int contain_ready_part(int layer, const char *part, struct err *e)
{
	auto_free char *work = xstrdup(part);
	for (char *p = work; *p; p++)
		if (*p == '/')
			*p = '-';
	auto_fd int w = fs_mkdirs(layer, "work", 0700, e) ? -1 : fs_open(layer, "work", O_RDONLY | O_DIRECTORY, 0, e);
	if (w < 0 || fs_remove_tree(w, work, e) || fs_mkdirs(w, work, 0700, e) || fs_mkdirs(layer, part, 0755, e))
		return err_wrap(e, "writable layer");
	return 0;
}

// The top of an overlay is its upper directory: it must belong to the user and look like what it covers.
int contain_own_top(const struct contain *c, struct err *e)
{
	struct stat st;
	int below = c->base;
	for (int i = c->n_lowers; i--;)
		below = c->lowers[i] >= 0 ? c->lowers[i] : below;
	mode_t mode = below >= 0 && !fstat(below, &st) ? st.st_mode & 0777 : 0755;
	// Above it only the walk comes through, as the cell's user; the layer's parents are closed to everybody else.
	if (fchmod(c->layer, 0755) || fchownat(c->layer, "ws", c->uid, c->gid, 0) || fchmodat(c->layer, "ws", mode | 0700, 0))
		return err_sys(e, "writable layer");
	return 0;
}

int contain_ready_layer(const struct contain *c, const struct plan *p, struct err *e)
{
	for (size_t i = 0; i < p->n; i++) {
		const char *at = p->ops[i].kind == MOUNT_OVERLAY ? strstr(p->ops[i].data, "upperdir=l/") : NULL;
		if (!at)
			continue;
		at += strlen("upperdir=l/");
		auto_free char *part = xstrndup(at, strcspn(at, ","));
		if (contain_ready_part(c->layer, part, e))
			return -1;
	}
	if (fchownat(c->layer, "home", c->uid, c->gid, 0) || fchmodat(c->layer, "home", 0755, 0))
		return err_sys(e, "writable layer");
	if (c->keep_tmp && fchmodat(c->layer, ROOTFS_TMP, 01777, 0))
		return err_sys(e, "writable layer");
	return 0;
}

// What an earlier cell left in its home is kept in a sealed layer. Those of the base hold nothing that is pending.
static int open_home_part(const struct contain *c, const struct cell_spec *s, int i, struct err *e)
{
	auto_free char *name = xasprintf("k%d/home", i);
	if ((size_t)i + s->n_base_lowers >= strv_len(s->lowers))
		return -1;
	return contain_staged(c, name, e);
}

int contain_open_base(struct contain *c, const struct cell_spec *s, struct err *e)
{
	c->base = s->base ? contain_staged(c, "b", e) : -1;
	if (s->base && c->base < 0)
		return -1;
	for (c->n_lowers = 0; s->lowers && s->lowers[c->n_lowers] && c->n_lowers < LIMIT_LAYERS; c->n_lowers++) {
		auto_free char *name = xasprintf("k%d/ws", c->n_lowers);
		c->lowers[c->n_lowers] = contain_staged(c, name, e);
		if (c->lowers[c->n_lowers] < 0 && e->sys != ENOENT)
			return -1;
		c->homes[c->n_lowers] = open_home_part(c, s, c->n_lowers, e);
	}
	return 0;
}

// On the stage's own tmpfs: it goes with the cell.
int contain_hide_base(const struct contain *c, const struct cell_spec *s, struct err *e)
{
	auto_free char *path = xasprintf("%s/stage/" ROOTFS_HIDE, c->host->template);
	if (c->base < 0 || !s->hide)
		return 0;
	if (fs_mkdirs(AT_FDCWD, path, 0755, e))
		return -1;
	auto_fd int into = fs_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, e);
	return into < 0 ? -1 : hide_build(c->base, into, s->hide, e);
}

// The directories below home that caches are mounted on, each with those above it, as a lower of home: an upper that has
// them would no longer tell that nobody wrote to it.
int contain_make_points(const struct contain *c, const struct cell_spec *s, struct err *e)
{
	auto_free char *path = xasprintf("%s/stage/" ROOTFS_POINTS, c->host->template);
	if (!rootfs_has_caches(s))
		return 0;
	if (fs_mkdirs(AT_FDCWD, path, 0755, e))
		return -1;
	auto_fd int top = fs_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, e);
	size_t home = strlen(s->home ? s->home : "/home/skep");
	for (uint32_t i = 0; i < s->n_mounts && top >= 0; i++) {
		auto_free char *dir = s->mounts[i].cache ? xstrdup(s->mounts[i].dst + home + 1) : NULL;
		if (dir && fs_mkdirs(top, dir, 0755, e))
			return -1;
		for (char *slash = dir ? dir + strlen(dir) : NULL; slash; slash = strrchr(dir, '/')) {
			*slash = 0;
			if (*dir && fchownat(top, dir, c->uid, c->gid, 0))
				return err_sys(e, "%s", dir);
		}
	}
	return top < 0 ? -1 : 0;
}

int contain_ready_caches(const struct contain *c, const struct cell_spec *s, struct err *e)
{
	for (uint32_t i = 0; i < s->n_mounts; i++) {
		auto_free char *part = s->mounts[i].cache ? rootfs_cache_part(s->mounts[i].dst) : NULL;
		if (part && (contain_ready_part(c->layer, part, e) || fchownat(c->layer, part, c->uid, c->gid, 0)))
			return err_wrap(e, "package cache");
	}
	return 0;
}

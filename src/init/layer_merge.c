// SPDX-License-Identifier: Apache-2.0
// Several layers as one that shows the same over whatever is below them: the newest of each name; whiteouts stay, and a
// directory becomes opaque where one of the layers cut it off; whiteouts go where nothing is below. Files are shared by hard links, for sealed layers never change.
#include "base/fault.h"
#include "base/mem.h"
#include "init/layer_int.h"
#include "init/names.h"
#include "init/stack.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

struct merge {
	struct layer_result *r;
	struct seen_map links;
	const int *below; // layers
	int n_below, base;
};

// One directory in the layers that show it, newest first.
struct chain {
	int fd[LIMIT_LAYERS];
	int n;
	bool closed; // what is below the last one is not seen through it
};

// The same directory in what lies below the merged layers.
struct under {
	struct chain dirs;
	bool unknown; // the system's own directories: taken to be there
};

static void chain_close(struct chain *c)
{
	while (c->n)
		close(c->fd[--c->n]);
}

static void count(struct merge *m, const struct stat *st)
{
	if (st->st_nlink > 1) {
		size_t before = m->links.n;
		seen_add(&m->links, st->st_ino);
		if (m->links.n == before)
			return;
	}
	m->r->bytes += (uint64_t)st->st_blocks * 512;
	m->r->files++;
}

static int merge_whiteout(int from, const char *name, const struct stat *st, int to, struct err *e)
{
	if (S_ISCHR(st->st_mode) && !linkat(from, name, to, name, 0))
		return 0;
	// The other form counts only in directories marked for it: made the plain one.
	return mknodat(to, name, S_IFCHR, makedev(0, 0)) ? err_sys(e, "whiteout %s", name) : 0;
}

static int merge_file(struct merge *m, int from, const char *name, const struct stat *st, int to, struct err *e)
{
	if (fault(FAULT_LAYER_ENTRY, e))
		return -1;
	bool linked = !linkat(from, name, to, name, 0);
	if (!linked && entry_copy(from, name, st, to, e)) // too many links already
		return -1;
	count(m, st);
	m->r->shared += linked;
	return 0;
}

// The directories of that name in the layers from `at` on.
static int open_chain(const struct chain *in, const struct names *n, size_t at, struct chain *out, struct err *e)
{
	const char *name = n->list[at].name;
	*out = (struct chain){0};
	for (; at < n->n && !strcmp(n->list[at].name, name) && !out->closed; at++) {
		struct stat st;
		int dir = in->fd[n->list[at].level];
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
			return err_sys(e, "%s", name);
		if (!S_ISDIR(st.st_mode)) { // a whiteout, or something a directory replaced
			out->closed = true;
			break;
		}
		int fd = entry_open_dir(dir, name, e);
		if (fd < 0)
			return -1;
		out->fd[out->n++] = fd;
		out->closed = stack_is_opaque(fd);
	}
	return 0;
}

static void under_add(struct under *u, int dir, const char *name)
{
	struct stat st;
	if (u->dirs.closed || u->dirs.n >= LIMIT_LAYERS || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return;
	int fd = S_ISDIR(st.st_mode) ? openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (fd >= 0)
		u->dirs.fd[u->dirs.n++] = fd;
	u->dirs.closed = fd < 0 || stack_is_opaque(fd);
	u->unknown |= S_ISDIR(st.st_mode) && fd < 0; // may be there, can not be looked at
}

static void under_open(const struct under *in, const char *name, struct under *out)
{
	*out = (struct under){.unknown = in->unknown};
	for (int i = 0; i < in->dirs.n && !out->unknown; i++)
		under_add(out, in->dirs.fd[i], name);
}

static int merge_entries(struct merge *m, const struct chain *in, const struct under *u, bool alone, int to, int depth, struct err *e);

// alone: nothing below the merged layers shows through here anyway.
static int merge_chain(struct merge *m, const struct chain *in, const struct under *u, const char *name, bool alone, int to, int depth,
		       struct err *e)
{
	struct stat st;
	if (depth > LAYER_DEPTH)
		return err_set(e, ERR_LIMIT, "more than %d directories below each other can not be merged", LAYER_DEPTH);
	if (mkdirat(to, name, 0700))
		return err_sys(e, "make %s", name);
	auto_fd int out = entry_open_dir(to, name, e);
	bool bare = !u->unknown && !u->dirs.n;
	if (out < 0 || merge_entries(m, in, u, alone || in->closed || bare, out, depth, e))
		return -1;
	if (in->closed && !alone && fsetxattr(out, "user.overlay.opaque", "y", 1, 0))
		return err_sys(e, "mark %s", name);
	if (!fstat(out, &st))
		m->r->bytes += (uint64_t)st.st_blocks * 512;
	return entry_finish_dir(in->fd[0], out, false, e);
}

static int merge_name(struct merge *m, const struct chain *in, const struct under *u, const struct names *n, size_t at, bool alone, int to,
		      int depth, struct err *e)
{
	struct stat st;
	const char *name = n->list[at].name;
	int dir = in->fd[n->list[at].level];
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return err_sys(e, "%s", name);
	if (stack_is_whiteout(dir, name, &st))
		return alone ? 0 : merge_whiteout(dir, name, &st, to, e);
	if (!S_ISDIR(st.st_mode))
		return merge_file(m, dir, name, &st, to, e);
	struct chain sub;
	struct under below;
	under_open(u, name, &below);
	int rc = open_chain(in, n, at, &sub, e) || merge_chain(m, &sub, &below, name, alone, to, depth + 1, e) ? -1 : 0;
	chain_close(&sub);
	chain_close(&below.dirs);
	return rc;
}

static int merge_entries(struct merge *m, const struct chain *in, const struct under *u, bool alone, int to, int depth, struct err *e)
{
	auto_names struct names n = {0};
	for (int i = 0; i < in->n; i++)
		if (names_read(&n, in->fd[i], i, SIZE_MAX))
			return err_sys(e, "list a directory");
	names_sort(&n);
	for (size_t i = 0; i < n.n; i++)
		if ((!i || strcmp(n.list[i].name, n.list[i - 1].name)) && merge_name(m, in, u, &n, i, alone, to, depth, e))
			return -1;
	return 0;
}

static int merge_part(struct merge *m, const int *from, int n, const char *part, int to, struct err *e)
{
	struct chain c = {0};
	struct under u = {.unknown = !strcmp(part, "root")};
	int rc = 0;
	for (int i = 0; i < m->n_below; i++)
		under_add(&u, m->below[i], part);
	if (!strcmp(part, "ws") && m->base >= 0)
		under_add(&u, m->base, ".");
	else if (!strcmp(part, "ws"))
		u.unknown |= m->base == LAYER_BASE_GONE;
	for (int i = 0; i < n && !rc && !c.closed; i++) {
		int fd = openat(from[i], part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0) {
			rc = errno == ENOENT ? 0 : err_sys(e, "open %s", part);
			continue;
		}
		c.fd[c.n++] = fd;
		c.closed = stack_is_opaque(fd);
	}
	if (!rc && c.n)
		rc = merge_chain(m, &c, &u, part, false, to, 0, e);
	chain_close(&c);
	chain_close(&u.dirs);
	return rc ? err_wrap(e, "%s", part) : 0;
}

int layer_merge(const int *from, int n, const int *below, int n_below, int base, int to, struct layer_result *r, struct err *e)
{
	struct merge m = {.r = r, .below = below, .n_below = n_below, .base = base};
	int rc = 0;
	for (const char *const *part = layer_parts; *part && !rc; part++)
		rc = merge_part(&m, from, n, *part, to, e);
	seen_done(&m.links);
	return rc;
}

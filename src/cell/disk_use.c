// SPDX-License-Identifier: Apache-2.0
#include "cell/disk_use.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

// --- with a name ---

static void add_tree(int dir, const char *name, struct disk_use *u, int depth)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return;
	u->bytes += (uint64_t)st.st_blocks * 512;
	u->files++;
	if (!S_ISDIR(st.st_mode))
		return;
	int fd = depth > DISK_DEPTH ? -1 : openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	u->too_deep |= !d && (depth > DISK_DEPTH || errno == EMFILE || errno == ENFILE);
	while (d && (ent = readdir(d)))
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, ".."))
			add_tree(fd, ent->d_name, u, depth + 1);
	if (d)
		closedir(d);
}

// --- without one ---

struct unnamed {
	dev_t dev;
	ino_t ino;
	uint64_t bytes;
};

struct list {
	struct unnamed *v;
	size_t n, cap;
};

static void note(struct list *l, const struct stat *st)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 64;
		l->v = xrealloc(l->v, l->cap * sizeof *l->v);
	}
	l->v[l->n++] = (struct unnamed){st->st_dev, st->st_ino, (uint64_t)st->st_blocks * 512};
}

// What is in memory (a memfd, /tmp) is counted there.
static bool is_on_disk(pid_t pid, const char *fd)
{
	char path[64];
	struct statfs fs;
	return !fmt_to(path, sizeof path, "/proc/%d/fd/%s", (int)pid, fd) && !statfs(path, &fs) && fs.f_type != TMPFS_MAGIC &&
	       fs.f_type != HUGETLBFS_MAGIC;
}

static void look_at_files(pid_t pid, struct list *l)
{
	char path[32];
	struct stat st;
	struct dirent *ent;
	DIR *d = fmt_to(path, sizeof path, "/proc/%d/fd", (int)pid) ? NULL : opendir(path);
	while (d && (ent = readdir(d)))
		if (!fstatat(dirfd(d), ent->d_name, &st, 0) && S_ISREG(st.st_mode) && !st.st_nlink && st.st_blocks && is_on_disk(pid, ent->d_name))
			note(l, &st);
	if (d)
		closedir(d);
}

struct family {
	pid_t *v;
	size_t n, cap;
};

static void join(struct family *f, pid_t pid)
{
	if (f->n == f->cap) {
		f->cap = f->cap ? f->cap * 2 : 64;
		f->v = xrealloc(f->v, f->cap * sizeof *f->v);
	}
	f->v[f->n++] = pid;
}

static void join_children(struct family *f, pid_t pid, const char *task)
{
	auto_free char *path = xasprintf("/proc/%d/task/%s/children", (int)pid, task);
	auto_buf struct buf b = BUF_INIT(1 << 20);
	struct err e;
	uint64_t child;
	if (fs_read(AT_FDCWD, path, &b, &e))
		return;
	struct str rest = str_of(buf_cstr(&b)), one;
	while (str_next(&rest, ' ', &one))
		if (!str_to_u64(one, 1, INT32_MAX, &child))
			join(f, (pid_t)child);
}

// Everything in a cell descends from its first process, also in namespaces of its own.
static void look_at_all(pid_t init, struct list *l)
{
	struct family f = {0};
	join(&f, init);
	for (size_t i = 0; i < f.n; i++) { // it grows meanwhile
		char path[32];
		struct dirent *ent;
		look_at_files(f.v[i], l);
		DIR *d = fmt_to(path, sizeof path, "/proc/%d/task", (int)f.v[i]) ? NULL : opendir(path);
		while (d && (ent = readdir(d)))
			if (ent->d_name[0] != '.')
				join_children(&f, f.v[i], ent->d_name);
		if (d)
			closedir(d);
	}
	free(f.v);
}

static int by_inode(const void *a, const void *b)
{
	const struct unnamed *x = a, *y = b;
	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

static void add_unnamed(pid_t init, struct disk_use *u)
{
	struct list l = {0};
	look_at_all(init, &l);
	if (l.n)
		qsort(l.v, l.n, sizeof *l.v, by_inode);
	for (size_t i = 0; i < l.n; i++)
		if (!i || by_inode(&l.v[i - 1], &l.v[i])) { // one that many have open is one
			u->bytes += l.v[i].bytes;
			u->files++;
		}
	free(l.v);
}

void disk_use_count(const char *layer, pid_t init, struct disk_use *out)
{
	struct rlimit r;
	*out = (struct disk_use){0};
	if (!getrlimit(RLIMIT_NOFILE, &r) && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r); // one for each level; without, what is deeper counts as too deep
	}
	add_tree(AT_FDCWD, layer, out, 0);
	add_unnamed(init, out);
}

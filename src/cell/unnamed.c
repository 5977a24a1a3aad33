// SPDX-License-Identifier: Apache-2.0
#include "cell/unnamed.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

struct file {
	dev_t dev;
	ino_t ino;
	uint64_t bytes;
	bool in_memory;
};

struct list {
	struct file *v;
	size_t n, cap;
};

static void note(struct list *l, const struct stat *st, bool in_memory)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 64;
		l->v = xrealloc(l->v, l->cap * sizeof *l->v);
	}
	l->v[l->n++] = (struct file){st->st_dev, st->st_ino, (uint64_t)st->st_blocks * 512, in_memory};
}

static bool is_in_memory(pid_t pid, const char *fd)
{
	char path[64];
	struct statfs fs;
	return fmt_to(path, sizeof path, "/proc/%d/fd/%s", (int)pid, fd) || statfs(path, &fs) || fs.f_type == TMPFS_MAGIC ||
	       fs.f_type == HUGETLBFS_MAGIC;
}

// How many bytes in memory this one holds.
static uint64_t look_at_files(pid_t pid, struct list *l)
{
	char path[32];
	uint64_t held = 0;
	struct stat st;
	struct dirent *ent;
	DIR *d = fmt_to(path, sizeof path, "/proc/%d/fd", (int)pid) ? NULL : opendir(path);
	while (d && (ent = readdir(d))) {
		if (fstatat(dirfd(d), ent->d_name, &st, 0) || !S_ISREG(st.st_mode) || st.st_nlink || !st.st_blocks)
			continue;
		bool in_memory = is_in_memory(pid, ent->d_name);
		note(l, &st, in_memory);
		held += in_memory ? (uint64_t)st.st_blocks * 512 : 0;
	}
	if (d)
		closedir(d);
	return held;
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
static void look_at_all(pid_t init, struct list *l, struct unnamed *out)
{
	struct family f = {0};
	uint64_t most = 0;
	join(&f, init);
	for (size_t i = 0; i < f.n; i++) { // it grows meanwhile
		char path[32];
		struct dirent *ent;
		uint64_t held = look_at_files(f.v[i], l);
		if (held > most) {
			most = held;
			out->holder = f.v[i];
		}
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
	const struct file *x = a, *y = b;
	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

void unnamed_count(pid_t init, struct unnamed *out)
{
	struct list l = {0};
	*out = (struct unnamed){0};
	look_at_all(init, &l, out);
	if (l.n)
		qsort(l.v, l.n, sizeof *l.v, by_inode);
	for (size_t i = 0; i < l.n; i++) {
		if (i && !by_inode(&l.v[i - 1], &l.v[i]))
			continue; // one that many have open is one
		if (l.v[i].in_memory) {
			out->memory += l.v[i].bytes;
		} else {
			out->disk += l.v[i].bytes;
			out->disk_files++;
		}
	}
	free(l.v);
}

// SPDX-License-Identifier: Apache-2.0
#include "cell/unnamed.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "cell/socket_use.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL // Linux 6.9
#endif

struct file {
	dev_t dev;
	ino_t ino;
	uint64_t bytes;
	bool in_memory;
};

struct list {
	struct file *v;
	size_t n, cap;
	struct socket_use sockets;
};

static void note(struct list *l, const struct stat *st, bool in_memory)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 64;
		l->v = xrealloc(l->v, l->cap * sizeof *l->v);
	}
	l->v[l->n++] = (struct file){st->st_dev, st->st_ino, (uint64_t)st->st_blocks * 512, in_memory};
}

// How many bytes in memory it holds.
static uint64_t look_at(const struct stat *st, bool known, const struct statfs *fs, struct list *l)
{
	if (S_ISSOCK(st->st_mode))
		return socket_use_of(&l->sockets, st->st_ino);
	if (!S_ISREG(st->st_mode) || st->st_nlink || !st->st_blocks)
		return 0;
	bool in_memory = !known || fs->f_type == TMPFS_MAGIC || fs->f_type == HUGETLBFS_MAGIC;
	note(l, st, in_memory);
	return in_memory ? (uint64_t)st->st_blocks * 512 : 0;
}

static uint64_t look_by_name(DIR *d, const char *path, struct list *l)
{
	uint64_t held = 0;
	struct stat st;
	struct statfs fs;
	struct dirent *ent;
	while ((ent = readdir(d))) {
		if (fstatat(dirfd(d), ent->d_name, &st, 0))
			continue;
		if (S_ISSOCK(st.st_mode))
			held += socket_use_of(&l->sockets, st.st_ino);
		if (!S_ISREG(st.st_mode) || st.st_nlink)
			continue;
		auto_free char *file = xasprintf("%s/%s", path, ent->d_name);
		held += look_at(&st, !statfs(file, &fs), &fs, l);
	}
	return held;
}

static uint64_t count_slots(const char *task)
{
	auto_free char *path = xasprintf("/proc/%s/status", task);
	auto_buf struct buf b = BUF_INIT(16384);
	struct err e;
	uint64_t n = 0;
	if (fs_read(AT_FDCWD, path, &b, &e))
		return 0;
	const char *at = strstr(buf_cstr(&b), "\nFDSize:\t");
	at = at ? at + strlen("\nFDSize:\t") : "";
	return str_to_u64((struct str){at, strspn(at, "0123456789")}, 0, INT32_MAX, &n) ? 0 : n;
}

// Of one that made itself unreadable (PR_SET_DUMPABLE) the directory belongs to the host's root; its descriptors can be had
// one by one all the same.
static uint64_t look_by_number(const char *task, struct list *l)
{
	uint64_t held = 0, id, n = count_slots(task);
	if (str_to_u64(str_of(task), 1, INT32_MAX, &id))
		return 0;
	auto_fd int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)id, PIDFD_THREAD);
	if (pidfd < 0 && errno == EINVAL) // before Linux 6.9: of a whole process only
		pidfd = (int)syscall(SYS_pidfd_open, (pid_t)id, 0);
	for (uint64_t i = 0; pidfd >= 0 && i < n; i++) {
		auto_fd int fd = (int)syscall(SYS_pidfd_getfd, pidfd, (int)i, 0);
		struct stat st;
		struct statfs fs;
		if (fd >= 0 && !fstat(fd, &st))
			held += look_at(&st, !fstatfs(fd, &fs), &fs, l);
	}
	return held;
}

static uint64_t look_at_files(pid_t pid, const char *task, struct list *l)
{
	auto_free char *path = xasprintf("/proc/%d/task/%s/fd", (int)pid, task);
	DIR *d = opendir(path);
	if (!d)
		return errno == EACCES ? look_by_number(task, l) : 0;
	uint64_t held = look_by_name(d, path, l);
	closedir(d);
	return held;
}

// A thread may have descriptors of its own (clone without CLONE_FILES), and outlive the first one's.
static bool shares_files(pid_t pid, const char *task)
{
	uint64_t id;
	return !str_to_u64(str_of(task), 1, INT32_MAX, &id) && (pid_t)id != pid && !syscall(SYS_kcmp, pid, (pid_t)id, KCMP_FILES, 0, 0);
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
		uint64_t held = 0;
		DIR *d = fmt_to(path, sizeof path, "/proc/%d/task", (int)f.v[i]) ? NULL : opendir(path);
		while (d && (ent = readdir(d))) {
			if (ent->d_name[0] == '.')
				continue;
			join_children(&f, f.v[i], ent->d_name);
			if (!shares_files(f.v[i], ent->d_name))
				held += look_at_files(f.v[i], ent->d_name, l);
		}
		if (d)
			closedir(d);
		if (held > most) {
			most = held;
			out->holder = f.v[i];
		}
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
	socket_use_read(init, &l.sockets);
	out->memory = l.sockets.bytes;
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
	socket_use_done(&l.sockets);
}

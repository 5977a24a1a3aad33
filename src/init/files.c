// SPDX-License-Identifier: Apache-2.0
#include "init/files.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/pack.h"
#include "base/str.h"
#include "init/collect.h"
#include "init/watch.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int op_kind(char *const *a, struct err *e)
{
	struct stat st;
	const char *kind = "other\n";
	if (fstatat(AT_FDCWD, a[0], &st, AT_SYMLINK_NOFOLLOW)) {
		if (errno != ENOENT && errno != ENOTDIR)
			return err_sys(e, "%s", a[0]);
		kind = "none\n";
	} else if (S_ISDIR(st.st_mode)) {
		kind = "dir\n";
	} else if (S_ISREG(st.st_mode)) {
		kind = "file\n";
	} else if (S_ISLNK(st.st_mode)) {
		kind = "link\n";
	}
	return fs_write_all(1, kind, strlen(kind), e);
}

static int record(int dir, const char *name, const char *shown, struct err *e)
{
	struct stat st;
	char link[4097];
	auto_buf struct buf b = BUF_INIT(16 << 10);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return err_sys(e, "%s", name);
	ssize_t n = S_ISLNK(st.st_mode) ? readlinkat(dir, name, link, sizeof link - 1) : -1;
	link[n > 0 ? n : 0] = 0;
	wire_str(&b, shown);
	wire_u32(&b, st.st_mode);
	wire_u64(&b, (uint64_t)st.st_size);
	wire_u64(&b, (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec);
	wire_u32(&b, st.st_uid);
	wire_u32(&b, st.st_gid);
	wire_str(&b, n > 0 ? link : NULL);
	return fs_write_all(1, b.p, b.n, e);
}

static int op_stat(char *const *a, struct err *e)
{
	return record(AT_FDCWD, a[0], a[0], e);
}

static int op_list(char *const *a, struct err *e)
{
	DIR *d = opendir(a[0]);
	int rc = 0;
	struct dirent *ent;
	if (!d)
		return err_sys(e, "list %s", a[0]);
	while (!rc && (ent = readdir(d)))
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, "..") && record(dirfd(d), ent->d_name, ent->d_name, e))
			rc = e->sys == ENOENT ? 0 : -1; // gone meanwhile
	closedir(d);
	return rc;
}

static int copy_bytes(int in, int out, struct err *e)
{
	static char chunk[256 << 10];
	for (;;) {
		ssize_t n = read(in, chunk, sizeof chunk);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read");
		if (!n)
			return 0;
		if (fs_write_all(out, chunk, (size_t)n, e))
			return -1;
	}
}

static int op_read(char *const *a, struct err *e)
{
	struct stat st;
	auto_fd int fd = fs_open(AT_FDCWD, a[0], O_RDONLY | O_NONBLOCK, 0, e);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "%s is not a regular file", a[0]);
	return copy_bytes(fd, 1, e);
}

static int op_write(char *const *a, struct err *e)
{
	uint64_t mode = 0644;
	if (a[1])
		mode = strtoul(a[1], NULL, 8) & 0777;
	auto_free char *tmp = xasprintf("%s.skep-%d", a[0], (int)getpid());
	auto_fd int fd = fs_open(AT_FDCWD, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, (mode_t)mode, e);
	if (fd < 0)
		return -1;
	if (copy_bytes(0, fd, e) || (rename(tmp, a[0]) && err_sys(e, "rename to %s", a[0]))) {
		unlink(tmp);
		return -1;
	}
	return 0;
}

static int op_mkdir(char *const *a, struct err *e)
{
	return fs_mkdirs(AT_FDCWD, a[0], 0755, e);
}

static int op_remove(char *const *a, struct err *e)
{
	return fs_remove_tree(AT_FDCWD, a[0], e);
}

static int op_rename(char *const *a, struct err *e)
{
	return rename(a[0], a[1]) ? err_sys(e, "rename %s to %s", a[0], a[1]) : 0;
}

static int op_pack(char *const *a, struct err *e)
{
	const char *slash = strrchr(a[0], '/');
	const char *name = slash && slash[1] ? slash + 1 : slash ? "root" : a[0];
	return pack_write(1, AT_FDCWD, a[0], name, e);
}

static int op_unpack(char *const *a, struct err *e)
{
	auto_fd int dir = fs_open(AT_FDCWD, a[0], O_RDONLY | O_DIRECTORY, 0, e);
	return dir < 0 ? -1 : pack_read(0, dir, e);
}

// The stream's root keeps its own name: unpack beside, then give it the wanted one.
static int op_unpack_as(char *const *a, struct err *e)
{
	if (strchr(a[1], '/') || !*a[1] || !strcmp(a[1], ".") || !strcmp(a[1], ".."))
		return err_set(e, ERR_INVALID, "not a file name: %s", a[1]);
	auto_fd int dir = fs_open(AT_FDCWD, a[0], O_RDONLY | O_DIRECTORY, 0, e);
	if (dir < 0)
		return -1;
	auto_free char *tmp = xasprintf(".skep-unpack-%d", (int)getpid());
	if (mkdirat(dir, tmp, 0700))
		return err_sys(e, "unpack into %s", a[0]);
	auto_fd int in = fs_open(dir, tmp, O_RDONLY | O_DIRECTORY, 0, e);
	int rc = in < 0 ? -1 : pack_read(0, in, e);
	if (!rc) {
		int fd = openat(in, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *d = fd < 0 ? NULL : fdopendir(fd);
		struct dirent *ent;
		while (d && (ent = readdir(d)))
			if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, "..") && renameat(in, ent->d_name, dir, a[1]))
				rc = err_sys(e, "rename to %s", a[1]);
		if (d)
			closedir(d);
	}
	struct err ignored;
	if (fs_remove_tree(dir, tmp, rc ? &ignored : e))
		rc = -1;
	return rc;
}

static int op_collect(char *const *a, struct err *e)
{
	(void)a;
	return collect_run(e);
}

static int op_watch(char *const *a, struct err *e)
{
	(void)a;
	return watch_run(e);
}

static int op_restore(char *const *a, struct err *e)
{
	return restore_run(a[0], e);
}

static const struct {
	const char *name;
	int (*run)(char *const *args, struct err *e);
	int min, max; // arguments
} ops[] = {
	{"kind", op_kind, 1, 1},     {"stat", op_stat, 1, 1},	  {"list", op_list, 1, 1},
	{"read", op_read, 1, 1},     {"write", op_write, 1, 2},	  {"mkdir", op_mkdir, 1, 1},
	{"remove", op_remove, 1, 1}, {"rename", op_rename, 2, 2}, {"pack", op_pack, 1, 1},
	{"unpack", op_unpack, 1, 1}, {"unpack-as", op_unpack_as, 2, 2},
	{"collect", op_collect, 0, 0}, {"restore", op_restore, 1, 1}, {"watch", op_watch, 0, 0},
};

int files_job(char *const *argv)
{
	struct err e = {0};
	int n = (int)strv_len(argv) - 1, rc = -1;
	err_set(&e, ERR_INVALID, "unknown file operation %s", argv[0]);
	for (size_t i = 0; i < countof(ops); i++) {
		if (strcmp(ops[i].name, argv[0]))
			continue;
		if (n < ops[i].min || n > ops[i].max)
			err_set(&e, ERR_INVALID, "%s takes %d arguments", argv[0], ops[i].min);
		else
			rc = ops[i].run(argv + 1, &e);
		break;
	}
	if (rc)
		dprintf(2, "%s\n", e.msg);
	return !rc ? 0 : e.sys > 0 && e.sys < 126 ? e.sys : 1;
}

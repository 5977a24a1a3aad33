// SPDX-License-Identifier: Apache-2.0
#include "init/files.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/pack.h"
#include "base/str.h"
#include "base/tar.h"
#include "init/account.h"
#include "init/collect.h"
#include "init/files_int.h"
#include "init/sftp.h"
#include "init/watch.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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

// A directory's entries begin at ".", as tar -C DIR . writes them.
static int op_tar(char *const *a, struct err *e)
{
	struct stat st;
	const char *slash = strrchr(a[0], '/');
	if (stat(a[0], &st))
		return err_sys(e, "%s", a[0]);
	if (record_put(AT_FDCWD, a[0], a[0], true, e))
		return -1;
	if (!S_ISDIR(st.st_mode))
		return tar_write(1, AT_FDCWD, a[0], slash ? slash + 1 : a[0], e);
	auto_fd int dir = fs_open(AT_FDCWD, a[0], O_RDONLY | O_DIRECTORY, 0, e);
	return dir < 0 ? -1 : tar_write(1, dir, ".", ".", e);
}

static int nothing = -1;

// Told to end in the middle of an archive: it is over for who reads it, wherever that is, and half a file goes.
static void on_untar_term(int sig)
{
	(void)sig;
	dup2(nothing, 0);
}

static int op_untar(char *const *a, struct err *e)
{
	static const char *const known[] = {"parents", NULL};
	struct sigaction act = {.sa_handler = on_untar_term}; // no SA_RESTART: a read comes back
	nothing = fs_open(AT_FDCWD, "/dev/null", O_RDONLY, 0, e);
	if (nothing < 0 || words_only(a + 1, known, e))
		return -1;
	if (sigaction(SIGTERM, &act, NULL))
		return err_sys(e, "sigaction");
	if (word(a + 1, "parents") && (make_parents(a[0], e) || (mkdir(a[0], 0777) && errno != EEXIST && err_sys(e, "make %s", a[0]))))
		return -1;
	auto_fd int dir = fs_open(AT_FDCWD, a[0], O_RDONLY | O_DIRECTORY, 0, e);
	return dir < 0 || tar_read(0, dir, e) ? -1 : record_put(AT_FDCWD, a[0], a[0], true, e);
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

static int op_sftp(char *const *a, struct err *e)
{
	return sftp_run(a[0], e);
}

#define WORDS 64 // at most, of one operation

static const struct {
	const char *name;
	int (*run)(char *const *args, struct err *e);
	int min, max; // arguments
} ops[] = {
	{"kind", op_kind, 1, 1},
	{"stat", op_stat, 1, 2},
	{"list", op_list, 1, 3},
	{"read", op_read, 1, 3},
	{"get", op_get, 1, 3},
	{"write", op_write, 1, 5},
	{"append", op_append, 1, 3},
	{"edit", op_edit, 1, 2},
	{"mkdir", op_mkdir, 1, 3},
	{"move", op_move, 2, 4},
	{"copy", op_copy, 2, 4},
	{"rename", op_rename, 2, 2},
	{"remove", op_remove, 1, 3},
	{"search", op_search, 1, WORDS},
	{"inotify", op_inotify, 1, 2},
	{"pack", op_pack, 1, 1},
	{"unpack", op_unpack, 1, 1},
	{"unpack-as", op_unpack_as, 2, 2},
	{"tar", op_tar, 1, 1},
	{"untar", op_untar, 1, 2},
	{"collect", op_collect, 0, 0},
	{"restore", op_restore, 1, 1},
	{"watch", op_watch, 0, 0},
	{"sftp", op_sftp, 0, 1},
	{"for", op_for, 2, ACCOUNT_WORDS},
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
	return !rc ? 0 : e.sys > 0 && e.sys < 126 ? e.sys : e.kind == ERR_LIMIT ? EFBIG : EINVAL;
}

// SPDX-License-Identifier: Apache-2.0
// First everything is handed to the disk, then waited for: a file system with a journal then writes it once, and most
// of the waits find their work done.
#include "base/durable.h"

#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ONE_BY_ONE 1000 // entries, or files of a tree; past that the whole file system is told once
#define DEPTH 200

void durable_add(struct buf *list, enum durable what, const char *path)
{
	buf_byte(list, (char)what);
	buf_add(list, path, strlen(path) + 1);
}

static int sync_fd(int fd, bool wait)
{
	if (!wait)
		return sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE), 0; // only so that the disk has work
	return fsync(fd);
}

static int sync_name(int dir, const char *name, bool wait)
{
	struct stat st;
	auto_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	if (fstat(fd, &st))
		return -1;
	return S_ISREG(st.st_mode) || (S_ISDIR(st.st_mode) && wait) ? sync_fd(fd, wait) : 0;
}

// The files in a directory, and what is below it, as far down as `depth` (-1: nothing). *left: how many more are worth it; 0 at the
// end: it is too much.
static int sync_files(int dir, const char *path, bool wait, int depth, int *left)
{
	int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	int rc = 0;
	if (!d) {
		rc = errno == ENOENT ? 0 : -1;
		close_fd(&fd);
		return rc;
	}
	while (!rc && *left && (ent = readdir(d))) {
		bool is_dir = ent->d_type == DT_DIR && strcmp(ent->d_name, ".") && strcmp(ent->d_name, "..");
		--*left;
		if (is_dir && depth > 0)
			rc = sync_files(fd, ent->d_name, wait, depth - 1, left);
		else if (is_dir && !depth)
			*left = 0;
		else if (ent->d_type == DT_REG || ent->d_type == DT_UNKNOWN)
			rc = sync_name(fd, ent->d_name, wait);
	}
	if (!rc && wait)
		rc = fsync(fd);
	int why = errno;
	closedir(d);
	errno = why;
	return rc;
}

static int sync_entry(int dir, const char *entry, bool wait)
{
	int all = INT_MAX, some = ONE_BY_ONE;
	if (entry[0] == DURABLE_FILES)
		return sync_files(dir, entry + 1, wait, -1, &all);
	if (entry[0] != DURABLE_TREE)
		return sync_name(dir, entry + 1, wait);
	int rc = sync_files(dir, entry + 1, wait, DEPTH, &some);
	bool closed = rc && errno == EACCES; // something in it is not for us to open; the file system is
	if (!closed && (rc || some))
		return rc;
	return wait ? syncfs(dir) : 0;
}

static size_t count(const struct buf *list)
{
	size_t n = 0;
	for (size_t i = 0; i < list->n; i++)
		n += !list->p[i];
	return n;
}

int durable_sync(int dirfd, const struct buf *list, struct err *e)
{
	if (list->n && list->p[list->n - 1])
		return err_set(e, ERR_INVALID, "the list of what is to be synced is cut off");
	if (count(list) > ONE_BY_ONE)
		return syncfs(dirfd) ? err_sys(e, "sync the file system") : 0;
	for (int wait = 0; wait < 2; wait++)
		for (size_t at = 0; at < list->n; at += strlen(list->p + at) + 1)
			if (sync_entry(dirfd, list->p + at, wait))
				return err_sys(e, "sync %s", list->p + at + 1);
	return 0;
}

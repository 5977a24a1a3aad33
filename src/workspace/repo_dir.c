// SPDX-License-Identifier: Apache-2.0
#include "workspace/repo_dir.h"

#include "base/fault.h"
#include "base/fs.h"
#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int lock_partial(const char *partial, int *out, struct err *e)
{
	struct stat a, b;
	if (mkdir(partial, 0700) && errno != EEXIST)
		return err_sys(e, "mkdir %s", partial);
	auto_fd int fd = open(partial, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open %s", partial);
	while (flock(fd, LOCK_EX))
		if (errno != EINTR)
			return err_sys(e, "lock %s", partial);
	// The one before us may have put it in place, or removed it, while we waited.
	if (fstat(fd, &a))
		return err_sys(e, "%s", partial);
	if (lstat(partial, &b) || a.st_dev != b.st_dev || a.st_ino != b.st_ino)
		return 0;
	*out = take_fd(&fd);
	return 1;
}

static int empty(int dirfd_, struct err *e)
{
	struct dirent *ent;
	int copy = openat(dirfd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	if (!d) {
		close_fd(&copy);
		return err_sys(e, "list what was left");
	}
	while (!rc && (ent = readdir(d)))
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, ".."))
			rc = fs_remove_tree(dirfd_, ent->d_name, e);
	closedir(d);
	return rc;
}

int repo_dir_begin(const char *path, struct repo_dir *out, struct err *e)
{
	auto_free char *partial = xasprintf("%s.partial", path);
	auto_fd int fd = -1;
	for (;;) {
		if (fs_exists(AT_FDCWD, path))
			return 0;
		int rc = lock_partial(partial, &fd, e);
		if (rc < 0)
			return -1;
		if (rc)
			break;
	}
	if (fs_exists(AT_FDCWD, path)) { // its maker was killed between making the next partial one and here
		rmdir(partial);
		return 0;
	}
	if (empty(fd, e) || fault(FAULT_REPO_BEGIN, e))
		return -1;
	*out = (struct repo_dir){xstrdup(path), take(&partial), take_fd(&fd)};
	return 1;
}

int repo_dir_commit(struct repo_dir *d, struct err *e)
{
	if (fault(FAULT_REPO_COMMIT, e))
		return -1;
	if (fchmod(d->fd, 0755) || renameat2(AT_FDCWD, d->partial, AT_FDCWD, d->path, RENAME_NOREPLACE))
		return err_sys(e, "put %s in place", d->path);
	close_fd(&d->fd);
	free(d->partial);
	free(d->path);
	*d = (struct repo_dir){.fd = -1};
	return 0;
}

void repo_dir_drop(struct repo_dir *d)
{
	struct err ignored; // the next one, or gc, removes what stays
	if (d->partial && d->fd >= 0 && fs_remove_tree(AT_FDCWD, d->partial, &ignored))
		ignored.kind = ERR_NONE;
	close_fd(&d->fd);
	free(d->partial);
	free(d->path);
	*d = (struct repo_dir){.fd = -1};
}

static int copy_range(int from, int to, off_t at, off_t end, struct err *e)
{
	off_t in = at, out = at;
	while (in < end) {
		ssize_t n = copy_file_range(from, &in, to, &out, (size_t)(end - in), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS)) {
			char block[65536];
			size_t want = end - in < (off_t)sizeof block ? (size_t)(end - in) : sizeof block;
			n = pread(from, block, want, in);
			if (n > 0 && lseek(to, out, SEEK_SET) >= 0 && fs_write_all(to, block, (size_t)n, e))
				return -1;
			in += n > 0 ? n : 0;
			out = in;
		}
		if (n < 0)
			return err_sys(e, "copy");
		if (!n)
			return 0; // it became shorter meanwhile
	}
	return 0;
}

static int copy_data(int from, int to, off_t size, struct err *e)
{
	if (!ioctl(to, FICLONE, from))
		return 0;
	for (off_t at = 0; at < size;) {
		off_t data = lseek(from, at, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break;
		if (data < 0)
			data = at;
		off_t hole = lseek(from, data, SEEK_HOLE);
		if (hole < 0 || hole > size)
			hole = size;
		if (copy_range(from, to, data, hole, e))
			return -1;
		at = hole;
	}
	return ftruncate(to, size) ? err_sys(e, "copy") : 0;
}

int repo_copy_fd(int from, int dirfd_, const char *name, mode_t mode, struct timespec mtime, struct err *e)
{
	struct stat st;
	struct timespec times[2] = {mtime, mtime};
	auto_fd int to = fs_open(dirfd_, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, e);
	if (to < 0)
		return -1;
	if (fstat(from, &st))
		return err_sys(e, "%s", name);
	if (copy_data(from, to, st.st_size, e))
		return err_wrap(e, "%s", name);
	return fchmod(to, mode) || futimens(to, times) ? err_sys(e, "%s", name) : 0;
}

#define SIZE_DEPTH 300

static uint64_t bytes_below(int dirfd_, const char *name, int depth)
{
	struct dirent *ent;
	struct stat st;
	uint64_t sum = 0;
	int fd = openat(dirfd_, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		close_fd(&fd);
		return 0;
	}
	while ((ent = readdir(d))) {
		if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, "..") || fstatat(dirfd(d), ent->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		sum += (uint64_t)st.st_blocks * 512;
		if (S_ISDIR(st.st_mode) && depth < SIZE_DEPTH)
			sum += bytes_below(dirfd(d), ent->d_name, depth + 1);
	}
	closedir(d);
	return sum;
}

uint64_t repo_disk_bytes(int dirfd_, const char *name)
{
	return bytes_below(dirfd_, name, 0);
}

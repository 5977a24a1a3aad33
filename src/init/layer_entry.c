// SPDX-License-Identifier: Apache-2.0
// One file or directory of a layer, copied to the byte, with attributes and times.
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "init/layer_int.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

uint64_t entry_ctime(const struct stat *st)
{
	return (uint64_t)st->st_ctim.tv_sec * 1000000000u + (uint64_t)st->st_ctim.tv_nsec;
}

int entry_open_dir(int dir, const char *name, struct err *e)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open %s", name) : fd;
}

// --- contents ---

static int copy_range(int in, int out, off_t at, off_t end, struct err *e)
{
	static char chunk[256 << 10];
	loff_t from = at, to = at;
	while (from < end) {
		ssize_t n = copy_file_range(in, &from, out, &to, (size_t)(end - from), 0);
		if (n <= 0)
			break; // not here: by hand
	}
	while (from < end) {
		size_t want = end - from < (off_t)sizeof chunk ? (size_t)(end - from) : sizeof chunk;
		ssize_t n = pread(in, chunk, want, from);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read");
		if (!n)
			return err_set(e, ERR_CONFLICT, "a file became shorter while it was copied");
		for (ssize_t done = 0; done < n;) {
			ssize_t k = pwrite(out, chunk + done, (size_t)(n - done), from + done);
			if (k < 0 && errno != EINTR)
				return err_sys(e, "write");
			done += k > 0 ? k : 0;
		}
		from += n;
	}
	return 0;
}

static int copy_bytes(int in, int out, off_t size, struct err *e)
{
	if (!size || !ioctl(out, FICLONE, in))
		return 0;
	if (ftruncate(out, size))
		return err_sys(e, "make room");
	for (off_t at = 0; at < size;) {
		off_t data = lseek(in, at, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			return 0; // the rest is a hole
		off_t end = data < 0 ? size : lseek(in, data, SEEK_HOLE);
		if (data < 0)
			data = at; // no holes known here
		if (end < 0 || end > size)
			end = size;
		if (copy_range(in, out, data, end, e))
			return -1;
		at = end;
	}
	return 0;
}

bool entry_same_bytes(int a_dir, const char *a, int b_dir, const char *b)
{
	static char pa[128 << 10], pb[128 << 10];
	auto_fd int fa = openat(a_dir, a, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	auto_fd int fb = openat(b_dir, b, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	for (;;) {
		ssize_t na = fa < 0 ? -1 : read(fa, pa, sizeof pa), nb = fb < 0 || na < 0 ? -1 : read(fb, pb, sizeof pb);
		if (na < 0 || na != nb || memcmp(pa, pb, (size_t)na))
			return false;
		if (!na)
			return true;
	}
}

// --- attributes ---

#define XATTR_MAX 65536

static bool is_ours(const char *name, bool overlay)
{
	if (str_has_prefix(name, "user.overlay."))
		return overlay;
	return str_has_prefix(name, "user.") || !strcmp(name, "security.capability") ||
	       str_has_prefix(name, "system.posix_acl_");
}

static int copy_xattrs(int from, int to, bool overlay, struct err *e)
{
	static char list[XATTR_MAX], value[XATTR_MAX];
	ssize_t n = flistxattr(from, list, sizeof list);
	if (n < 0)
		return errno == ENOTSUP ? 0 : err_sys(e, "list attributes");
	for (const char *name = list; name < list + n; name += strlen(name) + 1) {
		if (!is_ours(name, overlay))
			continue; // labels are the system's to give
		ssize_t len = fgetxattr(from, name, value, sizeof value);
		if (len < 0 || fsetxattr(to, name, value, (size_t)len, 0))
			return err_sys(e, "attribute %s", name);
	}
	return 0;
}

// The order matters: a change of owner clears set-user-id and capabilities, everything sets times.
static int copy_meta(int from, int to, const struct stat *st, bool overlay, struct err *e)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	if (fchown(to, st->st_uid, st->st_gid) || fchmod(to, st->st_mode & 07777))
		return err_sys(e, "owner");
	if (copy_xattrs(from, to, overlay, e))
		return -1;
	return futimens(to, times) ? err_sys(e, "times") : 0;
}

int entry_finish_dir(int from, int to, bool overlay, struct err *e)
{
	struct stat st;
	if (fstat(from, &st))
		return err_sys(e, "look at a directory");
	return copy_meta(from, to, &st, overlay, e);
}

// --- kinds ---

static int copy_regular(int from, const char *name, const struct stat *st, int to, struct err *e)
{
	struct stat now;
	auto_fd int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (in < 0)
		return err_sys(e, "open %s", name);
	if (fstat(in, &now) || now.st_ino != st->st_ino || !S_ISREG(now.st_mode))
		return err_set(e, ERR_CONFLICT, "%s was replaced while it was copied", name);
	auto_fd int out = openat(to, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return err_sys(e, "make %s", name);
	if (copy_bytes(in, out, now.st_size, e) || copy_meta(in, out, &now, true, e))
		return err_wrap(e, "copy %s", name);
	return 0;
}

static int set_times(int to, const char *name, const struct stat *st, struct err *e)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	if (fchownat(to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) ||
	    utimensat(to, name, times, AT_SYMLINK_NOFOLLOW))
		return err_sys(e, "copy %s", name);
	return 0;
}

static int copy_link(int from, const char *name, const struct stat *st, int to, struct err *e)
{
	char target[4097];
	ssize_t n = readlinkat(from, name, target, sizeof target - 1);
	if (n < 0)
		return err_sys(e, "read the link %s", name);
	target[n] = 0;
	return symlinkat(target, to, name) ? err_sys(e, "make the link %s", name) : set_times(to, name, st, e);
}

// Fifos, sockets, whiteouts. Devices that a cell can have none of are refused by the kernel.
static int copy_special(const char *name, const struct stat *st, int to, struct err *e)
{
	if (mknodat(to, name, st->st_mode & (S_IFMT | 0777), st->st_rdev))
		return err_sys(e, "make %s", name);
	if (fchownat(to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) || fchmodat(to, name, st->st_mode & 07777, 0))
		return err_sys(e, "copy %s", name);
	return set_times(to, name, st, e);
}

int entry_copy(int from, const char *name, const struct stat *st, int to, struct err *e)
{
	if (S_ISREG(st->st_mode))
		return copy_regular(from, name, st, to, e);
	return S_ISLNK(st->st_mode) ? copy_link(from, name, st, to, e) : copy_special(name, st, to, e);
}

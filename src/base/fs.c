// SPDX-License-Identifier: Apache-2.0
#include "base/fs.h"

#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

int fs_open(int dirfd, const char *path, int flags, mode_t mode, struct err *e)
{
	int fd = openat(dirfd, path, flags | O_CLOEXEC, mode);
	return fd < 0 ? err_sys(e, "open %s", path) : fd;
}

static int open_how(int dirfd, const char *path, int flags, mode_t mode, uint64_t resolve, struct err *e)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.mode = flags & (O_CREAT | O_TMPFILE) ? mode : 0,
		.resolve = resolve,
	};
	int fd = (int)syscall(SYS_openat2, dirfd, path, &how, sizeof how);
	return fd < 0 ? err_sys(e, "open %s", path) : fd;
}

int fs_open_beneath(int dirfd, const char *path, int flags, mode_t mode, struct err *e)
{
	return open_how(dirfd, path, flags, mode,
			RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV, e);
}

int fs_open_in_root(int dirfd, const char *path, int flags, struct err *e)
{
	return open_how(dirfd, path, flags, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS, e);
}

int fs_read_fd(int fd, struct buf *out, struct err *e)
{
	for (;;) {
		size_t room = out->max - out->n < 65536 ? out->max - out->n : 65536;
		char *p = buf_room(out, room ? room : 1);
		if (!p)
			return err_set(e, ERR_LIMIT, "longer than %zu bytes", out->max);
		ssize_t n = read(fd, p, room ? room : 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read");
		out->n += (size_t)n;
		p[n] = 0;
		if (!n)
			return 0;
	}
}

int fs_read(int dirfd, const char *path, struct buf *out, struct err *e)
{
	auto_fd int fd = fs_open(dirfd, path, O_RDONLY, 0, e);
	if (fd < 0)
		return -1;
	return fs_read_fd(fd, out, e) ? err_wrap(e, "%s", path) : 0;
}

int fs_write_all(int fd, const void *data, size_t n, struct err *e)
{
	const char *p = data;
	while (n) {
		ssize_t w = write(fd, p, n);
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return err_sys(e, "write");
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

int fs_write(int dirfd, const char *path, const void *p, size_t n, mode_t mode, struct err *e)
{
	auto_fd int fd = fs_open(dirfd, path, O_WRONLY | O_CREAT | O_TRUNC, mode, e);
	if (fd < 0)
		return -1;
	return fs_write_all(fd, p, n, e) ? err_wrap(e, "%s", path) : 0;
}

int fs_put(int dirfd, const char *path, const char *text, struct err *e)
{
	auto_fd int fd = fs_open(dirfd, path, O_WRONLY, 0, e);
	if (fd < 0)
		return -1;
	return write(fd, text, strlen(text)) < 0 ? err_sys(e, "write \"%s\" to %s", text, path) : 0;
}

int fs_replace(int dirfd, const char *path, const void *p, size_t n, mode_t mode, struct err *e)
{
	auto_free char *tmp = xasprintf("%s.new", path);
	auto_fd int fd = fs_open(dirfd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, mode, e);
	if (fd < 0)
		return -1;
	if (fs_write_all(fd, p, n, e))
		return err_wrap(e, "%s", tmp);
	if (fsync(fd) || renameat(dirfd, tmp, dirfd, path))
		return err_sys(e, "replace %s", path);
	auto_free char *parent = xstrdup(path);
	char *slash = strrchr(parent, '/');
	if (slash)
		slash[slash == parent] = 0;
	auto_fd int dir = fs_open(dirfd, slash ? parent : ".", O_RDONLY | O_DIRECTORY, 0, e);
	if (dir < 0)
		return -1;
	return fsync(dir) ? err_sys(e, "sync the directory of %s", path) : 0;
}

int fs_mkdirs(int dirfd, const char *path, mode_t mode, struct err *e)
{
	auto_free char *p = xstrdup(path);
	if (!mkdirat(dirfd, p, mode) || errno == EEXIST)
		return 0;
	for (char *s = p + 1; (s = strchr(s, '/')); *s++ = '/') {
		*s = 0;
		if (mkdirat(dirfd, p, mode) && errno != EEXIST)
			return err_sys(e, "mkdir %s", p);
	}
	if (mkdirat(dirfd, p, mode) && errno != EEXIST)
		return err_sys(e, "mkdir %s", p);
	return 0;
}

int fs_mkdirs_beneath(int dirfd, const char *path, mode_t mode, struct err *e)
{
	struct str rest = str_of(path), part;
	auto_fd int at = fs_open_beneath(dirfd, ".", O_RDONLY | O_DIRECTORY, 0, e);
	while (at >= 0 && str_next(&rest, '/', &part)) {
		auto_free char *name = xstrndup(part.p, part.n);
		if (mkdirat(at, name, mode) && errno != EEXIST)
			return err_sys(e, "mkdir %s", path);
		int next = fs_open_beneath(at, name, O_RDONLY | O_DIRECTORY, 0, e);
		if (next < 0)
			return err_wrap(e, "directory %s", path);
		close(at);
		at = next;
	}
	return take_fd(&at);
}

void fs_spread(int dirfd)
{
	int flags;
	if (!ioctl(dirfd, FS_IOC_GETFLAGS, &flags) && !(flags & FS_TOPDIR_FL)) {
		flags |= FS_TOPDIR_FL;
		if (ioctl(dirfd, FS_IOC_SETFLAGS, &flags))
			return; // another kind of file system, with other habits
	}
}

bool fs_exists(int dirfd, const char *path)
{
	struct stat st;
	return !fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW);
}

static int open_dir_forced(int dirfd, const char *name)
{
	int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dirfd, name, flags);
	if (fd >= 0 || errno != EACCES)
		return fd;
	// A tree of mode-0 directories must not survive its owner's wish. AT_SYMLINK_NOFOLLOW for chmod
	// is not in every kernel; a link put there meanwhile can only point at what we own anyway, and
	// the open below refuses it.
	if (fchmodat(dirfd, name, 0700, 0))
		return -1;
	return openat(dirfd, name, flags);
}

struct removal {
	int top;	   // directory of the tree's own root, while it is being emptied
	unsigned moved; // subtrees hung up there because they lay too deep
};

#define REMOVE_DEPTH 100 // descriptors held at once; a tree may be a million levels deep

static int remove_below(struct removal *r, int dirfd, const char *name, int depth, struct err *e);

static int empty_dir(struct removal *r, int fd, const char *name, int depth, struct err *e)
{
	if (faccessat(fd, ".", W_OK | X_OK, 0))
		fchmod(fd, 0700); // a failure shows in the unlinks below
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	if (!d) {
		close_fd(&copy);
		return err_sys(e, "list %s", name);
	}
	int rc = 0;
	struct dirent *ent;
	while (!rc && (ent = readdir(d)))
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, ".."))
			rc = remove_below(r, fd, ent->d_name, depth, e);
	closedir(d);
	return rc;
}

static int remove_below(struct removal *r, int dirfd, const char *name, int depth, struct err *e)
{
	if (!unlinkat(dirfd, name, 0) || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM && errno != EACCES)
		return err_sys(e, "remove %s", name);
	if (depth > REMOVE_DEPTH) {
		auto_free char *up = xasprintf(".skep-deep-%u", r->moved++);
		return renameat(dirfd, name, r->top, up) ? err_sys(e, "remove %s", name) : 0;
	}
	auto_fd int fd = open_dir_forced(dirfd, name);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "remove %s", name);
	if (empty_dir(r, fd, name, depth + 1, e))
		return -1;
	return unlinkat(dirfd, name, AT_REMOVEDIR) && errno != ENOENT ? err_sys(e, "remove %s", name) : 0;
}

int fs_remove_tree(int dirfd, const char *name, struct err *e)
{
	struct removal r = {0};
	if (!unlinkat(dirfd, name, 0) || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM && errno != EACCES)
		return err_sys(e, "remove %s", name);
	auto_fd int top = open_dir_forced(dirfd, name);
	if (top < 0)
		return errno == ENOENT ? 0 : err_sys(e, "remove %s", name);
	r.top = top;
	for (;;) { // once more for every subtree that was moved up meanwhile
		unsigned before = r.moved;
		if (empty_dir(&r, top, name, 0, e))
			return -1;
		if (!unlinkat(dirfd, name, AT_REMOVEDIR) || errno == ENOENT)
			return 0;
		if (errno != ENOTEMPTY || r.moved == before)
			return err_sys(e, "remove %s", name);
	}
}

static int unix_name(int dirfd, const char *name, struct sockaddr_un *sa, struct err *e)
{
	sa->sun_family = AF_UNIX;
	int rc = dirfd == AT_FDCWD ? fmt_to(sa->sun_path, sizeof sa->sun_path, "%s", name)
				   : fmt_to(sa->sun_path, sizeof sa->sun_path, "/proc/self/fd/%d/%s", dirfd, name);
	return rc ? err_set(e, ERR_INVALID, "socket name %s is too long", name) : 0;
}

int fs_unix_listen(int dirfd, const char *name, struct err *e)
{
	struct sockaddr_un sa = {0};
	if (unix_name(dirfd, name, &sa, e))
		return -1;
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, "socket");
	if (fchmod(fd, 0600)) // the mode the bound name is born with: no window, no umask
		return err_sys(e, "chmod of socket %s", name);
	if (unlinkat(dirfd, name, 0) && errno != ENOENT)
		return err_sys(e, "remove old socket %s", name);
	if (bind(fd, (struct sockaddr *)&sa, sizeof sa) || listen(fd, 128))
		return err_sys(e, "listen on %s", name);
	return take_fd(&fd);
}

int fs_unix_connect(int dirfd, const char *name, struct err *e)
{
	struct sockaddr_un sa = {0};
	if (unix_name(dirfd, name, &sa, e))
		return -1;
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(e, "socket");
	if (connect(fd, (struct sockaddr *)&sa, sizeof sa))
		return err_sys(e, "connect to %s", name);
	return take_fd(&fd);
}

uint64_t fd_limit(void)
{
	struct rlimit r;
	return getrlimit(RLIMIT_NOFILE, &r) ? UINT32_MAX : r.rlim_cur;
}

uint64_t fd_lowest_free(void)
{
	auto_fd int fd = open("/", O_PATH | O_CLOEXEC);
	return fd < 0 ? UINT32_MAX : (uint64_t)fd;
}

// SPDX-License-Identifier: Apache-2.0
#include "cell/look.h"

#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATH_BYTES 4096u
#define LOOK_PATH (2 * PATH_BYTES + 2)

static int link_of(pid_t pid, int dirfd, bool absolute, char out[64])
{
	if (absolute)
		return fmt_to(out, 64, "/proc/%d/root", (int)pid);
	if (dirfd == AT_FDCWD)
		return fmt_to(out, 64, "/proc/%d/cwd", (int)pid);
	return fmt_to(out, 64, "/proc/%d/fd/%d", (int)pid, dirfd);
}

static int open_start(const struct look *l)
{
	char link[64];
	if (link_of(l->pid, l->dirfd, l->absolute, link))
		return -1;
	return (int)syscall(SYS_openat, AT_FDCWD, link, O_PATH | O_DIRECTORY | O_CLOEXEC); // musl's open makes two calls of it
}

// The kernel's own walk, but it never leaves what belongs to the caller: not through a link to an absolute name, which
// would be the host's, and not through /proc.
static int walk(const struct look *l, const char *path, uint64_t flags)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | flags,
		.resolve = RESOLVE_NO_MAGICLINKS | (l->absolute ? RESOLVE_IN_ROOT : RESOLVE_BENEATH),
	};
	return (int)syscall(SYS_openat2, l->start, path, &how, sizeof how);
}

// A relative name that leads above its start ("../x") is an absolute one behind the name of the start.
static int from_root(struct look *l)
{
	char link[64], dir[PATH_BYTES];
	ssize_t n = link_of(l->pid, l->dirfd, false, link) ? -1 : readlink(link, dir, sizeof dir);
	if (n <= 0 || n == sizeof dir || *dir != '/')
		return -1;
	auto_buf struct buf rest = l->path;
	l->path = (struct buf)BUF_INIT(LOOK_PATH);
	buf_add(&l->path, dir, (size_t)n);
	buf_fmt(&l->path, "/%s", buf_cstr(&rest));
	close_fd(&l->start);
	l->absolute = true;
	l->start = open_start(l);
	return l->start < 0 || l->path.overflow ? -1 : 0;
}

int look_open(const struct seccomp_event *ev, int dir, int path, struct look *out)
{
	*out = (struct look){.pid = ev->pid, .dirfd = dir < 0 ? AT_FDCWD : (int)ev->args[dir], .start = -1, .path = BUF_INIT(LOOK_PATH)};
	if (seccomp_read_str(ev, path, PATH_BYTES, &out->path) || !out->path.n)
		return -1;
	while (out->path.n > 1 && out->path.p[out->path.n - 1] == '/')
		out->path.p[--out->path.n] = 0;
	out->absolute = *out->path.p == '/';
	out->start = open_start(out);
	return out->start < 0 ? -1 : 0;
}

void look_done(struct look *l)
{
	close_fd(&l->start);
	buf_done(&l->path);
}

static int open_file(struct look *l)
{
	return walk(l, buf_cstr(&l->path), O_NOFOLLOW);
}

static int open_target(struct look *l)
{
	return walk(l, buf_cstr(&l->path), 0);
}

static int open_dir(struct look *l)
{
	const char *path = buf_cstr(&l->path), *slash = strrchr(path, '/');
	if (!slash)
		return walk(l, ".", O_DIRECTORY);
	auto_free char *dir = xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
	return walk(l, dir, O_DIRECTORY);
}

static int open_either(struct look *l, int (*open_it)(struct look *l))
{
	int fd = open_it(l);
	if (fd < 0 && errno == EXDEV && !l->absolute && !from_root(l))
		fd = open_it(l);
	return fd;
}

bool look_is_plain(struct look *l)
{
	struct stat st;
	const char *path = buf_cstr(&l->path);
	// Without a slash there is no link to follow and nothing to leave.
	return !strchr(path, '/') && !fstatat(l->start, path, &st, AT_SYMLINK_NOFOLLOW) && !S_ISDIR(st.st_mode);
}

int look_file(struct look *l, struct stat *out)
{
	auto_fd int fd = open_either(l, open_file);
	return fd < 0 || fstat(fd, out) ? -1 : take_fd(&fd);
}

int look_target(struct look *l, struct stat *out)
{
	auto_fd int fd = open_either(l, open_target);
	return fd < 0 || fstat(fd, out) ? -1 : take_fd(&fd);
}

int look_dir(struct look *l)
{
	return open_either(l, open_dir);
}

const char *look_name(struct look *l)
{
	const char *path = buf_cstr(&l->path), *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	return !*name || !strcmp(name, ".") || !strcmp(name, "..") ? NULL : name;
}

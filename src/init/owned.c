// SPDX-License-Identifier: Apache-2.0
#include "init/owned.h"

#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"
#include "init/movable_int.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY ".skep-own" // one helper at a time makes it
#define LINKS_FOLLOWED 40
#define PATH_BYTES 4096

struct place {
	int dir; // O_PATH
	char name[PATH_BYTES];
	struct stat st;
};

// To where the link at p leads: its directory and its name in there.
static int place_follow(struct place *p)
{
	char target[PATH_BYTES];
	ssize_t n = readlinkat(p->dir, p->name, target, sizeof target);
	if (n <= 0 || n == sizeof target)
		return -1;
	target[n] = 0;
	char *slash = strrchr(target, '/');
	const char *name = slash ? slash + 1 : target, *dir = ".";
	if (slash == target)
		dir = "/";
	else if (slash)
		dir = target;
	if (fmt_to(p->name, sizeof p->name, "%s", name))
		return -1;
	if (slash && slash != target)
		*slash = 0;
	int at = openat(p->dir, dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	close_fd(&p->dir);
	p->dir = at;
	return at < 0 ? -1 : 0;
}

static int place_find(struct place *p, int dir, const char *name, bool follow)
{
	p->dir = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (p->dir < 0 || fmt_to(p->name, sizeof p->name, "%s", name))
		return -1;
	for (int i = 0; i < LINKS_FOLLOWED; i++) {
		if (fstatat(p->dir, p->name, &p->st, AT_SYMLINK_NOFOLLOW))
			return -1;
		if (!follow || !S_ISLNK(p->st.st_mode))
			return 0;
		if (place_follow(p))
			return -1;
	}
	errno = ELOOP;
	return -1;
}

// Whoever wrote to it, or put another in its place meanwhile, wins.
static int copy_takes_place(const struct place *p)
{
	struct stat now;
	bool same = !fstatat(p->dir, p->name, &now, AT_SYMLINK_NOFOLLOW) && now.st_ino == p->st.st_ino && now.st_dev == p->st.st_dev &&
		    now.st_mtim.tv_sec == p->st.st_mtim.tv_sec && now.st_mtim.tv_nsec == p->st.st_mtim.tv_nsec;
	if (same && !move_entry(p->dir, COPY, p->dir, p->name, 0))
		return 0;
	unlinkat(p->dir, COPY, 0);
	return -1;
}

static int copy_content(int from, int to)
{
	ssize_t n;
	struct err e;
	while ((n = fault(FAULT_OWN_COPY, &e) ? -1 : sendfile(to, from, NULL, 1 << 30)) > 0)
		;
	return n ? -1 : 0;
}

static int own_file(const struct place *p)
{
	const struct timespec times[2] = {p->st.st_atim, p->st.st_mtim};
	auto_fd int from = openat(p->dir, p->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (from < 0)
		return -1;
	if (!fchmod(from, p->st.st_mode & 07777)) // ours, or of somebody whom we have a number for
		return 0;
	unlinkat(p->dir, COPY, 0);
	auto_fd int to = openat(p->dir, COPY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -1;
	if (copy_content(from, to)) {
		unlinkat(p->dir, COPY, 0);
		return -1;
	}
	(void)!move_copy_attributes(from, to); // an access list may name ids that we have no number for
	return fchmod(to, p->st.st_mode & 07777) || futimens(to, times) ? -1 : copy_takes_place(p);
}

static int own_link(const struct place *p)
{
	const struct timespec times[2] = {p->st.st_atim, p->st.st_mtim};
	char target[PATH_BYTES];
	ssize_t n = readlinkat(p->dir, p->name, target, sizeof target);
	if (n <= 0 || n == sizeof target)
		return -1;
	target[n] = 0;
	auto_fd int fd = openat(p->dir, p->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && !fchownat(fd, "", (uid_t)-1, (gid_t)-1, AT_EMPTY_PATH))
		return 0;
	unlinkat(p->dir, COPY, 0);
	if (symlinkat(target, p->dir, COPY))
		return -1;
	(void)!utimensat(p->dir, COPY, times, AT_SYMLINK_NOFOLLOW);
	return copy_takes_place(p);
}

int owned_make(int dir, const char *name, bool follow)
{
	struct place p = {.dir = -1};
	struct stat above;
	int rc = place_find(&p, dir, name, follow);
	if (!rc && !fstatat(p.dir, "", &above, AT_EMPTY_PATH)) {
		const struct timespec times[2] = {above.st_atim, above.st_mtim};
		if (S_ISREG(p.st.st_mode))
			rc = own_file(&p);
		else
			rc = S_ISLNK(p.st.st_mode) ? own_link(&p) : -1;
		(void)!utimensat(p.dir, ".", times, 0);
	}
	close_fd(&p.dir);
	return rc;
}

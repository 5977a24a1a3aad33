// SPDX-License-Identifier: Apache-2.0
// inotify: what happens in a directory, as it happens, one record per event. Watched first, listed then: what is made in a
// new directory before it is watched is told as created.
#include "init/files_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define WATCHES_MAX 8192 // they count against the user's own on the host
#define DEPTH_MAX 200
#define MASK (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_MODIFY | IN_ONLYDIR | IN_EXCL_UNLINK)

struct tail {
	int fd;
	const char *top;
	bool recursive;
	char **path; // by watch number: relative to top
	int n_paths, n_watches;
	struct buf out;
};

static void tell(struct tail *t, enum file_event ev, bool dir, const char *name)
{
	wire_u8(&t->out, (uint8_t)ev);
	wire_u8(&t->out, dir);
	wire_str(&t->out, name);
}

static void forget(struct tail *t, int wd)
{
	if (wd < 0 || wd >= t->n_paths || !t->path[wd])
		return;
	free(t->path[wd]);
	t->path[wd] = NULL;
	t->n_watches--;
}

static void remember(struct tail *t, int wd, const char *rel)
{
	while (wd >= t->n_paths) {
		int n = t->n_paths ? t->n_paths * 2 : 64;
		t->path = xrealloc(t->path, (size_t)n * sizeof *t->path);
		memset(t->path + t->n_paths, 0, (size_t)(n - t->n_paths) * sizeof *t->path);
		t->n_paths = n;
	}
	forget(t, wd);
	t->path[wd] = xstrdup(rel);
	t->n_watches++;
}

static int add_tree(struct tail *t, const char *rel, bool told, int depth, struct err *e);

static void add_entries(struct tail *t, int fd, const char *rel, bool told, int depth)
{
	DIR *d = fdopendir(fd);
	struct dirent *ent;
	struct stat st;
	struct err ignored;
	while (d && (ent = readdir(d))) {
		if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, "..") || fstatat(fd, ent->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		auto_free char *sub = xasprintf("%s%s%s", rel, *rel ? "/" : "", ent->d_name);
		if (told)
			tell(t, FILE_CREATE, S_ISDIR(st.st_mode), sub);
		if (told && S_ISREG(st.st_mode) && st.st_size)
			tell(t, FILE_WRITE, false, sub);
		if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX && add_tree(t, sub, told, depth + 1, &ignored))
			tell(t, FILE_OVERFLOW, true, sub); // it is not seen
	}
	if (d)
		closedir(d);
	else
		close(fd);
}

static int add_tree(struct tail *t, const char *rel, bool told, int depth, struct err *e)
{
	auto_free char *path = xasprintf("%s%s%s", t->top, *rel ? "/" : "", rel);
	if (t->n_watches >= WATCHES_MAX)
		return err_no(e, ENOSPC, "more than %d directories", WATCHES_MAX);
	int wd = inotify_add_watch(t->fd, path, MASK | (*rel ? IN_DONT_FOLLOW : 0));
	if (wd < 0)
		return *rel && (errno == ENOENT || errno == ENOTDIR || errno == EACCES) ? 0 : err_sys(e, "watch %s", path);
	remember(t, wd, rel);
	int fd = t->recursive ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (*rel ? O_NOFOLLOW : 0)) : -1;
	if (fd >= 0)
		add_entries(t, fd, rel, told, depth);
	return 0;
}

static void forget_tree(struct tail *t, const char *rel)
{
	size_t n = strlen(rel);
	for (int wd = 0; wd < t->n_paths; wd++)
		if (t->path[wd] && !strncmp(t->path[wd], rel, n) && (!t->path[wd][n] || t->path[wd][n] == '/')) {
			inotify_rm_watch(t->fd, wd);
			forget(t, wd);
		}
}

static void on_event(struct tail *t, const struct inotify_event *ev)
{
	struct err ignored;
	bool dir = ev->mask & IN_ISDIR;
	if (ev->mask & IN_Q_OVERFLOW) {
		tell(t, FILE_OVERFLOW, false, "");
		return;
	}
	if (ev->mask & IN_IGNORED) {
		forget(t, ev->wd);
		return;
	}
	if (ev->wd < 0 || ev->wd >= t->n_paths || !t->path[ev->wd])
		return; // of a directory that moved away
	const char *rel = t->path[ev->wd];
	auto_free char *name = ev->len ? xasprintf("%s%s%s", rel, *rel ? "/" : "", ev->name) : xstrdup(rel);
	if (dir && !ev->len && *rel)
		return; // the directory's own: its parent told it
	if (ev->mask & (IN_CREATE | IN_MOVED_TO))
		tell(t, FILE_CREATE, dir, name);
	if (ev->mask & IN_MODIFY)
		tell(t, FILE_WRITE, dir, name);
	if (ev->mask & IN_DELETE)
		tell(t, FILE_REMOVE, dir, name);
	if (ev->mask & IN_MOVED_FROM)
		tell(t, FILE_RENAME, dir, name);
	if (ev->mask & IN_ATTRIB)
		tell(t, FILE_CHMOD, dir, name);
	if (dir && t->recursive && ev->mask & (IN_MOVED_FROM | IN_DELETE))
		forget_tree(t, name);
	if (dir && t->recursive && ev->mask & (IN_CREATE | IN_MOVED_TO) && add_tree(t, name, ev->mask & IN_CREATE, 0, &ignored))
		tell(t, FILE_OVERFLOW, true, name);
}

static int flush(struct tail *t, struct err *e)
{
	if (t->out.overflow) { // a burst longer than the buffer: say so rather than a part of it
		buf_clear(&t->out);
		t->out.overflow = false;
		tell(t, FILE_OVERFLOW, false, "");
	}
	int rc = t->out.n ? fs_write_all(1, t->out.p, t->out.n, e) : 0;
	buf_clear(&t->out);
	return rc;
}

// All that has happened until now; the kernel has an event ready before the call that made it returns.
static int take_events(struct tail *t, struct err *e)
{
	char bytes[32768] __attribute__((aligned(__alignof__(struct inotify_event))));
	for (;;) {
		ssize_t n = read(t->fd, bytes, sizeof bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return err_sys(e, "read events");
		for (ssize_t at = 0; at < n;) {
			const struct inotify_event *ev = (const struct inotify_event *)(bytes + at);
			on_event(t, ev);
			at += (ssize_t)(sizeof *ev + ev->len);
		}
		if (t->out.n > (1u << 20) && flush(t, e))
			return -1;
	}
}

// A byte on stdin asks whether all was told: FILE_READY says so, behind what had happened.
static int answer(struct tail *t, int *in, struct err *e)
{
	char asked[64];
	ssize_t n = read(*in, asked, sizeof asked);
	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
		*in = -1; // nobody will ask
	if (n <= 0)
		return 0;
	if (take_events(t, e))
		return -1;
	while (n--)
		tell(t, FILE_READY, true, "");
	return 0;
}

// Until its reader goes: the pipe's end is watched, as nothing may ever be written.
static int follow(struct tail *t, struct err *e)
{
	int in = 0;
	for (;;) {
		struct pollfd p[] = {{.fd = t->fd, .events = POLLIN}, {.fd = 1}, {.fd = in, .events = POLLIN}};
		if (flush(t, e))
			return -1;
		if (poll(p, 3, -1) < 0 && errno != EINTR)
			return err_sys(e, "poll");
		if (p[1].revents)
			return 0;
		if (p[0].revents && take_events(t, e))
			return -1;
		if (p[2].revents && answer(t, &in, e))
			return -1;
	}
}

int op_inotify(char *const *a, struct err *e)
{
	static const char *const known[] = {"recursive", NULL};
	struct tail t = {.top = a[0], .recursive = word(a + 1, "recursive"), .out = BUF_INIT(4 << 20)};
	if (words_only(a + 1, known, e))
		return -1;
	t.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (t.fd < 0)
		return err_sys(e, "inotify");
	int rc = add_tree(&t, "", false, 0, e);
	if (!rc) {
		tell(&t, FILE_READY, true, "");
		rc = follow(&t, e);
	}
	for (int wd = 0; wd < t.n_paths; wd++)
		forget(&t, wd);
	free(t.path);
	buf_done(&t.out);
	close(t.fd);
	return rc;
}

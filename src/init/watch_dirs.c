// SPDX-License-Identifier: Apache-2.0
#include "init/watch_dirs.h"

#include "base/buf.h"
#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 200
#define WATCHES_MAX 16384    // they count against the user's own on the host
#define NUMBERS_MAX (1 << 20) // the kernel gives no number twice: then all over again
#define IN_LAYER (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_ONLYDIR | IN_DONT_FOLLOW)
#define INSIDE (IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK)

static void remember(struct dirs *d, int wd, const char *rel)
{
	while (wd >= d->n_paths) {
		int n = d->n_paths ? d->n_paths * 2 : 64;
		d->path = xrealloc(d->path, (size_t)n * sizeof *d->path);
		memset(d->path + d->n_paths, 0, (size_t)(n - d->n_paths) * sizeof *d->path);
		d->n_paths = n;
	}
	d->n_watches += !d->path[wd];
	free(d->path[wd]);
	d->path[wd] = xstrdup(rel);
}

static void forget(struct dirs *d, int wd)
{
	d->n_watches -= d->path[wd] != NULL;
	free(d->path[wd]);
	d->path[wd] = NULL;
}

static void add(struct dirs *d, const char *path, const char *rel, uint32_t mask)
{
	int wd = -1;
	errno = ENOSPC;
	if (d->n_watches < WATCHES_MAX)
		wd = inotify_add_watch(d->fd, path, mask);
	if (wd >= 0)
		remember(d, wd, rel);
	else if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
		d->blind = true;
}

// Watched first, listed then: what is made in between is met by one of the two.
static void add_tree(struct dirs *d, const char *rel, int depth)
{
	auto_free char *inside = xasprintf("%s%s%s", d->ws, *rel ? "/" : "", rel);
	add(d, *rel ? rel : ".", rel, IN_LAYER);
	add(d, inside, rel, INSIDE);
	int fd = openat(d->top, *rel ? rel : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	while (dir && depth < DEPTH_MAX && (ent = readdir(dir))) {
		struct stat st;
		if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, "..") || !strcmp(ent->d_name, ".git"))
			continue;
		if (ent->d_type == DT_DIR || (ent->d_type == DT_UNKNOWN && !fstatat(fd, ent->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode))) {
			auto_free char *sub = xasprintf("%s%s%s", rel, *rel ? "/" : "", ent->d_name);
			add_tree(d, sub, depth + 1);
		}
	}
	if (dir)
		closedir(dir);
}

// A directory that moved takes its watches along, under a name that is wrong now.
static void forget_tree(struct dirs *d, const char *rel)
{
	size_t n = strlen(rel);
	for (int wd = 0; wd < d->n_paths; wd++)
		if (d->path[wd] && !strncmp(d->path[wd], rel, n) && (!d->path[wd][n] || d->path[wd][n] == '/')) {
			inotify_rm_watch(d->fd, wd);
			forget(d, wd);
		}
}

static void begin(struct dirs *d)
{
	d->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	d->blind = d->fd < 0;
	if (d->fd >= 0)
		add_tree(d, "", 0);
}

static void begin_again(struct dirs *d)
{
	close(d->fd);
	for (int wd = 0; wd < d->n_paths; wd++)
		forget(d, wd);
	free(d->path);
	d->path = NULL;
	d->n_paths = 0;
	begin(d);
	d->all = true;
}

int dirs_open(struct dirs *d, int top, const char *ws, struct err *e)
{
	*d = (struct dirs){.top = top, .ws = ws};
	if (fchdir(top)) // the layer has no path here
		return err_sys(e, "enter the writable layer");
	begin(d);
	return 0;
}

static void mark(struct dirs *d, const char *path, bool tree, bool closed)
{
	for (size_t i = 0; i < d->n_dirty; i++)
		if (!strcmp(d->dirty[i].path, path)) {
			d->dirty[i].tree |= tree;
			d->dirty[i].closed |= closed;
			return;
		}
	if (d->n_dirty == DIRTY_MAX)
		d->all = true;
	else
		d->dirty[d->n_dirty++] = (struct dirty){xstrdup(path), tree, closed};
}

static void on_news(struct dirs *d, const struct inotify_event *ev)
{
	const char *dir = ev->wd >= 0 && ev->wd < d->n_paths ? d->path[ev->wd] : NULL;
	if (ev->mask & IN_Q_OVERFLOW)
		d->all = true;
	if (!dir)
		return;
	if (ev->mask & IN_IGNORED) {
		forget(d, ev->wd);
		return;
	}
	if (!ev->len || !ev->name[0] || !strcmp(ev->name, ".git"))
		return;
	auto_free char *path = xasprintf("%s%s%s", dir, *dir ? "/" : "", ev->name);
	bool tree = ev->mask & IN_ISDIR;
	if (tree && ev->mask & (IN_MOVED_FROM | IN_DELETE))
		forget_tree(d, path);
	if (tree && ev->mask & (IN_CREATE | IN_MOVED_TO))
		add_tree(d, path, 0);
	if (d->n_dirty < DIRTY_MAX || !d->all)
		mark(d, path, tree, ev->mask & IN_CLOSE_WRITE);
}

void dirs_read(struct dirs *d)
{
	char bytes[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n;
	while (d->fd >= 0 && (n = read(d->fd, bytes, sizeof bytes)) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct inotify_event *ev = (const struct inotify_event *)(bytes + at);
			on_news(d, ev);
			at += (ssize_t)(sizeof *ev + ev->len);
		}
	if (d->n_paths > NUMBERS_MAX)
		begin_again(d);
}

void dirs_clean(struct dirs *d)
{
	while (d->n_dirty)
		free(d->dirty[--d->n_dirty].path);
	d->all = false;
}

bool dirs_any(const struct dirs *d)
{
	return d->n_dirty || d->all;
}

// SPDX-License-Identifier: Apache-2.0
#include "init/changes.h"

#include "base/mem.h"
#include "model/limits.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define DEPTH_MAX 200

struct walk {
	struct changes *out;
	struct buf path;
	uint64_t looked;
};

static void note(struct walk *w, char kind, const char *name)
{
	w->out->count++;
	if (w->out->count > LIMIT_CHANGES_LISTED)
		return;
	auto_free char *line = xasprintf("%c %s%s", kind, buf_cstr(&w->path), name);
	strv_add(&w->out->list, line);
}

static bool same_bytes(int a, int b)
{
	char pa[32768], pb[32768];
	for (;;) {
		ssize_t na = read(a, pa, sizeof pa), nb = na < 0 ? -1 : read(b, pb, sizeof pb);
		if (na != nb || na < 0 || memcmp(pa, pb, (size_t)na))
			return false;
		if (!na)
			return true;
	}
}

static bool same_file(int up, int low, const char *name, const struct stat *u, const struct stat *l)
{
	if ((u->st_mode & (S_IFMT | 0111)) != (l->st_mode & (S_IFMT | 0111)))
		return false;
	if (S_ISLNK(u->st_mode)) {
		char a[4096], b[4096];
		ssize_t na = readlinkat(up, name, a, sizeof a), nb = readlinkat(low, name, b, sizeof b);
		return na == nb && na >= 0 && !memcmp(a, b, (size_t)na);
	}
	if (!S_ISREG(u->st_mode) || u->st_size != l->st_size)
		return false;
	auto_fd int a = openat(up, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	auto_fd int b = openat(low, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	return a >= 0 && b >= 0 && same_bytes(a, b);
}

static void walk_dir(struct walk *w, int up, int low, int depth);

static int open_sub(int dir, const char *name)
{
	return dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void walk_sub(struct walk *w, int up, int low, const char *name, int depth)
{
	char mark;
	size_t len = w->path.n;
	auto_fd int u = open_sub(up, name), l = open_sub(low, name);
	if (u < 0 || depth >= DEPTH_MAX) {
		note(w, 'M', name); // can not be looked into: never reported as unchanged
		return;
	}
	if (l < 0 && low >= 0 && !faccessat(low, name, F_OK, AT_SYMLINK_NOFOLLOW))
		note(w, 'D', name); // a file became a directory
	bool opaque = fgetxattr(u, "user.overlay.opaque", &mark, 1) == 1 && mark == 'y';
	buf_fmt(&w->path, "%s/", name);
	uint32_t before = w->out->count;
	walk_dir(w, u, opaque ? -1 : l, depth + 1);
	if (l < 0 && w->out->count == before)
		note(w, 'A', ""); // an empty new directory
	if (opaque && l >= 0)
		note(w, 'D', "(replaced)");
	w->path.n = len;
	if (w->path.p)
		w->path.p[len] = 0;
}

static void walk_entry(struct walk *w, int up, int low, const char *name, int depth)
{
	struct stat u, l;
	if (!strcmp(name, ".git") || fstatat(up, name, &u, AT_SYMLINK_NOFOLLOW))
		return;
	bool in_base = low >= 0 && !fstatat(low, name, &l, AT_SYMLINK_NOFOLLOW);
	if (S_ISCHR(u.st_mode) && u.st_rdev == makedev(0, 0)) {
		if (in_base)
			note(w, 'D', name);
	} else if (S_ISDIR(u.st_mode)) {
		walk_sub(w, up, low, name, depth);
	} else if (!in_base) {
		note(w, 'A', name);
	} else if (!same_file(up, low, name, &u, &l)) {
		note(w, 'M', name);
	}
}

static void walk_dir(struct walk *w, int up, int low, int depth)
{
	int fd = openat(up, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	if (!d)
		note(w, 'M', "(can not be read)");
	while (d && (ent = readdir(d))) {
		if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, ".."))
			continue;
		if (w->looked++ >= LIMIT_WALK) {
			note(w, 'M', "(more than can be listed)");
			break;
		}
		walk_entry(w, up, low, ent->d_name, depth);
	}
	if (d)
		closedir(d);
}

int changes_walk(int layer, int base, struct changes *out)
{
	struct walk w = {.out = out, .path = BUF_INIT(64 << 10)};
	*out = (struct changes){0};
	auto_fd int ws = open_sub(layer, "ws");
	if (ws < 0)
		return -1;
	walk_dir(&w, ws, base, 0);
	buf_done(&w.path);
	return 0;
}

void changes_done(struct changes *c)
{
	strv_free(c->list);
	*c = (struct changes){0};
}

// SPDX-License-Identifier: Apache-2.0
#include "workspace/gitstate.h"

#include "base/mem.h"
#include "base/str.h"
#include "workspace/gitdir.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WATCH_MAX 20000
// The kernel stamps files with the time of its last tick (at most 10 ms) where it has no finer ones.
#define TICK_NS 20000000ULL

struct mark {
	uint64_t dev, ino, size, mtime, ctime, mode; // all 0: absent
};

struct gitwatch {
	char *path;
	struct mark m;
	bool hint; // a directory whose own times only tell that nothing came into it or left it: no part of the state
	size_t under; // 1 + the hint that vouches for this absent file, or 0
};

static uint64_t ns_of(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static struct mark look(const char *path)
{
	struct stat st;
	if (lstat(path, &st))
		return (struct mark){0};
	return (struct mark){st.st_dev,		st.st_ino,	   (uint64_t)st.st_size,
			     ns_of(st.st_mtim), ns_of(st.st_ctim), st.st_mode};
}

// Takes path. The mark is of before anything behind it is read.
static void add(struct gitstate *s, char *path)
{
	if (s->n == WATCH_MAX) {
		s->crowded = true;
		free(path);
		return;
	}
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 64;
		s->watch = xrealloc(s->watch, s->cap * sizeof *s->watch);
	}
	s->watch[s->n++] = (struct gitwatch){.path = path, .m = look(path)};
}

static void add_all(struct gitstate *s, const char *dir, size_t hint, const char *const *names)
{
	for (; *names; names++) {
		add(s, xasprintf("%s/%s", dir, *names));
		if (!s->crowded && !s->watch[s->n - 1].m.mode && !strchr(*names, '/'))
			s->watch[s->n - 1].under = hint;
	}
}

// Most files are absent most of the time; one look at their directory is one instead of twenty.
static size_t add_hint(struct gitstate *s, const char *dir)
{
	add(s, xstrdup(dir));
	s->watch[s->n - 1].hint = true;
	return s->n;
}

static DIR *list(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		close_fd(&fd);
	return d;
}

static bool is_dir(DIR *d, const struct dirent *ent)
{
	struct stat st;
	if (ent->d_name[0] == '.') // never part of a ref; a submodule of such a name is not carried either
		return false;
	if (ent->d_type != DT_UNKNOWN)
		return ent->d_type == DT_DIR;
	return !fstatat(dirfd(d), ent->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode);
}

static void add_refs(struct gitstate *s, const char *path, int depth)
{
	struct dirent *ent;
	add(s, xstrdup(path));
	DIR *d = depth < GITDIR_DEPTH && s->n < WATCH_MAX ? list(path) : NULL;
	while (d && !s->crowded && (ent = readdir(d)))
		if (is_dir(d, ent)) {
			auto_free char *below = xasprintf("%s/%s", path, ent->d_name);
			add_refs(s, below, depth + 1);
		}
	if (d)
		closedir(d);
}

static void add_modules(struct gitstate *s, const char *dir, int depth);

static void add_repository(struct gitstate *s, const char *dir, const char *common, int depth)
{
	size_t own_hint = add_hint(s, dir), hint = strcmp(dir, common) ? add_hint(s, common) : own_hint;
	add_all(s, dir, own_hint, gitdir_own_files);
	add_all(s, dir, own_hint, gitdir_own_dirs);
	add_all(s, common, hint, gitdir_shared_files);
	auto_free char *refs = xasprintf("%s/refs", common), *own = xasprintf("%s/refs", dir),
		       *modules = xasprintf("%s/modules", dir);
	add_refs(s, refs, 0);
	if (strcmp(dir, common))
		add_refs(s, own, 0);
	add_modules(s, modules, depth + 1);
}

// Submodules: a directory with a HEAD is one, others lead to some (names may have slashes).
static void add_modules(struct gitstate *s, const char *dir, int depth)
{
	struct dirent *ent;
	add(s, xstrdup(dir));
	DIR *d = depth < GITDIR_DEPTH && s->n < WATCH_MAX ? list(dir) : NULL;
	while (d && !s->crowded && (ent = readdir(d))) {
		if (!is_dir(d, ent))
			continue;
		auto_free char *sub = xasprintf("%s/%s", dir, ent->d_name), *head = xasprintf("%s/HEAD", sub);
		if (!access(head, F_OK))
			add_repository(s, sub, sub, depth);
		else
			add_modules(s, sub, depth + 1);
	}
	if (d)
		closedir(d);
}

// One from the future tells of a clock that was set back.
static bool is_young(const struct mark *m, uint64_t now)
{
	return m->ctime + TICK_NS > now && m->ctime < now + TICK_NS;
}

static void make_key(struct gitstate *s, uint64_t now)
{
	struct sha256 h;
	sha256_init(&h);
	sha256_add(&h, "gitlayer 1\n", 11); // of the form that is made from it
	for (size_t i = 0; i < s->n; i++) {
		struct gitwatch *w = &s->watch[i];
		if (w->hint) {
			if (is_young(&w->m, now))
				w->m = (struct mark){0}; // vouches for nothing
			continue;
		}
		sha256_add(&h, w->path, strlen(w->path) + 1);
		sha256_add(&h, &w->m, sizeof w->m);
		if (is_young(&w->m, now))
			s->young = true;
	}
	sha256_end_hex(&h, s->key);
}

int gitstate_read(const char *base, struct gitstate *out, struct err *e)
{
	struct gitstate s = {0};
	struct gitdir g;
	struct timespec ts;
	struct err why;
	struct stat st;
	if (stat(base, &st))
		return err_sys(e, "%s", base);
	clock_gettime(CLOCK_REALTIME, &ts);
	add(&s, xasprintf("%s/.git", base));
	if (s.watch[0].m.mode && S_ISDIR(s.watch[0].m.mode))
		s.watch[0].m.mtime = s.watch[0].m.ctime = s.watch[0].m.size = 0; // lock files come and go in it
	int rc = gitdir_open(base, &g, &why);
	if (rc < 0) {
		s.young = true; // it may be mended on the other side
		if (fmt_to(s.why, sizeof s.why, "%s", why.msg))
			s.why[0] = 0;
		make_key(&s, 0);
	}
	if (rc > 0) {
		s.git = true;
		if (g.linked || g.file)
			add(&s, xasprintf("%s/gitdir", g.dir));
		add_repository(&s, g.dir, g.common, 0);
		make_key(&s, ns_of(ts));
		gitdir_close(&g);
	}
	*out = s;
	return 0;
}

void gitstate_done(struct gitstate *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->watch[i].path);
	free(s->watch);
	*s = (struct gitstate){0};
}

static bool is_same(const struct gitwatch *w, bool top)
{
	struct mark now = look(w->path);
	if (top && S_ISDIR(now.mode))
		now.mtime = now.ctime = now.size = 0;
	return !memcmp(&now, &w->m, sizeof now);
}

bool gitstate_same(const struct gitstate *s)
{
	size_t good = 0; // 1 + the hint that held last: it stands before those it vouches for
	size_t good2 = 0;
	if (s->young || s->crowded || !s->n)
		return false;
	for (size_t i = 0; i < s->n; i++) {
		const struct gitwatch *w = &s->watch[i];
		if (w->under && (w->under == good || w->under == good2))
			continue;
		bool same = is_same(w, !i);
		if (w->hint) {
			good2 = good;
			good = same ? i + 1 : 0;
		} else if (!same) {
			return false;
		}
	}
	return true;
}

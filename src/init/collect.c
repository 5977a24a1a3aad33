// SPDX-License-Identifier: Apache-2.0
// The job that sends a sandbox's changes to skep-review. The reader says first what it wants and what it has a copy of
// (delta_ask): each file is sent once however many names it has, holes are sent as holes, and a file that has not changed
// since the reader's copy is only named. What is not asked for, or past the reader's limits, is named with its size.
#include "init/collect.h"

#include "base/clock.h"
#include "base/delta.h"
#include "base/fs.h"
#include "base/mem.h"
#include "init/ignored.h"
#include "init/stack.h"
#include "model/treename.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEND_MAX (8ULL << 30) // a file longer than this is named, not sent: sparse ones have no end
#define ASK_MAX (64u << 20)
#define FRESH_NS 100000000ULL // more than a tick of the clock that files are stamped with
#define LONG_PATH 3968	      // longer ones leave no room for a temporary name beside them
#define CUT_PATH 1000

static const struct changes_of *layers;
static const char *workspace;
static struct changes_of kept;
static int kept_lowers[STACK_MAX], kept_homes[STACK_MAX];

void collect_init(const struct changes_of *of, const char *ws_path)
{
	layers = of;
	workspace = ws_path;
}

bool collect_is(char *const *argv)
{
	return argv[0] && (!strcmp(argv[0], "collect") || !strcmp(argv[0], "watch"));
}

// dup2 twice: a target number may be one of those still to be moved.
static int move_down(const int *fds, int n, int from)
{
	for (int i = 0; i < n; i++)
		if (fds[i] >= 0 && dup3(fds[i], 500 + i, O_CLOEXEC) < 0)
			return -1;
	for (int i = 0; i < n; i++)
		if (fds[i] >= 0 && dup3(500 + i, from + i, O_CLOEXEC) < 0)
			return -1;
	return from + n;
}

int collect_keep(int from)
{
	int fds[2 * STACK_MAX + 2], n = layers ? layers->n_lowers : 0;
	if (!layers || n > STACK_MAX)
		return from;
	kept = *layers;
	fds[0] = layers->layer;
	fds[1] = layers->base;
	for (int i = 0; i < n; i++) {
		fds[2 + i] = layers->lowers[i];
		fds[2 + n + i] = layers->homes ? layers->homes[i] : -1;
	}
	int end = move_down(fds, 2 * n + 2, from);
	if (end < 0)
		return from;
	kept.layer = fds[0] < 0 ? -1 : from;
	kept.base = fds[1] < 0 ? -1 : from + 1;
	for (int i = 0; i < n; i++) {
		kept_lowers[i] = fds[2 + i] < 0 ? -1 : from + 2 + i;
		kept_homes[i] = fds[2 + n + i] < 0 ? -1 : from + 2 + n + i;
	}
	kept.lowers = kept_lowers;
	kept.homes = kept_homes;
	return end;
}

const struct changes_of *collect_layers(const char **out_workspace)
{
	*out_workspace = workspace;
	return &kept;
}

// Files of which more than one name changed: the first name sent.
struct link_name {
	uint64_t dev, ino;
	char *path;
};

struct collecting {
	struct delta_out out;
	int ws; // the workspace as it is seen inside
	struct delta_ask ask;
	uint32_t *by_ino; // places in ask.known, sorted
	struct link_name *links; // a hash table by inode
	size_t n_links, cap_links;
	bool asked; // the reader knows marks, holes and links
	uint64_t sent; // bytes of contents
	struct err e;
	bool failed;
	struct known told; // paths that are changed files
	struct ignored rules;
	char **gits;
};

static int put_link(struct collecting *c, const char *path)
{
	char target[DELTA_PATH + 1];
	auto_fd int fd = fs_open_beneath(c->ws, path, O_PATH | O_NOFOLLOW, 0, &c->e);
	ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof target - 1);
	if (n <= 0 || n > DELTA_PATH)
		return delta_put(&c->out, 'u', false, path, &c->e);
	target[n] = 0;
	return delta_put_link(&c->out, path, target, &c->e);
}

static uint64_t ns_of(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static struct delta_mark mark_of(const struct stat *st)
{
	return (struct delta_mark){st->st_dev, st->st_ino, (uint64_t)st->st_size, ns_of(st->st_mtim), ns_of(st->st_ctim)};
}

// A file that was written a moment ago may be written again without a new time: its mark says nothing yet.
static bool mark_is_fresh(const struct delta_mark *m)
{
	return clock_unix_ms() * 1000000ULL < m->ctime_ns + FRESH_NS;
}

// --- what the reader has ---

static const struct delta_mark *sorted_known; // qsort has no context

static int by_inode(const void *a, const void *b)
{
	uint64_t x = sorted_known[*(const uint32_t *)a].ino, y = sorted_known[*(const uint32_t *)b].ino;
	return x < y ? -1 : x > y;
}

static void known_sort(struct collecting *c)
{
	c->by_ino = xcalloc(c->ask.n_known + 1, sizeof *c->by_ino);
	for (size_t i = 0; i < c->ask.n_known; i++)
		c->by_ino[i] = (uint32_t)i;
	sorted_known = c->ask.known;
	if (c->ask.n_known)
		qsort(c->by_ino, c->ask.n_known, sizeof *c->by_ino, by_inode);
}

// -1: the reader has no copy of it.
static int64_t known_place(const struct collecting *c, const struct delta_mark *m)
{
	size_t lo = 0, hi = c->ask.n_known;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (c->ask.known[c->by_ino[mid]].ino < m->ino)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < c->ask.n_known && c->ask.known[c->by_ino[lo]].ino == m->ino; lo++)
		if (!memcmp(&c->ask.known[c->by_ino[lo]], m, sizeof *m))
			return c->by_ino[lo];
	return -1;
}

// --- names of one file ---

static struct link_name *link_slot(const struct collecting *c, uint64_t dev, uint64_t ino)
{
	size_t i = (ino * 0x9e3779b97f4a7c15ULL ^ dev) & (c->cap_links - 1);
	while (c->links[i].path && (c->links[i].ino != ino || c->links[i].dev != dev))
		i = (i + 1) & (c->cap_links - 1);
	return &c->links[i];
}

static void links_grow(struct collecting *c)
{
	struct link_name *old = c->links;
	size_t n = c->cap_links;
	c->cap_links = n ? n * 2 : 256;
	c->links = xcalloc(c->cap_links, sizeof *c->links);
	for (size_t i = 0; i < n; i++)
		if (old[i].path)
			*link_slot(c, old[i].dev, old[i].ino) = old[i];
	free(old);
}

static const char *link_find(const struct collecting *c, const struct stat *st)
{
	return st->st_nlink > 1 && c->cap_links ? link_slot(c, st->st_dev, st->st_ino)->path : NULL;
}

static void link_note(struct collecting *c, const struct stat *st, const char *path)
{
	if (st->st_nlink < 2 || treename_path_has_git(path)) // the reader discards that one
		return;
	if (c->n_links * 2 >= c->cap_links)
		links_grow(c);
	struct link_name *l = link_slot(c, st->st_dev, st->st_ino);
	if (l->path)
		return;
	*l = (struct link_name){st->st_dev, st->st_ino, xstrdup(path)};
	c->n_links++;
}

// --- one change ---

// Sends the content. up: as the layer has it; NULL where it is not known.
static int send_file(struct collecting *c, const char *path, int fd, const struct stat *st, const struct stat *up)
{
	struct delta_mark m = up ? mark_of(up) : (struct delta_mark){0};
	bool same = up && up->st_size == st->st_size && ns_of(up->st_mtim) == ns_of(st->st_mtim) && ns_of(up->st_ctim) == ns_of(st->st_ctim);
	if (!same || mark_is_fresh(&m))
		m = (struct delta_mark){0};
	c->sent += (uint64_t)st->st_size;
	if (up)
		link_note(c, up, path);
	return c->asked ? delta_put_marked(&c->out, path, fd, &m, &c->e) : delta_put_fd(&c->out, path, fd, &c->e);
}

// 1: said without its content being read.
static int put_unread(struct collecting *c, const char *path, const struct stat *st, bool layer)
{
	bool exec = st->st_mode & 0111;
	uint64_t size = (uint64_t)st->st_size;
	const char *first = layer ? link_find(c, st) : NULL;
	if (first && c->asked)
		return delta_put_same(&c->out, path, exec, first, &c->e) ? -1 : 1;
	struct delta_mark m = mark_of(st);
	int64_t place = layer && !mark_is_fresh(&m) ? known_place(c, &m) : -1;
	if (place >= 0 && size <= c->ask.total_max - c->sent) {
		c->sent += size;
		link_note(c, st, path);
		return delta_put_known(&c->out, path, exec, (uint64_t)place, &c->e) ? -1 : 1;
	}
	if (!delta_path_meets(c->ask.paths, path))
		return delta_put_size(&c->out, 'n', path, exec, size, &c->e) ? -1 : 1;
	if (size > SEND_MAX || size > c->ask.file_max || size > c->ask.total_max - c->sent)
		return delta_put_size(&c->out, 'h', path, exec, size, &c->e) ? -1 : 1;
	return 0;
}

// dir: it was told as an empty directory. Another one is one that the walk could not look into, and is said to be so.
static int put_file(struct collecting *c, const char *path, const struct stat *up, bool dir)
{
	struct stat st;
	int rc = up && S_ISREG(up->st_mode) ? put_unread(c, path, up, true) : 0;
	if (rc)
		return rc < 0 ? -1 : 0;
	// O_NONBLOCK: whatever it is by now, opening it must not wait
	auto_fd int fd = fs_open_beneath(c->ws, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0, &c->e);
	if (fd < 0 && c->e.sys == ELOOP)
		return put_link(c, path);
	if (fd < 0 && (c->e.sys == ENOENT || c->e.sys == ENOTDIR))
		return 0; // gone since it was listed
	if (fd < 0 && c->e.sys == ENXIO)
		return delta_put(&c->out, 's', false, path, &c->e);
	if (fd < 0 || fstat(fd, &st))
		return delta_put(&c->out, 'u', false, path, &c->e);
	if (S_ISDIR(st.st_mode))
		return delta_put(&c->out, dir ? 'd' : 'u', false, path, &c->e);
	if (!S_ISREG(st.st_mode))
		return delta_put(&c->out, 's', false, path, &c->e);
	rc = put_unread(c, path, &st, false); // another one than was listed
	if (rc)
		return rc < 0 ? -1 : 0;
	return send_file(c, path, fd, &st, up);
}

// A path that no call takes as a whole is named by its beginning: it can not be handled, and all others go on.
static int put_too_long(struct collecting *c, const char *path)
{
	size_t n = strlen(path), cut = CUT_PATH;
	while (cut && path[cut] != '/')
		cut--;
	auto_free char *name = xasprintf("%.*s/(a path of %zu bytes)", (int)cut, path, n);
	return delta_put(&c->out, 'u', false, name, &c->e);
}

// What a file became a directory over is told as gone, and then what is in the directory.
static int put_gone(struct collecting *c, const char *path)
{
	struct err none;
	auto_fd int fd = fs_open_beneath(c->ws, path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, &none);
	return delta_put(&c->out, fd < 0 ? 'x' : 'd', false, path, &c->e);
}

// A .git in what is ignored holds other people's work.
static void git_found(struct collecting *c, const char *path)
{
	auto_free char *dir = xstrndup(path, strlen(path) - strlen(".git"));
	if (!ignored_is(&c->rules, dir, true, false))
		strv_add(&c->gits, path);
}

static bool is_told(void *ctx, const char *path)
{
	return known_find(&((struct collecting *)ctx)->told, path) != NULL;
}

// Under names that no file of the workspace has (base/delta.h).
static void put_extra(struct collecting *c, const char *where, const char *what)
{
	auto_free char *path = xasprintf("%s%s", where, what);
	if (!c->failed && delta_path_ok(path))
		c->failed = delta_put(&c->out, 'r', false, path, &c->e);
}

static void on_gitwork(void *ctx, const char *what)
{
	put_extra(ctx, DELTA_WORK_GIT, what);
}

static void on_outside(void *ctx, const char *path)
{
	put_extra(ctx, DELTA_WORK_HOME, path);
}

static void on_change(void *ctx, const struct stack_change *change)
{
	struct collecting *c = ctx;
	const char *path = change->path;
	size_t n = strlen(path);
	if (change->kind == 'G')
		git_found(c, path);
	else if (change->kind != 'D' && !known_find(&c->told, path))
		known_add(&c->told, path);
	const char *slash = strrchr(path, '/');
	auto_free char *plain = xstrndup(path, n && path[n - 1] == '/' ? n - 1 : n);
	if (c->failed)
		return;
	int rc;
	if (strlen(plain) > LONG_PATH)
		rc = put_too_long(c, plain);
	else if ((slash ? slash[1] : path[0]) == '(' && faccessat(c->ws, plain, F_OK, AT_SYMLINK_NOFOLLOW))
		rc = delta_put(&c->out, 'u', false, plain, &c->e); // the walk's own word for what it could not look at
	else if (change->kind == 'G')
		rc = delta_put(&c->out, 'g', false, plain, &c->e);
	else if (change->kind == 'D')
		rc = put_gone(c, plain);
	else
		rc = put_file(c, plain, change->up, n && path[n - 1] == '/');
	c->failed = rc;
}

// What is wanted stands on stdin; nothing there asks for everything.
static int read_ask(struct collecting *c, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(ASK_MAX);
	if (fs_read_fd(0, &b, e))
		return -1;
	c->asked = b.n;
	if (delta_ask_read(b.p, b.n, &c->ask, e))
		return -1;
	known_sort(c);
	return 0;
}

static void collecting_done(struct collecting *c)
{
	for (size_t i = 0; i < c->cap_links; i++)
		free(c->links[i].path);
	free(c->links);
	free(c->by_ino);
	delta_ask_done(&c->ask);
	delta_out_done(&c->out);
}

int collect_run(struct err *e)
{
	struct collecting c = {.ws = -1};
	struct stack s;
	auto_fd int ws = workspace ? fs_open(AT_FDCWD, workspace, O_RDONLY | O_DIRECTORY, 0, e)
				   : err_set(e, ERR_UNSUPPORTED, "there is no workspace to collect from");
	if (ws < 0 || read_ask(&c, e))
		return -1;
	auto_fd int top = changes_stack(&kept, &s);
	if (top < 0) {
		collecting_done(&c);
		return err_sys(e, "open the writable layer");
	}
	s.all = true;
	c.ws = ws;
	ignored_begin(&c.rules, &s);
	delta_out_init(&c.out, 1);
	int rc = stack_each(&s, "", on_change, &c, e);
	if (!rc)
		changes_extra(&kept, &s, c.gits, &(struct changes_each){on_gitwork, is_told, on_outside, &c});
	ignored_end(&c.rules);
	known_done(&c.told);
	strv_free(c.gits);
	if (!rc && c.failed) {
		*e = c.e;
		rc = -1;
	}
	if (!rc)
		rc = delta_end(&c.out, e);
	collecting_done(&c);
	return rc;
}

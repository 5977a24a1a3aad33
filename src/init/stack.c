// SPDX-License-Identifier: Apache-2.0
#include "init/stack.h"

#include "base/buf.h"
#include "base/mem.h"
#include "init/names.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define DEPTH_MAX 200

struct walk {
	stack_change_fn *fn;
	void *ctx;
	struct buf path;
	uint64_t looked, told;
	bool all, git;
};

enum seen { SEEN_NOTHING, SEEN_FILE, SEEN_DIR };

// What one side shows under a name.
struct view {
	enum seen seen;
	bool closed;   // it hides whatever is below this side
	int dir;       // SEEN_FILE: where it lies
	struct stat st; // of the topmost
	struct stack_dir chain; // SEEN_DIR
};

void stack_add(struct stack *s, bool lower, int fd)
{
	int *n = lower ? &s->n_lower : &s->n_upper;
	if (fd >= 0 && *n < STACK_MAX)
		(lower ? s->lower : s->upper)[(*n)++] = fd;
}

bool stack_is_whiteout(int dir, const char *name, const struct stat *st)
{
	if (S_ISCHR(st->st_mode))
		return st->st_rdev == makedev(0, 0);
	if (!S_ISREG(st->st_mode) || st->st_size)
		return false;
	auto_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	return fd >= 0 && fgetxattr(fd, "user.overlay.whiteout", NULL, 0) >= 0;
}

bool stack_is_opaque(int dir)
{
	char mark;
	return fgetxattr(dir, "user.overlay.opaque", &mark, 1) == 1 && mark == 'y';
}

// u, l: what each side shows there, or NULL; up: the directory as upper has it
static void note_views(struct walk *w, char kind, const char *name, const struct view *u, const struct view *l, const struct stack_dir *up)
{
	size_t len = w->path.n;
	buf_str(&w->path, name);
	struct stack_change c = {.kind = kind, .path = buf_cstr(&w->path), .name = name, .up_dir = -1, .low_dir = -1,
				 .parent = up && up->n ? up->fd[0] : -1};
	if (u && u->seen)
		c.up = &u->st;
	if (u && u->seen == SEEN_FILE)
		c.up_dir = u->dir;
	if (l && l->seen)
		c.low = &l->st;
	if (l && l->seen == SEEN_FILE)
		c.low_dir = l->dir;
	w->fn(w->ctx, &c);
	w->told++;
	w->path.n = len;
	if (w->path.p)
		w->path.p[len] = 0;
}

static void note(struct walk *w, char kind, const char *name)
{
	note_views(w, kind, name, NULL, NULL, NULL);
}

void stack_dir_close(struct stack_dir *c)
{
	while (c->n)
		close(c->fd[--c->n]);
}

// --- one name, one side ---

// Adds what one layer has there. True: layers below do not matter.
static bool view_layer(struct view *v, int dir, const char *name)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return false;
	if (stack_is_whiteout(dir, name, &st) || (!S_ISDIR(st.st_mode) && v->seen == SEEN_DIR)) {
		v->closed = true;
		return true;
	}
	if (!v->seen)
		v->st = st;
	if (!S_ISDIR(st.st_mode)) {
		v->seen = SEEN_FILE;
		v->dir = dir;
		v->closed = true;
		return true;
	}
	v->seen = SEEN_DIR;
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) { // its descriptor stands for all that is unknown below
		stack_dir_close(&v->chain);
		v->chain.n = 0;
		v->closed = true;
		return true;
	}
	v->chain.fd[v->chain.n++] = fd;
	v->closed = stack_is_opaque(fd);
	return v->closed;
}

static void view_name(const struct stack_dir *c, const char *name, struct view *out)
{
	*out = (struct view){0};
	for (int i = 0; i < c->n; i++)
		if (view_layer(out, c->fd[i], name))
			return;
}

static int list_names(struct walk *w, const struct stack_dir *c, struct names *out)
{
	size_t max = w->looked < LIMIT_WALK ? LIMIT_WALK - w->looked : 0;
	for (int i = 0; i < c->n; i++)
		if (names_read(out, c->fd[i], i, max))
			return -1;
	w->looked += out->n;
	names_sort(out);
	return 0;
}

// Each name once; never .git.
static bool is_due(const struct names *n, size_t i)
{
	return strcmp(n->list[i].name, ".git") && (!i || strcmp(n->list[i].name, n->list[i - 1].name));
}

// --- comparing ---

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

static bool same_file(const struct view *u, const struct view *l, const char *name)
{
	if ((u->st.st_mode & (S_IFMT | 0111)) != (l->st.st_mode & (S_IFMT | 0111)))
		return false;
	if (u->st.st_ino == l->st.st_ino && u->st.st_dev == l->st.st_dev)
		return true;
	if (S_ISLNK(u->st.st_mode)) {
		char a[4096], b[4096];
		ssize_t na = readlinkat(u->dir, name, a, sizeof a), nb = readlinkat(l->dir, name, b, sizeof b);
		return na == nb && na >= 0 && !memcmp(a, b, (size_t)na);
	}
	if (!S_ISREG(u->st.st_mode))
		return u->st.st_rdev == l->st.st_rdev; // a fifo is as good as another
	if (u->st.st_size != l->st.st_size)
		return false;
	auto_fd int a = openat(u->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	auto_fd int b = openat(l->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	return a >= 0 && b >= 0 && same_bytes(a, b);
}

// --- the walk ---

// closed: upper hides what lower has here; then it does so in everything below, too.
static void walk_dir(struct walk *w, const struct stack_dir *up, const struct stack_dir *low, bool closed, int depth);

static void walk_sub(struct walk *w, const char *name, struct view *u, struct view *l, int depth)
{
	static const struct stack_dir none;
	size_t len = w->path.n;
	if (!u->chain.n || depth >= DEPTH_MAX) {
		note(w, 'M', name); // can not be looked into: never told as unchanged
		return;
	}
	if (l->seen == SEEN_FILE)
		note_views(w, 'D', name, NULL, l, &u->chain); // a file became a directory
	buf_str(&w->path, name);
	buf_byte(&w->path, '/');
	uint64_t before = w->told;
	walk_dir(w, &u->chain, l->seen == SEEN_DIR ? &l->chain : &none, u->closed, depth + 1);
	if (l->seen != SEEN_DIR && w->told == before)
		note_views(w, 'A', "", u, NULL, &u->chain); // an empty new directory
	w->path.n = len;
	w->path.p[len] = 0;
}

static void walk_name(struct walk *w, const char *name, const struct stack_dir *up, const struct stack_dir *low, bool closed, int depth)
{
	struct view u, l;
	view_name(up, name, &u);
	view_name(low, name, &l);
	bool whiteout = w->all && u.closed && u.seen == SEEN_NOTHING;
	u.closed |= closed;
	if (u.seen == SEEN_DIR)
		walk_sub(w, name, &u, &l, depth);
	else if (u.seen == SEEN_FILE && l.seen == SEEN_NOTHING)
		note_views(w, 'A', name, &u, NULL, up);
	else if (u.seen == SEEN_FILE && (l.seen == SEEN_DIR || !same_file(&u, &l, name)))
		note_views(w, 'M', name, &u, &l, up);
	else if (u.seen == SEEN_NOTHING && (l.seen || whiteout))
		note_views(w, 'D', name, NULL, &l, up);
	stack_dir_close(&u.chain);
	stack_dir_close(&l.chain);
}

// What upper hides without naming it.
static void walk_hidden(struct walk *w, const struct names *shown, const struct stack_dir *up, const struct stack_dir *low)
{
	auto_names struct names n = {0};
	if (list_names(w, low, &n))
		note(w, 'D', "(can not be read)");
	for (size_t i = 0; i < n.n; i++) {
		struct view l;
		if (!is_due(&n, i) || names_have(shown, n.list[i].name))
			continue;
		view_name(low, n.list[i].name, &l);
		if (l.seen)
			note_views(w, 'D', n.list[i].name, NULL, &l, up);
		stack_dir_close(&l.chain);
	}
}

static void walk_dir(struct walk *w, const struct stack_dir *up, const struct stack_dir *low, bool closed, int depth)
{
	auto_names struct names n = {0};
	if (list_names(w, up, &n))
		note(w, 'M', "(can not be read)");
	for (size_t i = 0; i < n.n; i++)
		if (is_due(&n, i))
			walk_name(w, n.list[i].name, up, low, closed, depth);
		else if ((w->all || w->git) && depth && !strcmp(n.list[i].name, ".git"))
			note(w, 'G', ".git");
	if (closed && low->n)
		walk_hidden(w, &n, up, low);
	if (w->looked == LIMIT_WALK) {
		w->looked++; // said once
		note(w, 'M', "(more than can be listed)");
	}
}

// --- one path ---

// Is anything of upper between the top and this name? Else it is as lower has it.
static bool touches(const struct view *u, bool closed)
{
	return u->seen || u->closed || closed;
}

// Walks down to the last name of path, then looks at that one alone and all below it.
static void walk_path(struct walk *w, const char *path, const struct stack_dir *up, const struct stack_dir *low, bool closed, int depth)
{
	static const struct stack_dir none;
	size_t n = strcspn(path, "/"), len = w->path.n;
	auto_free char *name = xstrndup(path, n);
	struct view u, l;
	bool last = !path[n] || !path[n + 1];
	if (!n || !strcmp(name, ".git") || depth >= DEPTH_MAX)
		return;
	view_name(up, name, &u);
	view_name(low, name, &l);
	if (touches(&u, closed) && (last || u.seen != SEEN_DIR)) {
		walk_name(w, name, up, low, closed, depth);
	} else if (touches(&u, closed) && u.chain.n) {
		buf_str(&w->path, name);
		buf_byte(&w->path, '/');
		walk_path(w, path + n + 1, &u.chain, l.seen == SEEN_DIR ? &l.chain : &none, closed || u.closed, depth + 1);
		w->path.n = len;
		w->path.p[len] = 0;
	}
	stack_dir_close(&u.chain);
	stack_dir_close(&l.chain);
}

int stack_each(const struct stack *s, const char *at, stack_change_fn *fn, void *ctx, struct err *e)
{
	struct walk w = {.fn = fn, .ctx = ctx, .path = BUF_INIT(64 << 10), .all = s->all, .git = s->git};
	struct stack_dir up = {.n = s->n_upper}, low = {.n = s->n_lower};
	if (!up.n)
		return err_set(e, ERR_NOT_FOUND, "there is no layer to look at");
	memcpy(up.fd, s->upper, sizeof up.fd);
	memcpy(low.fd, s->lower, sizeof low.fd);
	if (*at)
		walk_path(&w, at, &up, &low, false, 0);
	else
		walk_dir(&w, &up, &low, false, 0);
	buf_done(&w.path);
	return 0;
}

// --- one directory, by name ---

void stack_dir_top(const struct stack *s, enum stack_side side, struct stack_dir *out)
{
	*out = (struct stack_dir){0};
	for (int i = 0; side != STACK_LOWER && i < s->n_upper && out->n < STACK_MAX; i++)
		out->fd[out->n++] = s->upper[i];
	for (int i = 0; side != STACK_UPPER && i < s->n_lower && out->n < STACK_MAX; i++)
		out->fd[out->n++] = s->lower[i];
}

bool stack_dir_enter(const struct stack_dir *d, const char *path, struct stack_dir *out)
{
	struct stack_dir at = *d;
	bool own = false, found = true;
	auto_free char *copy = xstrdup(path);
	char *save = NULL;
	for (char *part = strtok_r(copy, "/", &save); part && found; part = strtok_r(NULL, "/", &save)) {
		struct view v;
		view_name(&at, part, &v);
		if (own)
			stack_dir_close(&at);
		own = true;
		at = v.chain;
		found = v.seen == SEEN_DIR && v.chain.n;
	}
	*out = found && own ? at : (struct stack_dir){0};
	return out->n > 0;
}

int stack_dir_open(const struct stack_dir *d, const char *name)
{
	struct view v;
	view_name(d, name, &v);
	stack_dir_close(&v.chain);
	if (v.seen != SEEN_FILE || !S_ISREG(v.st.st_mode))
		return -1;
	return openat(v.dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static enum stack_entry entry_of(const struct view *v)
{
	if (v->seen == SEEN_DIR)
		return STACK_DIR;
	if (v->seen == SEEN_NOTHING)
		return STACK_ABSENT;
	return S_ISREG(v->st.st_mode) ? STACK_FILE : STACK_OTHER;
}

enum stack_entry stack_dir_look(const struct stack_dir *d, const char *name)
{
	struct view v;
	view_name(d, name, &v);
	stack_dir_close(&v.chain);
	return entry_of(&v);
}

int stack_dir_names(const struct stack_dir *d, struct names *out, size_t max)
{
	for (int i = 0; i < d->n; i++)
		if (names_read(out, d->fd[i], i, max))
			return -1;
	names_sort(out);
	size_t to = 0;
	for (size_t i = 0; i < out->n; i++) {
		bool again = to && !strcmp(out->list[i].name, out->list[to - 1].name);
		if (again || stack_dir_look(d, out->list[i].name) == STACK_ABSENT) {
			free(out->list[i].name);
			continue;
		}
		out->list[to++] = out->list[i];
	}
	out->n = to;
	return 0;
}

struct plain {
	stack_fn *fn;
	void *ctx;
};

static void tell_plain(void *ctx, const struct stack_change *c)
{
	struct plain *p = ctx;
	p->fn(p->ctx, c->kind, c->path);
}

int stack_changes(const struct stack *s, stack_fn *fn, void *ctx, struct err *e)
{
	return stack_each(s, "", tell_plain, &(struct plain){fn, ctx}, e);
}

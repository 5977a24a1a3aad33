// SPDX-License-Identifier: Apache-2.0
#include "init/known.h"

#include "base/mem.h"
#include "base/sha256.h"
#include "model/glob.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// --- the table ---

static uint64_t fold(uint64_t h, const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ ((const uint8_t *)p)[i]) * 0x100000001b3ull;
	return h;
}

static struct known_entry **slot_of(const struct known *s, const char *path)
{
	return &s->slots[fold(0xcbf29ce484222325ull, path, strlen(path)) & (s->n_slots - 1)];
}

struct known_entry *known_find(const struct known *s, const char *path)
{
	struct known_entry *e = s->n_slots ? *slot_of(s, path) : NULL;
	while (e && strcmp(e->path, path))
		e = e->next;
	return e;
}

static void grow(struct known *s)
{
	struct known old = *s;
	s->n_slots = old.n_slots ? old.n_slots * 2 : 64;
	s->slots = xcalloc(s->n_slots, sizeof *s->slots);
	for (size_t i = 0; i < old.n_slots; i++)
		for (struct known_entry *e = old.slots[i], *next; e; e = next) {
			struct known_entry **at = slot_of(s, e->path);
			next = e->next;
			e->next = *at;
			*at = e;
		}
	free(old.slots);
}

struct known_entry *known_add(struct known *s, const char *path)
{
	size_t n = strlen(path) + 1;
	if (s->n >= KNOWN_MAX)
		return NULL;
	if (s->n >= s->n_slots)
		grow(s);
	struct known_entry *e = xcalloc(1, sizeof *e + n), **at = slot_of(s, path);
	memcpy(e->path, path, n);
	e->next = *at;
	*at = e;
	s->n++;
	return e;
}

void known_drop(struct known *s, const char *path)
{
	struct known_entry **p = s->n_slots ? slot_of(s, path) : NULL;
	while (p && *p && strcmp((*p)->path, path))
		p = &(*p)->next;
	if (!p || !*p)
		return;
	struct known_entry *e = *p;
	*p = e->next;
	free(e);
	s->n--;
}

void known_done(struct known *k)
{
	for (size_t i = 0; i < k->n_slots; i++)
		while (k->slots[i]) {
			struct known_entry *e = k->slots[i];
			k->slots[i] = e->next;
			free(e);
		}
	free(k->slots);
	*k = (struct known){0};
}

// --- hashes ---

static bool hash_link(int dir, const char *name, uint8_t out[32])
{
	char target[4096];
	struct sha256 h;
	ssize_t n = readlinkat(dir, name, target, sizeof target);
	if (n < 0)
		return false;
	sha256_init(&h);
	sha256_add(&h, target, (size_t)n);
	sha256_end(&h, out);
	return true;
}

// SHA-256 of a file's content or a link's target, as skep-review gives it. False: none, or no more may be read.
static bool hash_of(struct known_look *l, int dir, const char *name, const struct stat *st, uint8_t out[32])
{
	char bytes[32768];
	struct sha256 h;
	ssize_t n = -1;
	if (dir < 0 || !st || !l->hash_files)
		return false;
	if (S_ISLNK(st->st_mode))
		return hash_link(dir, name, out);
	if (!S_ISREG(st->st_mode) || (uint64_t)st->st_size > l->hash_bytes)
		return false;
	l->hash_bytes -= (uint64_t)st->st_size;
	auto_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	sha256_init(&h);
	for (uint64_t left = (uint64_t)st->st_size + 1; fd >= 0 && left && (n = read(fd, bytes, sizeof bytes)) > 0;) {
		sha256_add(&h, bytes, (size_t)n);
		left -= (uint64_t)n < left ? (uint64_t)n : left; // one that grows is not followed for ever
	}
	if (n < 0)
		return false;
	sha256_end(&h, out);
	return true;
}

// --- comparing ---

static bool is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

// What took a name away has no time of its own: its directory's then, whose change time is also that of a new mount.
static bool is_old(const struct known *s, const struct stack_change *c)
{
	struct stat st;
	if (c->up)
		return is_before(&c->up->st_ctim, &s->since);
	return c->parent >= 0 && !fstat(c->parent, &st) && (is_before(&st.st_ctim, &s->since) || is_before(&st.st_mtim, &s->since));
}

static uint64_t mark_of(const struct stack_change *c)
{
	const struct stat *st = c->up;
	if (!st || S_ISDIR(st->st_mode))
		return 1;
	uint64_t v[] = {st->st_ino, (uint64_t)st->st_size, st->st_mode, (uint64_t)st->st_mtim.tv_sec, (uint64_t)st->st_mtim.tv_nsec,
			(uint64_t)st->st_ctim.tv_sec, (uint64_t)st->st_ctim.tv_nsec};
	return fold(0xcbf29ce484222325ull, v, sizeof v) | 2;
}

static bool is_exec(const struct stat *st)
{
	return st && S_ISREG(st->st_mode) && (st->st_mode & 0100);
}

static void keep(struct known_entry *e, const struct stack_change *c, const struct known_event *ev)
{
	e->kind = c->kind;
	e->mark = mark_of(c);
	e->exec = ev->exec;
	e->hashed = ev->has_after;
	memcpy(e->sha, ev->after, sizeof e->sha);
}

static void tell_same(struct known_look *l, struct known_event *ev)
{
	ev->kind = 0;
	if (l->all)
		l->fn(l->ctx, ev);
}

// before: what it was when it was last told, or else what the base has.
static void compare(struct known_look *l, const struct stack_change *c, struct known_entry *e, bool known)
{
	struct known_event ev = {.path = c->path, .change = c, .entry = e, .exec = is_exec(c->up), .learned = true};
	bool was = known ? e->kind != 'D' : c->low != NULL, is = c->kind != 'D';
	if (known && e->hashed)
		memcpy(ev.before, e->sha, sizeof ev.before);
	ev.has_before = known ? e->hashed : hash_of(l, c->low_dir, c->name, c->low, ev.before);
	ev.has_after = hash_of(l, c->up_dir, c->name, c->up, ev.after);
	bool touched = known && was == is && e->exec == ev.exec && ev.has_before == ev.has_after &&
		       (is ? ev.has_after && !memcmp(ev.before, ev.after, sizeof ev.after) : true);
	ev.kind = !was ? 'A' : is ? 'M' : 'D';
	l->hash_files -= l->hash_files > 0;
	if (e)
		keep(e, c, &ev);
	if (touched)
		tell_same(l, &ev);
	else
		l->fn(l->ctx, &ev);
}

static void on_change(void *ctx, const struct stack_change *c)
{
	struct known_look *l = ctx;
	if (glob_covers(l->hide, c->path))
		return;
	if (c->kind == 'G') {
		if (l->git)
			l->git(l->ctx, c->path);
		return;
	}
	struct known_entry *e = known_find(l->known, c->path);
	bool known = e;
	if (!e)
		e = known_add(l->known, c->path);
	if (e)
		e->round = l->known->round;
	struct known_event ev = {.path = c->path, .change = c, .entry = e, .exec = is_exec(c->up)};
	if (known && e->kind == c->kind && e->mark == mark_of(c)) {
		tell_same(l, &ev);
	} else if (!known && is_old(l->known, c)) {
		ev.learned = true;
		if (e)
			keep(e, c, &ev);
		tell_same(l, &ev);
	} else {
		compare(l, c, e, known);
	}
}

static bool is_below(const char *path, const char *at)
{
	size_t n = strlen(at);
	return !n || (!strncmp(path, at, n) && (!path[n] || path[n] == '/'));
}

// An empty directory that something was put into is no longer told by itself; it is not gone.
static bool is_filled(const struct stack *s, const char *path)
{
	struct stat st;
	size_t n = strlen(path);
	return n && path[n - 1] == '/' && !fstatat(s->upper[0], path, &st, AT_SYMLINK_NOFOLLOW);
}

static void tell_gone(struct known_look *l, const struct stack *s, const struct known_entry *e)
{
	struct known_event ev = {.base = true, .learned = true, .path = e->path, .has_before = e->hashed};
	ev.kind = e->kind == 'A' ? 'D' : e->kind == 'D' ? 'A' : 'M';
	memcpy(ev.before, e->sha, sizeof ev.before);
	if (!is_filled(s, e->path))
		l->fn(l->ctx, &ev);
}

// Entries the walk did not meet are as the base has them again.
static void sweep_slot(struct known_look *l, const struct stack *s, struct known_entry **p, const char *at, bool tree)
{
	while (*p) {
		struct known_entry *e = *p;
		if (e->round == l->known->round || (tree ? !is_below(e->path, at) : strcmp(e->path, at) != 0)) {
			p = &e->next;
			continue;
		}
		tell_gone(l, s, e);
		*p = e->next;
		free(e);
		l->known->n--;
	}
}

int known_walk(const struct stack *s, const char *at, bool tree, struct known_look *l, struct err *e)
{
	struct known *n = l->known;
	n->round++;
	if (stack_each(s, at, on_change, l, e))
		return -1;
	if (!tree && n->n_slots)
		sweep_slot(l, s, slot_of(n, at), at, false);
	for (size_t i = 0; tree && i < n->n_slots; i++)
		sweep_slot(l, s, &n->slots[i], at, true);
	return 0;
}

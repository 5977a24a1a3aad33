// SPDX-License-Identifier: Apache-2.0
#include "init/changes.h"

#include "base/mem.h"
#include "base/str.h"
#include "init/gitwork.h"
#include "init/ignored.h"
#include "init/outside.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define HASH_BYTES (32ull << 20) // read for hashes in one walk: a command's end waits for it in `skep run`

struct walk {
	uint32_t count, ignored, n_git, n_outside, n_events, more;
	char **list, **gits, **extra; // gits: git directories further down. extra: what is pending beside files, by name
	struct ignored rules;
	const struct known *known;
	struct buf events, *news;
};

int changes_stack(const struct changes_of *of, struct stack *out)
{
	*out = (struct stack){0};
	int ws = openat(of->layer, "ws", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (ws < 0)
		return -1;
	stack_add(out, false, ws);
	for (int i = 0; i < of->n_lowers; i++)
		stack_add(out, i >= of->n_lowers - of->n_base_lowers, of->lowers[i]);
	stack_add(out, true, of->base);
	return ws;
}

static void put_sha(struct buf *b, bool has, const uint8_t sha[32])
{
	wire_bytes(b, sha, has ? 32 : 0);
}

static void put_event(struct walk *w, const struct known_event *ev)
{
	if (w->n_events == LIMIT_FILES_RECORDED) {
		w->more++;
		return;
	}
	w->n_events++;
	wire_u8(&w->events, (uint8_t)ev->kind);
	wire_u8(&w->events, ev->base);
	wire_u8(&w->events, ev->exec);
	wire_str(&w->events, ev->path);
	put_sha(&w->events, ev->has_before, ev->before);
	put_sha(&w->events, ev->has_after, ev->after);
}

// Whole or not at all: past the buffer's end the parent does not learn it, and hears of it again.
static void put_news(struct buf *b, const struct known_event *ev)
{
	const struct known_entry *e = ev->entry;
	if (!b || (!e && !ev->base) || b->max - b->n < strlen(ev->path) + 64)
		return;
	wire_u8(b, e ? (uint8_t)e->kind : 0);
	wire_str(b, ev->path);
	wire_u64(b, e ? e->mark : 0);
	wire_u8(b, e && e->exec);
	put_sha(b, e && e->hashed, e ? e->sha : ev->before);
}

static void note(void *ctx, const struct known_event *ev)
{
	struct walk *w = ctx;
	if (ev->kind)
		put_event(w, ev);
	if (ev->learned)
		put_news(w->news, ev);
	if (ev->base)
		return;
	const struct stack_change *c = ev->change;
	const struct stat *st = c->up ? c->up : c->low;
	if (ignored_is(&w->rules, c->path, st && S_ISDIR(st->st_mode), c->low)) {
		w->ignored++;
		return;
	}
	if (++w->count > LIMIT_CHANGES_LISTED)
		return;
	auto_free char *line = xasprintf("%c %s", ev->change->kind, ev->path);
	strv_add(&w->list, line);
}

static void on_git(void *ctx, const char *path)
{
	struct walk *w = ctx;
	size_t n = strlen(path) - strlen(".git");
	auto_free char *dir = xstrndup(path, n);
	if (!ignored_is(&w->rules, dir, true, false))
		strv_add(&w->gits, path);
}

// --- what is pending beside files of the workspace ---

static void extra_add(struct walk *w, char kind, const char *what)
{
	if (w->n_git + w->n_outside > LIMIT_CHANGES_LISTED)
		return;
	auto_free char *line = xasprintf("%c %s", kind, what);
	strv_add(&w->extra, line);
}

static void on_gitwork(void *ctx, const char *what)
{
	struct walk *w = ctx;
	w->n_git++;
	extra_add(w, 'G', what);
}

static bool is_told(void *ctx, const char *path)
{
	const struct walk *w = ctx;
	const struct known_entry *e = w->known ? known_find(w->known, path) : NULL;
	return e && e->round == w->known->round && e->kind != 'D';
}

static void on_outside(void *ctx, const char *path)
{
	struct walk *w = ctx;
	w->n_outside++;
	extra_add(w, 'H', path);
}

void changes_extra(const struct changes_of *of, const struct stack *s, char *const *gits, const struct changes_each *each)
{
	gitwork_each(s, ".git", each->git, each->is_told, each->ctx);
	for (char *const *g = gits; g && *g; g++)
		gitwork_each(s, *g, each->git, each->is_told, each->ctx);
	outside_each(of, each->outside, each->ctx);
}

int changes_walk(const struct changes_of *of, struct known *known, struct buf *answer, struct buf *news)
{
	struct walk w = {.events = BUF_INIT(1 << 20), .news = news, .known = known};
	struct stack s;
	struct err e;
	struct known_look l = {.known = known, .fn = note, .git = on_git, .ctx = &w, .hide = of->hide, .all = true,
			       .hash_bytes = HASH_BYTES, .hash_files = LIMIT_FILES_RECORDED};
	auto_fd int ws = changes_stack(of, &s);
	s.git = true;
	if (ws >= 0)
		ignored_begin(&w.rules, &s);
	int rc = ws < 0 ? -1 : known_walk(&s, "", true, &l, &e);
	if (!rc) {
		changes_extra(of, &s, w.gits, &(struct changes_each){on_gitwork, is_told, on_outside, &w});
		wire_u32(answer, w.count + w.n_git + w.n_outside);
		wire_strv(answer, w.list);
		wire_u32(answer, w.events.overflow ? w.n_events + w.more : w.more);
		wire_u32(answer, w.events.overflow ? 0 : w.n_events);
		if (!w.events.overflow)
			buf_add(answer, w.events.p, w.events.n);
		changes_sum_write(answer, &(struct changes_sum){.ignored = w.ignored, .git = w.n_git, .outside = w.n_outside, .extra = w.extra});
	}
	ignored_end(&w.rules);
	strv_free(w.list);
	strv_free(w.gits);
	strv_free(w.extra);
	buf_done(&w.events);
	return rc;
}

void changes_learn(struct known *known, const void *news, size_t n)
{
	struct wire w = {.p = news, .n = n};
	while (w.n && !w.bad) {
		size_t len;
		char kind = (char)wire_get_u8(&w);
		auto_free char *path = wire_get_str(&w);
		uint64_t mark = wire_get_u64(&w);
		bool exec = wire_get_u8(&w);
		const uint8_t *sha = wire_get_bytes(&w, &len);
		if (w.bad || !path || (len && len != 32))
			return;
		struct known_entry *e = kind ? known_find(known, path) : NULL;
		if (!kind)
			known_drop(known, path);
		if (!kind || (!e && !(e = known_add(known, path))))
			continue;
		e->kind = kind;
		e->mark = mark;
		e->exec = exec;
		e->hashed = len;
		if (len)
			memcpy(e->sha, sha, 32);
	}
}

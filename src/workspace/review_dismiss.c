// SPDX-License-Identifier: Apache-2.0
// Dismiss: S := P + rest, told to init as a stream in which each new content stands behind what must be there now.
#include "workspace/review_apply.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/sha256.h"
#include <fcntl.h>
#include <string.h>

struct writer {
	struct review *r;
	struct delta_out *out;
	uint64_t *count;
	struct err *e;
};

static int put_expect(struct writer *w, const struct change *c)
{
	char kind = c->s.type == SIDE_FILE ? 'f' : c->s.type == SIDE_LINK ? 'l' : 'x';
	(*w->count)++;
	return delta_put_expect(w->out, c->path, kind, c->s.exec, kind == 'x' ? NULL : c->s.sha, w->e);
}

static int put_side(struct writer *w, const char *path, const struct side *s, const char *p, size_t n)
{
	if (s->type == SIDE_NONE)
		return delta_put(w->out, 'x', false, path, w->e);
	if (s->type == SIDE_FILE)
		return delta_put_bytes(w->out, path, s->exec, p, n, w->e);
	auto_free char *target = xstrndup(p, n);
	return delta_put_link(w->out, path, target, w->e);
}

static bool takes_all(const struct change *c)
{
	for (size_t i = 0; i < c->hunks.n; i++)
		if (!c->hunks.v[i].take && c->hunks.v[i].state != HUNK_THERE)
			return false;
	return true;
}

// The sandbox's text without the hunks that are taken.
static int put_rest(struct writer *w, struct change *c, const struct texts *t)
{
	struct lines p, s;
	struct side now = c->s;
	auto_buf struct buf rest = BUF_INIT(LINES_MAX * 4u);
	lines_init(&p, t->p, t->p_n);
	lines_init(&s, t->s, t->s_n);
	for (size_t i = 0; i < c->hunks.n; i++) {
		if (c->hunks.v[i].kind == HUNK_MODE && c->hunks.v[i].take)
			now.exec = c->p.exec;
		c->hunks.v[i].take = !c->hunks.v[i].take;
	}
	hunks_splice(&c->hunks, &p, &s, false, &rest);
	lines_done(&p);
	lines_done(&s);
	if (rest.overflow)
		return err_set(w->e, ERR_LIMIT, "%.200s becomes too long", c->path);
	return put_expect(w, c) || put_side(w, c->path, &now, buf_cstr(&rest), rest.n) ? -1 : 0;
}

// All of it goes back: the base's content; where that is not known, the host's.
static int put_back(struct writer *w, struct change *c, const struct texts *t)
{
	bool lost = c->state == STATE_LOST;
	return put_expect(w, c) ||
			       put_side(w, c->path, lost ? &c->h : &c->p, lost ? t->h : t->p, lost ? t->h_n : t->p_n)
		       ? -1
		       : 0;
}

// Directories that only the sandbox has go with the last file in them; one that is not empty stays.
static int put_new_parents(struct writer *w, const struct change *c)
{
	auto_free char *dir = xstrdup(c->path);
	for (char *slash; (slash = strrchr(dir, '/'));) {
		struct shadow_entry en;
		struct err none;
		*slash = 0;
		int found = shadow_lookup(w->r->shadow, w->r->p_tree, dir, &en, w->e);
		auto_fd int fd = w->r->root < 0 ? -1 : fs_open_beneath(w->r->root, dir, O_PATH | O_NOFOLLOW, 0, &none);
		if (found || fd >= 0)
			return found < 0 ? -1 : 0;
		if (delta_put(w->out, 'x', false, dir, w->e))
			return -1;
	}
	return 0;
}

static int put_dir(struct writer *w, const struct change *c)
{
	(*w->count)++;
	return delta_put(w->out, c->kind == CHANGE_DIR ? 'x' : 'd', false, c->path, w->e);
}

static int put_change(struct writer *w, struct change *c)
{
	struct texts t;
	if (c->kind == CHANGE_DIR || c->kind == CHANGE_RMDIR)
		return put_dir(w, c);
	int rc = texts_load(w->r, c, &t, w->e);
	if (rc && w->e->kind == ERR_NOT_FOUND && c->state == STATE_LOST)
		rc = 0;
	if (!rc)
		rc = c->whole || takes_all(c) ? put_back(w, c, &t) : put_rest(w, c, &t);
	if (!rc && c->p.type == SIDE_NONE && c->state != STATE_LOST && (c->whole || takes_all(c)))
		rc = put_new_parents(w, c);
	texts_done(&t);
	return rc;
}

// --- the way back ---

static int expect_bytes(struct writer *w, const struct change *c, const struct side *now, const char *p, size_t n)
{
	struct sha256 h;
	uint8_t sha[32];
	if (now->type == SIDE_NONE)
		return delta_put_expect(w->out, c->path, 'x', false, NULL, w->e);
	sha256_init(&h);
	sha256_add(&h, p, n);
	sha256_end(&h, sha);
	return delta_put_expect(w->out, c->path, now->type == SIDE_LINK ? 'l' : 'f', now->exec, sha, w->e);
}

// What the dismissal leaves of a file of which a part goes.
static int expect_rest(struct writer *w, struct change *c, const struct texts *t)
{
	struct lines p, s;
	struct side now = c->s;
	auto_buf struct buf rest = BUF_INIT(LINES_MAX * 4u);
	lines_init(&p, t->p, t->p_n);
	lines_init(&s, t->s, t->s_n);
	for (size_t i = 0; i < c->hunks.n; i++) {
		if (c->hunks.v[i].kind == HUNK_MODE && c->hunks.v[i].take)
			now.exec = c->p.exec;
		c->hunks.v[i].take = !c->hunks.v[i].take;
	}
	hunks_splice(&c->hunks, &p, &s, false, &rest);
	for (size_t i = 0; i < c->hunks.n; i++)
		c->hunks.v[i].take = !c->hunks.v[i].take;
	lines_done(&p);
	lines_done(&s);
	return expect_bytes(w, c, &now, buf_cstr(&rest), rest.n);
}

// Behind what a dismissal leaves there: what the sandbox had.
static int put_again(struct writer *w, struct change *c)
{
	struct texts t;
	if (c->kind == CHANGE_DIR || c->kind == CHANGE_RMDIR)
		return delta_put(w->out, c->kind == CHANGE_DIR ? 'd' : 'x', false, c->path, w->e);
	if (c->unseen)
		return 0; // its content is not kept
	int rc = texts_load(w->r, c, &t, w->e);
	bool lost = c->state == STATE_LOST;
	if (rc && w->e->kind == ERR_NOT_FOUND && lost)
		rc = 0;
	if (!rc && (c->whole || takes_all(c)))
		rc = expect_bytes(w, c, lost ? &c->h : &c->p, lost ? t.h : t.p, lost ? t.h_n : t.p_n);
	else if (!rc)
		rc = expect_rest(w, c, &t);
	if (!rc)
		rc = put_side(w, c->path, &c->s, t.s, t.s_n);
	texts_done(&t);
	return rc;
}

// A renamed file that goes back leaves its new name free: two changes.
static void split_renames(struct review *r)
{
	for (size_t i = 0; i < r->n; i++) {
		struct change *c = r->v[i], *from = c->from;
		if (!from || !change_is_taken(c) || !takes_all(c))
			continue;
		c->from = NULL;
		from->hidden = false;
		for (size_t k = 0; k < from->hunks.n; k++)
			from->hunks.v[k].take = true;
	}
}

// First all that makes names free, what is in a directory before it; then all that needs them.
static int put_all(struct writer *w, bool (*frees)(const struct change *c), int (*put)(struct writer *w, struct change *c))
{
	struct review *r = w->r;
	for (size_t i = r->n; i--;)
		if (change_is_taken(r->v[i]) && frees(r->v[i]) && put(w, r->v[i]))
			return -1;
	for (size_t i = 0; i < r->n; i++)
		if (change_is_taken(r->v[i]) && !frees(r->v[i]) && put(w, r->v[i]))
			return -1;
	return delta_end(w->out, w->e);
}

static bool is_made_inside(const struct change *c)
{
	return c->kind == CHANGE_DIR || (c->kind != CHANGE_RMDIR && c->p.type == SIDE_NONE && c->state != STATE_LOST && !c->from);
}

static bool is_gone_inside(const struct change *c)
{
	return c->kind == CHANGE_RMDIR || (c->kind != CHANGE_DIR && c->s.type == SIDE_NONE);
}

int review_dismiss_back(struct review *r, const struct selection *set, struct delta_out *out, struct err *e)
{
	struct writer w = {.r = r, .out = out, .e = e};
	if (review_select(r, set, e))
		return -1;
	split_renames(r);
	return put_all(&w, is_gone_inside, put_again);
}

// After review_dismiss_back, which has marked what is taken.
int review_dismiss(struct review *r, struct delta_out *out, uint64_t *out_paths, struct err *e)
{
	struct writer w = {.r = r, .out = out, .count = out_paths, .e = e};
	*out_paths = 0;
	return put_all(&w, is_made_inside, put_change);
}

// SPDX-License-Identifier: Apache-2.0
// One change: what it is, and how it stands against the host.
#include "workspace/review.h"

#include "base/mem.h"
#include <errno.h>
#include <string.h>

// P of a file that the pinned tree has not is in the directory it was taken of.
static int load_implied(struct review *r, const struct change *old, struct texts *t, struct err *e)
{
	struct side now = {0};
	if (side_look(r->base_root, old->path, &now, &t->base, e))
		return -1;
	if (!side_same_content(&now, &old->p))
		return err_set(e, ERR_NOT_FOUND, "the base of %.200s has changed", old->path);
	t->p = buf_cstr(&t->base);
	t->p_n = t->base.n;
	return 0;
}

int texts_load(struct review *r, const struct change *c, struct texts *t, struct err *e)
{
	*t = (struct texts){.p = "", .h = "", .s = "", .host = BUF_INIT(COPY_FILE_MAX), .base = BUF_INIT(COPY_FILE_MAX), .own = BUF_INIT(COPY_FILE_MAX)};
	const struct change *old = c->from ? c->from : c; // a rename's base is what it was renamed from
	struct side now = {0};
	if (c->s.type != SIDE_NONE && !c->unseen && c->entry) {
		t->s = review_copy_bytes(&r->copy, c->entry);
		t->s_n = c->entry->size;
	}
	if (c->s_is_base && side_look(r->base_root, c->path, &now, &t->own, e))
		return -1;
	if (c->s_is_base) {
		t->s = buf_cstr(&t->own);
		t->s_n = t->own.n;
	}
	bool there = old->h.type == SIDE_FILE || old->h.type == SIDE_LINK;
	int root = r->root;
	if (there && root >= 0 && old->h.size == old->host.n) {
		t->h = old->host.n ? old->host.p : "";
		t->h_n = old->host.n;
	} else if (there && root >= 0) {
		if (side_look(root, old->path, &now, &t->host, e))
			return -1;
		if (!side_same(&now, &old->h))
			return err_set(e, ERR_CONFLICT, "%.200s changed on the host just now: look again", old->path);
		t->h = buf_cstr(&t->host);
		t->h_n = t->host.n;
	}
	if (old->p.type == SIDE_NONE)
		return 0;
	if (there && root >= 0 && side_same_content(&old->p, &old->h)) {
		t->p = t->h;
		t->p_n = t->h_n;
		return 0;
	}
	if (old->implied && r->base_root >= 0 && r->base_root != r->root)
		return load_implied(r, old, t, e);
	if (!old->p.objected)
		return err_set(e, ERR_NOT_FOUND, "the base of %.200s is not known", old->path);
	if (shadow_read(r->shadow, old->p.oid, &t->object, e))
		return -1;
	t->p = t->object.p;
	t->p_n = t->object.n;
	if (root < 0 && there) {
		t->h = t->p;
		t->h_n = t->p_n;
	}
	return 0;
}

void texts_done(struct texts *t)
{
	if (t->object.object)
		shadow_bytes_done(&t->object);
	buf_done(&t->host);
	buf_done(&t->own);
	buf_done(&t->base);
}

static void set_why(struct change *c, enum change_state state, const char *why)
{
	c->state = state;
	if (!c->why)
		c->why = xstrdup(why);
}

static void add_mode_hunk(struct change *c)
{
	const char *tag = c->s.exec ? "+x" : "-x";
	hunk_name_whole(hunks_add(&c->hunks, HUNK_MODE), c->path, tag, "", 0, "", 0);
}

int change_line_hunks(struct change *c, const char *path, const char *old, size_t old_n, const char *now, size_t now_n,
		      struct err *e)
{
	struct lines a, b;
	lines_init(&a, old, old_n);
	lines_init(&b, now, now_n);
	int rc = hunks_diff(&a, &b, &c->hunks, e);
	if (!rc)
		hunks_name(&c->hunks, path, &a, &b);
	lines_done(&a);
	lines_done(&b);
	return rc;
}

// The host's own changes decide where ours stand.
static int place(struct change *c, const struct texts *t, struct err *e)
{
	struct lines p, h, s;
	struct hunks host = {0};
	lines_init(&p, t->p, t->p_n);
	lines_init(&h, t->h, t->h_n);
	lines_init(&s, t->s, t->s_n);
	int rc = hunks_diff(&p, &h, &host, e);
	if (!rc)
		hunks_place(&c->hunks, &s, &host, &h);
	hunks_done(&host);
	lines_done(&p);
	lines_done(&h);
	lines_done(&s);
	return rc;
}

static void count_lines(struct change *c)
{
	c->added = c->removed = 0;
	for (size_t i = 0; i < c->hunks.n; i++) {
		if (c->hunks.v[i].state == HUNK_THERE)
			continue;
		c->added += c->hunks.v[i].new_n;
		c->removed += c->hunks.v[i].old_n;
	}
}

static size_t line_count(const char *p, size_t n)
{
	struct lines l;
	lines_init(&l, p, n);
	size_t count = l.n;
	lines_done(&l);
	return count;
}

// Added, deleted, binary, a link, another type: one piece that is taken or left.
static void judge_whole(struct change *c, const struct texts *t)
{
	struct hunk *h = hunks_add(&c->hunks, HUNK_WHOLE);
	const char *tag = c->s.type == SIDE_LINK || c->p.type == SIDE_LINK ? "link" : "whole";
	c->whole = true;
	c->binary = !lines_is_text(t->p, t->p_n) || !lines_is_text(t->s, t->s_n) || c->unseen;
	if (!c->binary) {
		h->old_n = (uint32_t)line_count(t->p, t->p_n);
		h->new_n = (uint32_t)line_count(t->s, t->s_n);
	}
	if (c->unseen)
		hunk_name_whole(h, c->path, "unseen", c->s.sha, 32, &c->s.size, sizeof c->s.size);
	else if (t->s_n > LINES_MAX && c->s.hashed && (!t->p_n || c->p.objected)) // its hash is known: it is not read once more
		hunk_name_whole(h, c->path, "hashed", c->p.oid, SHADOW_OID, c->s.sha, sizeof c->s.sha);
	else
		hunk_name_whole(h, c->path, tag, t->p, t->p_n, t->s, t->s_n);
	if (!side_same(&c->h, &c->p)) {
		h->state = HUNK_CONFLICT;
		set_why(c, STATE_CONFLICT,
			c->h.type == SIDE_NONE	 ? "the host has deleted it since the sandbox began"
			: c->p.type == SIDE_NONE ? "the host has made another one since the sandbox began"
						 : "the host has changed it since the sandbox began");
	}
}

static int judge_text(struct change *c, const struct texts *t, bool *out_pending, struct err *e)
{
	bool moved = !side_same_content(&c->h, &c->p), conflict = false;
	*out_pending = false;
	if (change_line_hunks(c, c->path, t->p, t->p_n, t->s, t->s_n, e))
		return -1;
	if (moved && place(c, t, e))
		return -1;
	for (size_t i = 0; i < c->hunks.n; i++) {
		conflict |= c->hunks.v[i].state == HUNK_CONFLICT;
		*out_pending |= c->hunks.v[i].state != HUNK_THERE;
	}
	if (c->s.exec != c->p.exec && c->s.exec != c->h.exec) {
		add_mode_hunk(c);
		*out_pending = true;
	}
	if (conflict)
		set_why(c, STATE_CONFLICT, "the host has changed the same lines since the sandbox began");
	else if (moved)
		set_why(c, STATE_MOVED, "the host has changed other lines since the sandbox began");
	return 0;
}

static void set_kind(struct change *c)
{
	c->kind = c->s.type == SIDE_NONE	      ? CHANGE_DELETE
		  : c->p.type == SIDE_NONE	      ? CHANGE_ADD
		  : c->s.type != c->p.type	      ? CHANGE_TYPE
		  : side_same_content(&c->s, &c->p)   ? CHANGE_MODE
						      : CHANGE_MODIFY;
}

static bool all_files(const struct change *c)
{
	return c->p.type == SIDE_FILE && c->h.type == SIDE_FILE && c->s.type == SIDE_FILE;
}

// A deletion of what the base is not known to have: the host made or changed it since, it was ignored and changed, or it
// can not be read.
static bool deletes_unknown(const struct change *c)
{
	return c->entry && c->entry->kind == 'x' && c->p.type == SIDE_NONE &&
	       (c->h.type == SIDE_FILE || c->h.type == SIDE_LINK || c->h.type == SIDE_OTHER);
}

static int judge_loaded(struct review *r, struct change *c, const struct texts *t, bool *out_pending, struct err *e)
{
	bool text = lines_is_text(t->p, t->p_n) && lines_is_text(t->h, t->h_n) && lines_is_text(t->s, t->s_n);
	*out_pending = true;
	if (all_files(c) && text && !c->unseen) {
		if (judge_text(c, t, out_pending, e))
			return -1;
	} else {
		judge_whole(c, t);
	}
	if (r->gone)
		set_why(c, STATE_GONE, "the host directory is not there any more");
	else if (c->entry && c->entry->torn && c->state == STATE_CLEAN)
		set_why(c, STATE_CONFLICT, "it changed while it was copied: look again");
	count_lines(c);
	return 0;
}

int change_judge(struct review *r, struct change *c, bool *out_pending, struct err *e)
{
	struct texts t;
	*out_pending = false;
	if (deletes_unknown(c)) {
		c->kind = CHANGE_DELETE;
		c->whole = *out_pending = true;
		hunk_name_whole(hunks_add(&c->hunks, HUNK_WHOLE), c->path, "lost", "", 0, c->h.sha, 32);
		c->hunks.v[0].state = HUNK_CONFLICT;
		set_why(c, STATE_LOST, c->h.type == SIDE_OTHER ? "it was deleted in the sandbox; the host's can not be read"
							       : "it was deleted in the sandbox; the host's file is newer than the sandbox");
		return 0;
	}
	if ((side_same(&c->s, &c->p) && !c->lost) || side_same(&c->s, &c->h))
		return 0;
	set_kind(c);
	int rc = texts_load(r, c, &t, e);
	if (!rc && c->lost)
		rc = err_set(e, ERR_NOT_FOUND, "lost");
	if (rc && e->kind == ERR_NOT_FOUND) {
		c->whole = *out_pending = true;
		hunk_name_whole(hunks_add(&c->hunks, HUNK_WHOLE), c->path, "lost", "", 0, c->s.sha, 32);
		c->hunks.v[0].state = HUNK_CONFLICT;
		set_why(c, STATE_LOST, "the base's content is gone from the host's repository");
		rc = 0;
	} else if (!rc) {
		rc = judge_loaded(r, c, &t, out_pending, e);
	}
	texts_done(&t);
	return rc;
}

// SPDX-License-Identifier: Apache-2.0
#include "workspace/review_json.h"

#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "workspace/review_apply.h"
#include "workspace/review_patch.h"
#include <string.h>

#define HUNK_TEXT (1u << 20) // bytes of one hunk's text that are shown

static void sha_json(struct jsonw *w, const char *key, const uint8_t sha[32])
{
	char hex[SHA256_HEX];
	str_hex(hex, sha, 32);
	jw_kstr(w, key, hex);
}

static void side_json(struct jsonw *w, const char *key, const struct side *s)
{
	char hex[41];
	jw_key(w, key);
	if (s->type == SIDE_NONE) {
		jw_null(w);
		return;
	}
	jw_open(w, '{');
	jw_kstr(w, "type", side_name(s->type));
	if (s->type == SIDE_FILE)
		jw_kbool(w, "exec", s->exec);
	if (s->hashed) {
		jw_ku64(w, "size", s->size);
		sha_json(w, "sha256", s->sha);
	}
	if (s->objected) {
		shadow_hex(s->oid, hex);
		jw_kstr(w, "object", hex);
	}
	jw_close(w, '}');
}

// A change's contents, split once for all its hunks.
struct shown {
	const struct texts *t;
	struct lines p, h, s;
	unsigned context;
};

static void text_json(const struct hunk *h, const struct shown *v, struct jsonw *w)
{
	auto_buf struct buf b = BUF_INIT(HUNK_TEXT);
	hunk_text(h, &v->p, &v->h, &v->s, v->context, &b);
	jw_kbytes(w, "text", buf_cstr(&b), b.n);
	if (b.overflow)
		jw_kbool(w, "truncated", true);
}

static void whole_text_json(const struct change *c, const struct texts *t, struct jsonw *w)
{
	bool gone = c->s.type == SIDE_NONE;
	const char *p = gone ? t->p : t->s;
	size_t n = gone ? t->p_n : t->s_n, shown = n < HUNK_TEXT ? n : HUNK_TEXT;
	if (c->binary || c->unseen || c->from)
		return;
	jw_kbytes(w, "content", p, shown);
	if (shown < n)
		jw_kbool(w, "truncated", true);
}

static void hunk_json(const struct change *c, const struct hunk *h, const struct shown *v, struct jsonw *w)
{
	static const char *const kinds[] = {"lines", "whole", "mode"}, *const states[] = {"clean", "there", "conflict"};
	jw_open(w, '{');
	jw_kstr(w, "id", h->id);
	jw_kstr(w, "kind", kinds[h->kind]);
	jw_kstr(w, "state", states[h->state]);
	if (h->kind == HUNK_LINES) {
		jw_ku64(w, "old_start", h->host_at + (h->old_n ? 1 : 0));
		jw_ku64(w, "new_start", h->new_at + (h->new_n ? 1 : 0));
	}
	if (h->kind != HUNK_MODE) {
		jw_ku64(w, "old_lines", h->old_n);
		jw_ku64(w, "new_lines", h->new_n);
	}
	if (v && h->kind == HUNK_LINES)
		text_json(h, v, w);
	else if (v && h->kind == HUNK_WHOLE)
		whole_text_json(c, v->t, w);
	jw_close(w, '}');
}

static void risks_json(const struct change *c, struct jsonw *w)
{
	jw_key(w, "risks");
	jw_open(w, '[');
	for (size_t i = 0; i < c->n_risks; i++) {
		jw_open(w, '{');
		jw_kstr(w, "flag", c->risks[i].flag);
		jw_kstr(w, "reason", c->risks[i].reason);
		jw_close(w, '}');
	}
	jw_close(w, ']');
}

static void head_json(const struct change *c, struct jsonw *w)
{
	jw_kstr(w, "path", c->path);
	jw_kstr(w, "kind", change_kind_name(c->kind));
	jw_kstr(w, "state", change_state_name(c->state));
	jw_kstr(w, "why", c->why);
	if (c->from) {
		jw_kstr(w, "from", c->from->path);
		jw_ku64(w, "similarity", c->similarity);
	}
	if (c->s.type == SIDE_LINK || c->p.type == SIDE_LINK)
		jw_kbool(w, "symlink", true);
	jw_kbool(w, "binary", c->binary);
	if (c->unseen)
		jw_kbool(w, "unseen", true);
	jw_ku64(w, "added", c->added);
	jw_ku64(w, "removed", c->removed);
	side_json(w, "base", c->from ? &c->from->p : &c->p);
	side_json(w, "host", c->from ? &c->from->h : &c->h);
	side_json(w, "sandbox", &c->s);
}

static void hunks_json(const struct change *c, const struct shown *v, struct jsonw *w)
{
	jw_key(w, "hunks");
	jw_open(w, '[');
	for (size_t i = 0; i < c->hunks.n; i++)
		if (c->hunks.v[i].state != HUNK_THERE)
			hunk_json(c, &c->hunks.v[i], v, w);
	jw_close(w, ']');
}

int change_json(struct review *r, const struct change *c, int context, struct jsonw *w, struct err *e)
{
	struct texts t;
	bool text = context >= 0 && c->state != STATE_LOST && c->kind != CHANGE_DIR && c->kind != CHANGE_RMDIR;
	int rc = text ? texts_load(r, c, &t, e) : 0;
	if (!rc) {
		jw_open(w, '{');
		head_json(c, w);
		risks_json(c, w);
	}
	if (!rc && text) {
		struct shown v = {.t = &t, .context = (unsigned)context};
		lines_init(&v.p, t.p, t.p_n);
		lines_init(&v.h, t.h, t.h_n);
		lines_init(&v.s, t.s, t.s_n);
		hunks_json(c, &v, w);
		lines_done(&v.p);
		lines_done(&v.h);
		lines_done(&v.s);
	} else if (!rc) {
		hunks_json(c, NULL, w);
	}
	if (!rc)
		jw_close(w, '}');
	if (text)
		texts_done(&t);
	return rc;
}

static void discarded_json(const struct review *r, struct jsonw *w)
{
	jw_key(w, "discarded");
	jw_open(w, '[');
	for (size_t i = 0; i < r->copy.n; i++) {
		const struct copy_entry *en = &r->copy.v[i];
		if (!strchr("gsur", en->kind))
			continue;
		jw_open(w, '{');
		jw_kstr(w, "path", review_copy_left_name(en));
		jw_kstr(w, "why", review_copy_left_why(en));
		jw_close(w, '}');
	}
	jw_close(w, ']');
}

static uint64_t taken_hunks(const struct change *c)
{
	uint64_t n = 0;
	for (size_t i = 0; i < c->hunks.n; i++)
		n += c->hunks.v[i].take && c->hunks.v[i].state != HUNK_THERE;
	return n;
}

void review_summary_json(const struct review *r, struct jsonw *w)
{
	uint64_t counts[4] = {0}, risky = 0, hunks = 0, conflicts = 0;
	char hex[41];
	for (size_t i = 0; i < r->n; i++) {
		const struct change *c = r->v[i];
		if (c->hidden || !change_is_taken(c))
			continue;
		counts[c->kind == CHANGE_DIR || c->kind == CHANGE_RMDIR]++;
		counts[2] += c->added;
		counts[3] += c->removed;
		risky += c->n_risks > 0;
		hunks += taken_hunks(c);
		conflicts += c->state == STATE_CONFLICT || c->state == STATE_LOST;
	}
	shadow_hex(r->p_tree, hex);
	jw_open(w, '{');
	jw_kstr(w, "digest", r->digest);
	jw_kstr(w, "base", hex);
	jw_kbool(w, "gone", r->gone);
	jw_ku64(w, "files", counts[0]);
	jw_ku64(w, "dirs", counts[1]);
	jw_ku64(w, "added", counts[2]);
	jw_ku64(w, "removed", counts[3]);
	jw_ku64(w, "hunks", hunks);
	jw_ku64(w, "conflicts", conflicts);
	jw_ku64(w, "risky", risky);
	jw_ku64(w, "ignored", r->ignored);
	discarded_json(r, w);
	jw_close(w, '}');
}

void op_json(const struct op *op, struct jsonw *w)
{
	static const char *const kinds[] = {"delete", "rmdir", "mkdir", "write"};
	jw_open(w, '{');
	jw_kstr(w, "path", op->path);
	jw_kstr(w, "did", kinds[op->kind]);
	side_json(w, "before", &op->old);
	side_json(w, "after", &op->now);
	jw_close(w, '}');
}

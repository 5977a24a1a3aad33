// SPDX-License-Identifier: Apache-2.0
// From a part of the change set to the steps that land it: target = merge3(P, H, P + part), and P := P + part.
#include "workspace/review_apply.h"

#include "base/mem.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void refusal_add(struct refusal *r, const char *path, const char *fmt, ...)
{
	char *why = NULL;
	va_list ap;
	va_start(ap, fmt);
	if (vasprintf(&why, fmt, ap) < 0)
		abort();
	va_end(ap);
	r->v = xrealloc(r->v, (r->n + 1) * sizeof *r->v);
	r->v[r->n].path = xstrdup(path);
	r->v[r->n++].why = why;
}

void refusal_done(struct refusal *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free(r->v[i].path);
		free(r->v[i].why);
	}
	free(r->v);
	*r = (struct refusal){0};
}

void apply_result_done(struct apply_result *r)
{
	txn_done(&r->txn);
	strv_free(r->skipped);
	free(r->left);
	*r = (struct apply_result){0};
}

bool change_is_taken(const struct change *c)
{
	for (size_t i = 0; i < c->hunks.n; i++)
		if (c->hunks.v[i].take)
			return true;
	return false;
}

static void take_all(struct change *c)
{
	for (size_t i = 0; i < c->hunks.n; i++)
		c->hunks.v[i].take = true;
}

static bool names(const char *path, const struct change *c)
{
	size_t n = strlen(path);
	while (n && path[n - 1] == '/')
		n--;
	if (!n || (n == 1 && path[0] == '.'))
		return true;
	const char *own[2] = {c->path, c->from ? c->from->path : NULL};
	for (int i = 0; i < 2; i++)
		if (own[i] && !strncmp(own[i], path, n) && (!own[i][n] || own[i][n] == '/'))
			return true;
	return false;
}

static bool select_path(struct review *r, const char *path)
{
	bool found = false;
	for (size_t i = 0; i < r->n; i++) {
		if (r->v[i]->hidden || !names(path, r->v[i]))
			continue;
		take_all(r->v[i]);
		found = true;
	}
	return found;
}

struct known {
	const char *id;
	struct hunk *hunk;
};

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct known *)a)->id, ((const struct known *)b)->id);
}

static int select_hunks(struct review *r, char *const *ids, struct err *e)
{
	size_t n = 0, cap = 0;
	int rc = 0;
	for (size_t i = 0; i < r->n; i++)
		cap += r->v[i]->hunks.n;
	struct known *v = xcalloc(cap + 1, sizeof *v);
	for (size_t i = 0; i < r->n; i++)
		for (size_t k = 0; !r->v[i]->hidden && k < r->v[i]->hunks.n; k++)
			if (r->v[i]->hunks.v[k].state != HUNK_THERE)
				v[n++] = (struct known){r->v[i]->hunks.v[k].id, &r->v[i]->hunks.v[k]};
	qsort(v, n, sizeof *v, by_id);
	for (; !rc && *ids; ids++) {
		struct known key = {.id = *ids}, *hit = bsearch(&key, v, n, sizeof *v, by_id);
		if (hit)
			hit->hunk->take = true;
		else
			rc = err_set(e, ERR_NOT_FOUND,
				     "no change %.40s is pending: it was taken, or is another one now; look again",
				     *ids);
	}
	free(v);
	return rc;
}

static int nothing_at(const struct review *r, const char *path, struct err *e)
{
	const struct copy_entry *en = review_copy_find(&r->copy, path);
	if (en && en->kind == 'u')
		return err_set(e, ERR_DENIED, "%.150s can not be read: chmod u+r it inside the sandbox, then try again", path);
	return err_set(e, ERR_NOT_FOUND, "nothing is pending at %.200s", path);
}

int review_select(struct review *r, const struct selection *set, struct err *e)
{
	for (size_t i = 0; set->all && i < r->n; i++)
		if (!r->v[i]->hidden)
			take_all(r->v[i]);
	for (char *const *p = set->paths; p && *p; p++)
		if (!select_path(r, *p))
			return nothing_at(r, *p, e);
	return set->hunks ? select_hunks(r, set->hunks, e) : 0;
}

static bool is_editable(const struct change *c, const struct hunk *h)
{
	return h->kind == HUNK_LINES || (h->kind == HUNK_WHOLE && c->kind == CHANGE_ADD && c->s.type == SIDE_FILE && !c->binary && !c->unseen);
}

static int edit_one(struct review *r, const struct apply_spec *a, const char *id, const char *lines, struct err *e)
{
	for (size_t i = 0; i < r->n; i++)
		for (size_t k = 0; k < r->v[i]->hunks.n; k++) {
			struct hunk *h = &r->v[i]->hunks.v[k];
			if (!h->take || strcmp(h->id, id))
				continue;
			if (!is_editable(r->v[i], h))
				return err_set(e, ERR_INVALID, "change %.40s of %.150s has no lines to edit: take it or leave it", id, r->v[i]->path);
			if (a->conflicts == CONFLICTS_MARKERS)
				return err_set(e, ERR_INVALID, "an edited change can not land with conflict markers: take it alone");
			h->edit = lines;
			return 0;
		}
	return err_set(e, ERR_NOT_FOUND, "no change %.40s is among those that are taken: it can not be edited", id);
}

static int edit_all(struct review *r, const struct apply_spec *a, struct err *e)
{
	for (char **v = a->edits; v && *v; v += 2)
		if (edit_one(r, a, v[0], v[1], e))
			return -1;
	return 0;
}

static bool is_accepted(const struct apply_spec *a, const struct change *c)
{
	for (char **p = a->accept; p && *p; p++)
		if (!strcmp(*p, c->path)) // each by its own name: a directory's name accepts nothing
			return true;
	return a->accept_risk;
}

static bool hits_conflict(const struct change *c)
{
	if (c->state == STATE_LOST || c->state == STATE_GONE || (c->entry && c->entry->torn))
		return true;
	for (size_t i = 0; i < c->hunks.n; i++)
		if (c->hunks.v[i].take && c->hunks.v[i].state == HUNK_CONFLICT)
			return true;
	return c->state == STATE_CONFLICT && c->whole;
}

// Without its base a file can still go where nothing is in its way.
static bool is_free_elsewhere(const struct apply_spec *a, const struct change *c)
{
	return a->to && c->state == STATE_LOST && c->h.type == SIDE_NONE && c->s.type != SIDE_NONE && c->entry && c->entry->kept && !c->entry->torn;
}

static bool takes_markers(const struct change *c)
{
	return c->state == STATE_CONFLICT && !c->whole && !c->binary && !(c->entry && c->entry->torn);
}

static void leave_out(struct change *c, struct apply_result *out)
{
	for (size_t i = 0; i < c->hunks.n; i++)
		c->hunks.v[i].take = false;
	strv_add(&out->skipped, c->path);
}

// Everything that stops an apply is found before anything is made.
static int check_taken(struct review *r, const struct apply_spec *a, struct apply_result *out, struct refusal *why,
		       struct err *e)
{
	size_t risky = 0, conflicting = 0;
	for (size_t i = 0; i < r->n; i++) {
		struct change *c = r->v[i];
		if (!change_is_taken(c))
			continue;
		if (c->unseen)
			return err_set(e, ERR_LIMIT, "%.200s (%llu MiB) is more than a review copies: take it out with `skep cp`, take the others by their paths, "
				       "or raise review_bytes in config.yaml (a single file: %llu MiB at most)",
				       c->path, (unsigned long long)(c->s.size >> 20), (unsigned long long)(COPY_FILE_MAX >> 20));
		if (c->n_risks && !is_accepted(a, c) && ++risky)
			refusal_add(why, c->path, "%s: %s", c->risks[0].flag, c->risks[0].reason);
		if (a->from_base || is_free_elsewhere(a, c) || !hits_conflict(c) || (a->conflicts == CONFLICTS_MARKERS && takes_markers(c)))
			continue;
		if (a->conflicts == CONFLICTS_SKIP) {
			leave_out(c, out);
		} else {
			refusal_add(why, c->path, "conflict: %s", c->why ? c->why : "the host has changed it");
			conflicting++;
		}
	}
	if (conflicting)
		return err_set(e, ERR_CONFLICT, "%zu path%s conflict%s with the host; nothing was written", conflicting,
			       conflicting == 1 ? "" : "s", conflicting == 1 ? "s" : "");
	return risky ? err_set(e, ERR_DENIED,
			       "%zu path%s must be accepted by name, or all with --accept-risk; nothing was written",
			       risky, risky == 1 ? "" : "s")
		     : 0;
}

struct making {
	struct review *r;
	const struct apply_spec *a;
	struct txn *t;
	struct err *e;
};

static uint32_t git_mode(enum side_type type, bool exec)
{
	return type == SIDE_LINK ? 0120000 : exec ? 0100755 : 0100644;
}

// x follows r: who may read it may run it.
static uint32_t perm_of(const struct making *m, const struct side *old, bool exec)
{
	uint32_t perm = old->type == SIDE_FILE ? old->perm : 0666 & ~m->a->umask;
	return exec ? perm | (perm & 0444) >> 2 : perm & ~0111u;
}

static int note_base(struct making *m, const struct change *c, uint32_t mode, const uint8_t *oid)
{
	struct txn_base *b = txn_add_base(m->t, c->path);
	if (c->p.type != SIDE_NONE) {
		b->before.mode = git_mode(c->p.type, c->p.exec);
		memcpy(b->before.oid, c->p.oid, SHADOW_OID);
	}
	b->after.mode = mode;
	if (mode)
		memcpy(b->after.oid, oid, SHADOW_OID);
	return 0;
}

// The host's content is kept as an object: undo needs it, whatever happens to the host's repository.
static int backup(struct making *m, const struct change *c, const char *p, size_t n)
{
	uint8_t oid[SHADOW_OID];
	bool is_base = c->p.objected && !c->implied && side_same_content(&c->p, &c->h);
	if (is_base || (c->h.type != SIDE_FILE && c->h.type != SIDE_LINK))
		return 0;
	return shadow_write(m->r->shadow, p, n, oid, m->e);
}

static int step_rm(struct making *m, struct change *c, const struct texts *t)
{
	if (c->h.type == SIDE_FILE || c->h.type == SIDE_LINK) {
		struct op *op = txn_add(m->t, OP_RM, c->path);
		op->old = c->h;
		if (backup(m, c, t->h, t->h_n))
			return -1;
	}
	return note_base(m, c, 0, NULL);
}

static void put_op(struct making *m, const char *path, const struct side *old, enum side_type type, bool exec,
		   const char *p, size_t n)
{
	struct side now = {.type = type, .exec = exec, .perm = perm_of(m, old, exec)};
	side_hash(&now, p, n);
	if (side_same(old, &now))
		return; // the host has it
	struct op *op = txn_add(m->t, OP_PUT, path);
	op->old = *old;
	op->now = now;
}

static int step_whole(struct making *m, struct change *c, const struct texts *t)
{
	uint8_t oid[SHADOW_OID];
	const char *edit = c->hunks.v[0].edit, *p = edit ? edit : t->s;
	size_t n = edit ? strlen(edit) : t->s_n;
	if (backup(m, c, t->h, t->h_n) || shadow_write(m->r->shadow, p, n, oid, m->e))
		return -1;
	size_t before = m->t->n;
	put_op(m, c->path, &c->h, c->s.type, c->s.exec, p, n);
	if (m->t->n > before) {
		m->t->v[before].bytes = p; // in the copy's map or the request, which outlive the transaction
		m->t->v[before].bytes_n = n;
	}
	return note_base(m, c, git_mode(c->s.type, c->s.exec), oid);
}

static bool takes_mode(const struct change *c)
{
	for (size_t i = 0; i < c->hunks.n; i++)
		if (c->hunks.v[i].kind == HUNK_MODE && c->hunks.v[i].take)
			return true;
	return false;
}

// What the host already has goes into P with the rest of the file, not with a single hunk.
static void take_there(struct change *c)
{
	bool all = true;
	for (size_t i = 0; i < c->hunks.n; i++)
		all &= c->hunks.v[i].take || c->hunks.v[i].state == HUNK_THERE;
	for (size_t i = 0; all && i < c->hunks.n; i++)
		c->hunks.v[i].take = true;
}

static int splice_all(struct making *m, struct change *c, const struct texts *t, bool markers, struct buf *base,
		      struct buf *target)
{
	struct lines p, h, s;
	int rc = 0;
	lines_init(&p, t->p, t->p_n);
	lines_init(&h, t->h, t->h_n);
	lines_init(&s, t->s, t->s_n);
	hunks_splice(&c->hunks, &p, &s, false, base);
	if (markers)
		rc = lines_merge_markers(&p, &h, &s, target, m->e);
	else
		hunks_splice(&c->hunks, c->from ? &p : &h, &s, true, target);
	lines_done(&p);
	lines_done(&h);
	lines_done(&s);
	if (!rc && (base->overflow || target->overflow))
		rc = err_set(m->e, ERR_LIMIT, "%.200s becomes too long", c->path);
	return rc;
}

static int step_text(struct making *m, struct change *c, const struct texts *t)
{
	auto_buf struct buf base = BUF_INIT(LINES_MAX * 4u), target = BUF_INIT(LINES_MAX * 4u);
	uint8_t oid[SHADOW_OID], target_oid[SHADOW_OID];
	take_there(c);
	bool markers = m->a->conflicts == CONFLICTS_MARKERS && hits_conflict(c);
	bool exec = c->from || takes_mode(c) ? c->s.exec : c->h.exec;
	bool base_exec = c->from || takes_mode(c) ? c->s.exec : c->p.exec;
	if (c->s.exec == c->h.exec && c->s.exec != c->p.exec)
		base_exec = c->s.exec; // the host has this part
	if (splice_all(m, c, t, markers, &base, &target) || backup(m, c, t->h, t->h_n) ||
	    shadow_write(m->r->shadow, buf_cstr(&base), base.n, oid, m->e))
		return -1;
	bool same = base.n == target.n && !memcmp(buf_cstr(&base), buf_cstr(&target), base.n);
	if (!same && shadow_write(m->r->shadow, buf_cstr(&target), target.n, target_oid, m->e))
		return -1;
	put_op(m, c->path, &c->h, SIDE_FILE, exec, buf_cstr(&target), target.n);
	return note_base(m, c, git_mode(SIDE_FILE, base_exec), oid);
}

static int step_change(struct making *m, struct change *c)
{
	struct texts t, old = {.host = BUF_INIT(COPY_FILE_MAX)};
	int rc = texts_load(m->r, c, &t, m->e);
	if (!rc && c->from) {
		rc = texts_load(m->r, c->from, &old, m->e) || step_rm(m, c->from, &old) ? -1 : 0;
		texts_done(&old);
	}
	// A base that was only implied becomes part of P, so that undo can say what it was.
	uint8_t oid[SHADOW_OID];
	if (!rc && c->implied)
		rc = shadow_write(m->r->shadow, t.p, t.p_n, oid, m->e);
	if (!rc && c->s.type == SIDE_NONE)
		rc = step_rm(m, c, &t);
	else if (!rc && c->whole)
		rc = step_whole(m, c, &t);
	else if (!rc)
		rc = step_text(m, c, &t);
	texts_done(&t);
	return rc;
}

static int by_base(const void *a, const void *b)
{
	return review_path_cmp(((const struct txn_base *)a)->path, ((const struct txn_base *)b)->path);
}

static int make_base(struct making *m)
{
	struct txn *t = m->t;
	if (t->n_base)
		qsort(t->base, t->n_base, sizeof *t->base, by_base);
	struct shadow_update *v = xcalloc(t->n_base + 1, sizeof *v);
	for (size_t i = 0; i < t->n_base; i++) {
		v[i] = (struct shadow_update){.path = t->base[i].path, .mode = t->base[i].after.mode};
		memcpy(v[i].oid, t->base[i].after.oid, SHADOW_OID);
	}
	memcpy(t->p_before, m->r->p_tree, SHADOW_OID);
	int rc = shadow_update(m->r->shadow, t->p_before, v, t->n_base, t->p_after, m->e);
	free(v);
	return rc;
}

int review_steps(struct review *r, const struct apply_spec *a, struct txn *t, struct apply_result *out,
		 struct refusal *why, struct err *e)
{
	struct making m = {.r = r, .a = a, .t = t, .e = e};
	if (edit_all(r, a, e) || check_taken(r, a, out, why, e))
		return -1;
	for (size_t i = 0; i < r->n; i++) {
		struct change *c = r->v[i];
		if (!change_is_taken(c))
			continue;
		if (c->kind == CHANGE_DIR)
			txn_add(t, OP_MKDIR, c->path)->now.type = SIDE_DIR;
		else if (c->kind == CHANGE_RMDIR)
			txn_add(t, OP_RMDIR, c->path)->old.type = SIDE_DIR;
		else if (step_change(&m, c))
			return -1;
	}
	return make_base(&m);
}

// SPDX-License-Identifier: Apache-2.0
// Renames: a deleted file and an added one with equal or similar content become one change. Only how they are shown and
// chosen: what lands is still a deletion and a new file.
#include "workspace/review.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define PAIRS_MAX 250000u	 // comparisons; past that only equal contents are paired
#define SIZE_MAX_SIMILAR (1u << 20)
#define LINES_COMPARED 50000000u	 // of all pairs together: a sandbox may make them as many as it likes
#define SIMILAR_MIN 50u		 // per cent, as git

// Lines as numbers, sorted, each with its length.
struct print {
	uint64_t *v;
	size_t n;
	uint64_t bytes;
};

static uint64_t line_number(const char *p, size_t n)
{
	uint64_t h = 14695981039346656037u; // FNV-1a; the length in the low bits
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)p[i]) * 1099511628211u;
	return (h & ~0xffffu) | (n < 0xffff ? n : 0xffff);
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void print_init(struct print *f, const char *p, size_t n)
{
	struct lines l;
	lines_init(&l, p, n);
	*f = (struct print){.v = xcalloc(l.n + 1, sizeof *f->v), .n = l.n, .bytes = n};
	for (size_t i = 0; i < l.n; i++) {
		size_t len;
		const char *s = lines_get(&l, i, 1, &len);
		f->v[i] = line_number(s, len);
	}
	qsort(f->v, f->n, sizeof *f->v, by_number);
	lines_done(&l);
}

static unsigned similarity(const struct print *a, const struct print *b)
{
	uint64_t common = 0, larger = a->bytes > b->bytes ? a->bytes : b->bytes;
	for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
		if (a->v[i] == b->v[k]) {
			common += a->v[i] & 0xffff;
			i++, k++;
		} else if (a->v[i] < b->v[k]) {
			i++;
		} else {
			k++;
		}
	}
	return larger ? (unsigned)(common * 100 / larger) : 0;
}

static bool may_be_source(const struct change *c)
{
	return c->kind == CHANGE_DELETE && c->state == STATE_CLEAN && c->p.type == SIDE_FILE && !c->hidden;
}

static bool may_be_target(const struct change *c)
{
	return c->kind == CHANGE_ADD && c->state == STATE_CLEAN && c->s.type == SIDE_FILE && !c->from && !c->unseen &&
	       c->s.size;
}

static int pair(struct review *r, struct change *from, struct change *to, unsigned score, struct err *e)
{
	struct texts t;
	to->from = from;
	to->kind = CHANGE_RENAME;
	to->similarity = score;
	from->hidden = true;
	hunks_done(&to->hunks);
	if (texts_load(r, to, &t, e)) {
		texts_done(&t);
		return -1;
	}
	bool text = lines_is_text(t.p, t.p_n) && lines_is_text(t.s, t.s_n);
	int rc = 0;
	to->added = to->removed = 0;
	to->binary = !text;
	to->whole = !text || score == 100;
	if (to->whole)
		hunk_name_whole(hunks_add(&to->hunks, HUNK_WHOLE), to->path, from->path, t.p, t.p_n, t.s, t.s_n);
	else
		rc = change_line_hunks(to, to->path, t.p, t.p_n, t.s, t.s_n, e);
	for (size_t i = 0; i < to->hunks.n; i++) {
		to->added += to->hunks.v[i].new_n;
		to->removed += to->hunks.v[i].old_n;
	}
	texts_done(&t);
	return rc;
}

static int by_content(const void *a, const void *b)
{
	const struct change *x = *(struct change *const *)a, *y = *(struct change *const *)b;
	const struct side *xs = x->kind == CHANGE_DELETE ? &x->p : &x->s,
			  *ys = y->kind == CHANGE_DELETE ? &y->p : &y->s;
	const char *xn = strrchr(x->path, '/'), *yn = strrchr(y->path, '/');
	int d = memcmp(xs->oid, ys->oid, SHADOW_OID);
	if (!d) // of several equal ones those with the same name belong together
		d = strcmp(xn ? xn + 1 : x->path, yn ? yn + 1 : y->path);
	return d ? d : review_path_cmp(x->path, y->path);
}

static size_t gather(struct review *r, struct change **out, bool (*want)(const struct change *))
{
	size_t n = 0;
	for (size_t i = 0; i < r->n; i++)
		if (want(r->v[i]))
			out[n++] = r->v[i];
	return n;
}

static int pair_equal(struct review *r, struct change **from, size_t n_from, struct change **to, size_t n_to,
		      struct err *e)
{
	qsort(from, n_from, sizeof *from, by_content);
	qsort(to, n_to, sizeof *to, by_content);
	for (size_t i = 0, k = 0; i < n_from && k < n_to;) {
		int d = memcmp(from[i]->p.oid, to[k]->s.oid, SHADOW_OID);
		if (!d && pair(r, from[i], to[k], 100, e))
			return -1;
		i += d <= 0;
		k += d >= 0;
	}
	return 0;
}

static int make_print(struct review *r, struct change *c, struct print *out, struct err *e)
{
	struct texts t;
	*out = (struct print){0};
	int rc = texts_load(r, c, &t, e);
	const char *p = c->kind == CHANGE_DELETE ? t.p : t.s;
	size_t n = c->kind == CHANGE_DELETE ? t.p_n : t.s_n;
	if (!rc && n <= SIZE_MAX_SIMILAR && lines_is_text(p, n))
		print_init(out, p, n);
	texts_done(&t);
	return rc;
}

static uint64_t lines_to_compare(const struct print *f, size_t n_from, const struct print *t, size_t n_to)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < n_from; i++)
		sum += (uint64_t)f[i].n * n_to;
	for (size_t i = 0; i < n_to; i++)
		sum += (uint64_t)t[i].n * n_from;
	return sum;
}

static int pair_similar(struct review *r, struct change **from, size_t n_from, struct change **to, size_t n_to,
			struct err *e)
{
	struct print *f = xcalloc(n_from + 1, sizeof *f), *t = xcalloc(n_to + 1, sizeof *t);
	size_t made = n_to;
	int rc = 0;
	for (size_t i = 0; !rc && i < n_from; i++)
		rc = make_print(r, from[i], &f[i], e);
	for (size_t i = 0; !rc && i < n_to; i++)
		rc = make_print(r, to[i], &t[i], e);
	if (!rc && lines_to_compare(f, n_from, t, n_to) > LINES_COMPARED)
		n_to = 0;
	for (size_t k = 0; !rc && k < n_to; k++) {
		unsigned best = SIMILAR_MIN - 1, score;
		struct change *found = NULL;
		for (size_t i = 0; t[k].n && i < n_from; i++) {
			if (from[i]->hidden || !f[i].n || (score = similarity(&f[i], &t[k])) <= best)
				continue;
			best = score;
			found = from[i];
		}
		if (found) // lines in another order count as alike, but it is not the same file
			rc = pair(r, found, to[k], best > 99 ? 99 : best, e);
	}
	for (size_t i = 0; i < n_from; i++)
		free(f[i].v);
	for (size_t i = 0; i < made; i++)
		free(t[i].v);
	free(f);
	free(t);
	return rc;
}

int review_find_renames(struct review *r, struct err *e)
{
	struct change **from = xcalloc(r->n + 1, sizeof *from), **to = xcalloc(r->n + 1, sizeof *to);
	size_t n_from = gather(r, from, may_be_source), n_to = gather(r, to, may_be_target);
	int rc = pair_equal(r, from, n_from, to, n_to, e);
	n_from = gather(r, from, may_be_source);
	n_to = gather(r, to, may_be_target);
	if (!rc && n_from && n_to && n_to <= PAIRS_MAX / n_from)
		rc = pair_similar(r, from, n_from, to, n_to, e);
	free(from);
	free(to);
	return rc;
}

// SPDX-License-Identifier: Apache-2.0
// Myers' O(ND) algorithm, with an end to D.
#include "cli/lines.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define D_MAX 1000

struct line {
	const char *p;
	size_t n; // with its newline
};

struct side {
	struct line *v;
	int n;
	bool *changed;
};

bool lines_is_text(const char *p, size_t n)
{
	return !n || !memchr(p, 0, n < 8000 ? n : 8000);
}

static void split(struct side *s, const char *p, size_t n)
{
	int cap = 0;
	*s = (struct side){0};
	while (n) {
		const char *nl = memchr(p, '\n', n);
		size_t k = nl ? (size_t)(nl - p) + 1 : n;
		if (s->n == cap) {
			cap = cap ? cap * 2 : 64;
			s->v = xrealloc(s->v, (size_t)cap * sizeof *s->v);
		}
		s->v[s->n++] = (struct line){p, k};
		p += k;
		n -= k;
	}
	s->changed = xcalloc((size_t)s->n + 1, sizeof *s->changed);
}

static void side_done(struct side *s)
{
	free(s->v);
	free(s->changed);
}

static bool same(const struct line *a, const struct line *b)
{
	return a->n == b->n && !memcmp(a->p, b->p, a->n);
}

// The middle part of both sides, between what is equal at their ends.
struct middle {
	const struct line *a, *b;
	bool *gone, *added;
	int n, m;
};

// The row of each step, -d .. d, is kept to find the way back.
struct rows {
	int *row[D_MAX + 1];
	int n;
};

static int reach(const struct rows *r, int d, int k)
{
	return r->row[d][k + d];
}

static int start_of(const struct rows *r, int d, int k)
{
	if (!d)
		return 0;
	bool down = k == -d || (k != d && reach(r, d - 1, k - 1) < reach(r, d - 1, k + 1));
	return down ? reach(r, d - 1, k + 1) : reach(r, d - 1, k - 1) + 1;
}

// The number of steps, or -1: too many.
static int search(const struct middle *m, struct rows *r)
{
	for (int d = 0; d <= D_MAX; d++) {
		r->row[d] = xcalloc((size_t)(2 * d + 1), sizeof *r->row[d]);
		r->n = d + 1;
		for (int k = -d; k <= d; k += 2) {
			int x = start_of(r, d, k);
			while (x < m->n && x - k < m->m && x - k >= 0 && same(&m->a[x], &m->b[x - k]))
				x++;
			r->row[d][k + d] = x;
			if (x >= m->n && x - k >= m->m)
				return d;
		}
	}
	return -1;
}

static void go_back(const struct middle *m, const struct rows *r, int d)
{
	int x = m->n, y = m->m;
	for (; d > 0; d--) {
		int k = x - y;
		bool down = k == -d || (k != d && reach(r, d - 1, k - 1) < reach(r, d - 1, k + 1));
		int before = down ? k + 1 : k - 1;
		x = reach(r, d - 1, before);
		y = x - before;
		if (down && y >= 0 && y < m->m)
			m->added[y] = true;
		else if (!down && x >= 0 && x < m->n)
			m->gone[x] = true;
	}
}

static void compare(struct side *a, struct side *b)
{
	int first = 0, last = 0;
	while (first < a->n && first < b->n && same(&a->v[first], &b->v[first]))
		first++;
	while (last < a->n - first && last < b->n - first && same(&a->v[a->n - 1 - last], &b->v[b->n - 1 - last]))
		last++;
	struct middle m = {a->v + first, b->v + first, a->changed + first, b->changed + first, a->n - first - last, b->n - first - last};
	struct rows r = {.n = 0};
	int d = m.n && m.m ? search(&m, &r) : -1;
	if (d >= 0)
		go_back(&m, &r, d);
	for (int i = 0; d < 0 && i < m.n; i++)
		m.gone[i] = true;
	for (int i = 0; d < 0 && i < m.m; i++)
		m.added[i] = true;
	while (r.n)
		free(r.row[--r.n]);
}

// --- hunks ---

static void put_line(struct buf *out, char sign, const struct line *l)
{
	buf_byte(out, sign);
	buf_add(out, l->p, l->n);
	if (l->p[l->n - 1] != '\n')
		buf_str(out, "\n\\ No newline at end of file\n");
}

static void put_range(struct buf *out, char sign, int from, int n)
{
	buf_fmt(out, "%c%d", sign, n ? from + 1 : from);
	if (n != 1)
		buf_fmt(out, ",%d", n);
}

struct at {
	int a, b;
};

// Moves over one run of changed lines, or one equal line.
static bool step(const struct side *a, const struct side *b, struct at *p)
{
	struct at was = *p;
	while (p->a < a->n && a->changed[p->a])
		p->a++;
	while (p->b < b->n && b->changed[p->b])
		p->b++;
	if (p->a != was.a || p->b != was.b)
		return true;
	p->a++;
	p->b++;
	return false;
}

// Where the hunk that begins at the change `from` ends: behind the context of its last change.
static struct at hunk_end(const struct side *a, const struct side *b, struct at from, int context)
{
	struct at end = from, p = from;
	for (int equal = 0; p.a < a->n || p.b < b->n;) {
		if (step(a, b, &p)) {
			end = p;
			equal = 0;
		} else if (++equal > 2 * context) {
			break;
		}
	}
	for (int i = 0; i < context && end.a < a->n && end.b < b->n; i++)
		end.a++, end.b++;
	return end;
}

static void put_hunk(struct buf *out, const struct side *a, const struct side *b, struct at from, struct at end)
{
	buf_str(out, "@@ ");
	put_range(out, '-', from.a, end.a - from.a);
	buf_byte(out, ' ');
	put_range(out, '+', from.b, end.b - from.b);
	buf_str(out, " @@\n");
	for (struct at p = from; p.a < end.a || p.b < end.b;) {
		struct at was = p;
		if (!step(a, b, &p)) {
			put_line(out, ' ', &a->v[was.a]);
			continue;
		}
		for (int i = was.a; i < p.a; i++)
			put_line(out, '-', &a->v[i]);
		for (int i = was.b; i < p.b; i++)
			put_line(out, '+', &b->v[i]);
	}
}

void lines_diff(struct buf *out, const char *a, size_t na, const char *b, size_t nb, unsigned context)
{
	struct side old, new;
	split(&old, a, na);
	split(&new, b, nb);
	compare(&old, &new);
	for (struct at p = {0, 0}; p.a < old.n || p.b < new.n;) {
		struct at was = p;
		if (!step(&old, &new, &p))
			continue;
		int lead = was.a < (int)context ? was.a : (int)context;
		struct at from = {was.a - lead, was.b - lead}, end = hunk_end(&old, &new, was, (int)context);
		put_hunk(out, &old, &new, from, end);
		p = end;
	}
	side_done(&old);
	side_done(&new);
}

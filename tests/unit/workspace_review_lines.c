// SPDX-License-Identifier: Apache-2.0
// Hunks: their parts give the whole in any order, ids are theirs alone, a merge keeps both sides.
#include "base/mem.h"
#include "workspace/review_lines.h"
#include <git2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the headers above it
#include <cmocka.h>

static uint32_t seed;

static uint32_t rnd(uint32_t n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

// Few different lines, so that equal ones are everywhere; some without a newline at the end.
static void random_text(struct buf *b, unsigned lines)
{
	static const char *const words[] = {"{\n", "}\n", "\n", "same\n", "same\r\n", "x = 1;\n", "y\n", "return\n"};
	for (unsigned i = 0; i < lines; i++)
		buf_str(b, words[rnd(countof(words))]);
	if (rnd(3) == 0)
		buf_str(b, "end");
}

static void random_edit(const struct buf *from, struct buf *to)
{
	struct lines l;
	lines_init(&l, from->n ? from->p : "", from->n);
	for (size_t i = 0; i < l.n; i++) {
		size_t n;
		const char *p = lines_get(&l, i, 1, &n);
		uint32_t what = rnd(12);
		if (what == 0)
			continue;
		if (what == 1)
			buf_str(to, "new\n");
		if (what == 2)
			buf_str(to, "changed ");
		buf_add(to, p, n);
	}
	lines_done(&l);
}

struct pair {
	struct buf a, b;
	struct lines al, bl;
	struct hunks h;
};

static void pair_open(struct pair *p, const char *path)
{
	struct err e;
	lines_init(&p->al, p->a.n ? p->a.p : "", p->a.n);
	lines_init(&p->bl, p->b.n ? p->b.p : "", p->b.n);
	assert_int_equal(hunks_diff(&p->al, &p->bl, &p->h, &e), 0);
	hunks_name(&p->h, path, &p->al, &p->bl);
}

static void pair_done(struct pair *p)
{
	hunks_done(&p->h);
	lines_done(&p->al);
	lines_done(&p->bl);
	buf_done(&p->a);
	buf_done(&p->b);
}

static void assert_splice(struct pair *p, const struct buf *want)
{
	auto_buf struct buf got = BUF_INIT(1 << 20);
	hunks_splice(&p->h, &p->al, &p->bl, false, &got);
	assert_int_equal(got.n, want->n);
	assert_memory_equal(got.n ? got.p : "", want->n ? want->p : "", want->n);
}

static void mark(struct pair *p, bool all)
{
	for (size_t i = 0; i < p->h.n; i++)
		p->h.v[i].take = all;
}

static void test_all_and_none(void **state)
{
	(void)state;
	for (seed = 0; seed < 400; seed++) {
		uint32_t keep = seed;
		struct pair p = {.a = BUF_INIT(1 << 20), .b = BUF_INIT(1 << 20)};
		random_text(&p.a, rnd(60));
		random_edit(&p.a, &p.b);
		pair_open(&p, "f");
		mark(&p, false);
		assert_splice(&p, &p.a);
		mark(&p, true);
		assert_splice(&p, &p.b);
		for (size_t i = 0; i + 1 < p.h.n; i++) // maximal runs: at least one line of both between two
			assert_true(p.h.v[i].old_at + p.h.v[i].old_n < p.h.v[i + 1].old_at);
		pair_done(&p);
		seed = keep;
	}
}

static void test_ids_are_unique(void **state)
{
	(void)state;
	for (seed = 0; seed < 100; seed++) {
		uint32_t keep = seed;
		struct pair p = {.a = BUF_INIT(1 << 20), .b = BUF_INIT(1 << 20)};
		random_text(&p.a, 80);
		random_edit(&p.a, &p.b);
		pair_open(&p, "f");
		for (size_t i = 0; i < p.h.n; i++)
			for (size_t k = i + 1; k < p.h.n; k++)
				assert_string_not_equal(p.h.v[i].id, p.h.v[k].id);
		pair_done(&p);
		seed = keep;
	}
}

// Random parts, one after the other, each time compared anew: in the end it is all of it.
static void test_parts_in_any_order(void **state)
{
	(void)state;
	for (seed = 1; seed < 150; seed++) {
		uint32_t keep = seed;
		auto_buf struct buf now = BUF_INIT(1 << 20), want = BUF_INIT(1 << 20);
		random_text(&now, 50);
		random_edit(&now, &want);
		for (int round = 0;; round++) {
			struct pair p = {.a = BUF_INIT(1 << 20), .b = BUF_INIT(1 << 20)};
			buf_add(&p.a, now.p, now.n);
			buf_add(&p.b, want.p, want.n);
			pair_open(&p, "f");
			size_t left = p.h.n;
			assert_true(round < 500);
			if (left)
				p.h.v[rnd((uint32_t)left)].take = true;
			for (size_t i = 0; i < left; i++)
				p.h.v[i].take |= rnd(4) == 0;
			buf_clear(&now);
			hunks_splice(&p.h, &p.al, &p.bl, false, &now);
			pair_done(&p);
			if (!left)
				break;
		}
		assert_int_equal(now.n, want.n);
		assert_memory_equal(now.n ? now.p : "", want.n ? want.p : "", want.n);
		seed = keep;
	}
}

static struct pair named(const char *path, const char *a, const char *b)
{
	struct pair p = {.a = BUF_INIT(1 << 20), .b = BUF_INIT(1 << 20)};
	buf_str(&p.a, a);
	buf_str(&p.b, b);
	pair_open(&p, path);
	return p;
}

static void test_ids_are_stable(void **state)
{
	(void)state;
	struct pair one = named("f", "1\n2\n3\n4\n5\n", "1\n2\n3\nfour\n5\n");
	struct pair two = named("f", "1\n2\n3\n4\n5\n", "0\n0\n1\n3\nfour\n5\n");
	struct pair other = named("g", "1\n2\n3\n4\n5\n", "1\n2\n3\nfour\n5\n");
	assert_int_equal(one.h.n, 1);
	assert_int_equal(two.h.n, 3);
	assert_string_equal(one.h.v[0].id, two.h.v[2].id);
	assert_string_not_equal(one.h.v[0].id, other.h.v[0].id);
	assert_int_equal(strlen(one.h.v[0].id), 12);
	// two equal ones are told apart by their order
	struct pair twice = named("f", "a\n1\na\n", "b\n1\nb\n");
	assert_int_equal(twice.h.n, 2);
	assert_string_not_equal(twice.h.v[0].id, twice.h.v[1].id);
	pair_done(&one);
	pair_done(&two);
	pair_done(&other);
	pair_done(&twice);
}

struct three {
	struct lines p, h, s;
	struct hunks ours, host;
};

static void three_open(struct three *t, const char *p, const char *h, const char *s)
{
	struct err e;
	lines_init(&t->p, p, strlen(p));
	lines_init(&t->h, h, strlen(h));
	lines_init(&t->s, s, strlen(s));
	assert_int_equal(hunks_diff(&t->p, &t->s, &t->ours, &e), 0);
	assert_int_equal(hunks_diff(&t->p, &t->h, &t->host, &e), 0);
	hunks_place(&t->ours, &t->s, &t->host, &t->h);
	for (size_t i = 0; i < t->ours.n; i++)
		t->ours.v[i].take = true;
}

static void three_done(struct three *t)
{
	lines_done(&t->p);
	lines_done(&t->h);
	lines_done(&t->s);
	hunks_done(&t->ours);
	hunks_done(&t->host);
}

static void assert_merge(const char *p, const char *h, const char *s, const char *want)
{
	struct three t;
	auto_buf struct buf got = BUF_INIT(1 << 20);
	three_open(&t, p, h, s);
	for (size_t i = 0; i < t.ours.n; i++)
		assert_int_not_equal(t.ours.v[i].state, HUNK_CONFLICT);
	hunks_splice(&t.ours, &t.h, &t.s, true, &got);
	assert_string_equal(buf_cstr(&got), want);
	three_done(&t);
}

static void test_merge(void **state)
{
	(void)state;
	const char *p = "1\n2\n3\n4\n5\n6\n7\n8\n";
	assert_merge(p, "one\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\n5\n6\n7\neight\n", "one\n2\n3\n4\n5\n6\n7\neight\n");
	assert_merge(p, "0\n0\n1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\n6\n7\n8\n", "0\n0\n1\n2\n3\n4\n6\n7\n8\n");
	assert_merge(p, "1\n2\n3\n4\n5\n6\n8\n", "1\n2\nthree\n4\n5\n6\n7\n8\n", "1\n2\nthree\n4\n5\n6\n8\n");
	assert_merge(p, "1\n2\nX\n4\n5\n6\n7\n8\n", "1\n2\nX\n4\n5\n6\n7\n8\n9\n", "1\n2\nX\n4\n5\n6\n7\n8\n9\n"); // X is there
	assert_merge(p, "1\n2\n3\n4\n5\n6\n7\n8", "0\n1\n2\n3\n4\n5\n6\n7\n8\n", "0\n1\n2\n3\n4\n5\n6\n7\n8");
}

static void test_conflicts(void **state)
{
	static const char *const cases[][3] = {
		{"1\n2\n3\n", "1\nh\n3\n", "1\ns\n3\n"},
		{"1\n2\n3\n", "1\n2\n3\nh\n", "1\n2\n3\ns\n"},	 // both at the end
		{"1\n2\n3\n4\n", "1\nh\n3\n4\n", "1\n2\ns\n4\n"}, // touching
		{"1\n2\n3\n", "1\n3\n", "1\ns\n3\n"},		 // deleted there, changed here
	};
	(void)state;
	for (size_t i = 0; i < countof(cases); i++) {
		struct three t;
		struct err e;
		auto_buf struct buf m = BUF_INIT(1 << 20), got = BUF_INIT(1 << 20);
		three_open(&t, cases[i][0], cases[i][1], cases[i][2]);
		assert_int_equal(t.ours.n, 1);
		assert_int_equal(t.ours.v[0].state, HUNK_CONFLICT);
		hunks_splice(&t.ours, &t.h, &t.s, true, &got); // what conflicts never lands by itself
		assert_string_equal(buf_cstr(&got), cases[i][1]);
		assert_int_equal(lines_merge_markers(&t.p, &t.h, &t.s, &m, &e), 0);
		assert_non_null(strstr(buf_cstr(&m), "<<<<<<< host\n"));
		assert_non_null(strstr(buf_cstr(&m), ">>>>>>> sandbox\n"));
		three_done(&t);
	}
}

// Edits in odd parts on one side and even parts on the other never meet: both are in the result.
static void test_merge_keeps_both(void **state)
{
	(void)state;
	for (seed = 0; seed < 200; seed++) {
		uint32_t keep = seed;
		auto_buf struct buf p = BUF_INIT(1 << 20), h = BUF_INIT(1 << 20), s = BUF_INIT(1 << 20), want = BUF_INIT(1 << 20);
		for (int part = 0; part < 10; part++) {
			bool host = rnd(2), ours = !host && rnd(2);
			for (int i = 0; i < 6; i++) {
				auto_free char *line = xasprintf("%d.%d\n", part, i), *other = xasprintf("%d.%d %u\n", part, i, rnd(9));
				bool edge = i == 0 || i == 5, edit = !edge && rnd(2), cut = edit && rnd(3) == 0;
				buf_str(&p, line);
				const char *now = cut ? "" : edit ? other : line;
				buf_str(&h, host ? now : line);
				buf_str(&s, ours ? now : line);
				buf_str(&want, host || ours ? now : line);
			}
		}
		assert_merge(buf_cstr(&p), buf_cstr(&h), buf_cstr(&s), buf_cstr(&want));
		seed = keep;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_and_none), cmocka_unit_test(test_ids_are_unique), cmocka_unit_test(test_parts_in_any_order),
		cmocka_unit_test(test_ids_are_stable), cmocka_unit_test(test_merge),	    cmocka_unit_test(test_conflicts),
		cmocka_unit_test(test_merge_keeps_both),
	};
	git_libgit2_init(); // once: the code under test counts on a cheap second time
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	git_libgit2_shutdown();
	return rc;
}

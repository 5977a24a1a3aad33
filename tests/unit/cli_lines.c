// SPDX-License-Identifier: Apache-2.0
// Differences of texts: applied to the old one, the hunks give the new one, whatever the two are.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/lines.h"
#include <stdlib.h>
#include <string.h>

static void same(const char *a, const char *b, const char *want)
{
	auto_buf struct buf out = BUF_INIT(1 << 20);
	lines_diff(&out, a, strlen(a), b, strlen(b), 3);
	assert_string_equal(buf_cstr(&out), want);
}

static void known_ones(void **state)
{
	(void)state;
	same("", "", "");
	same("a\n", "a\n", "");
	same("", "a\n", "@@ -0,0 +1 @@\n+a\n");
	same("a\n", "", "@@ -1 +0,0 @@\n-a\n");
	same("a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
	same("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n",
	     "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
	same("a\nb\nc\n", "a\nc\n", "@@ -1,3 +1,2 @@\n a\n-b\n c\n");
	assert_true(lines_is_text("abc", 3) && lines_is_text("", 0) && !lines_is_text("a\0c", 3));
}

static const char *line_end(const char *p)
{
	const char *nl = strchr(p, '\n');
	return nl ? nl + 1 : p + strlen(p);
}

// Applies a diff as it is defined, and checks the lines it names on the way.
static char *apply(const char *old, const char *diff)
{
	struct buf out = BUF_INIT(1 << 20);
	long line = 1;
	while (*diff) {
		long from, n = 1;
		char *rest;
		assert_memory_equal(diff, "@@ -", 4);
		from = strtol(diff + 4, &rest, 10);
		if (*rest == ',')
			n = strtol(rest + 1, NULL, 10);
		for (long to = n ? from : from + 1; line < to; line++) {
			buf_add(&out, old, (size_t)(line_end(old) - old));
			old = line_end(old);
		}
		for (diff = line_end(diff); *diff && *diff != '@'; diff = line_end(diff)) {
			const char *end = line_end(diff);
			size_t len = (size_t)(end - diff) - 1;
			bool open = *end == '\\';
			if (*diff != '+') {
				assert_memory_equal(old, diff + 1, len - open);
				old = line_end(old);
				line++;
			}
			if (*diff != '-')
				buf_add(&out, diff + 1, len - open);
			if (open)
				diff = end;
		}
	}
	buf_str(&out, old);
	return buf_take(&out);
}

static void fill(struct buf *b, unsigned *seed, int lines, int kinds)
{
	for (int i = 0; i < lines; i++)
		buf_fmt(b, "%c\n", 'a' + rand_r(seed) % kinds);
	if (b->n && !(rand_r(seed) % 4))
		b->p[--b->n] = 0;
}

static void any_two_texts(void **state)
{
	unsigned seed = 7;
	(void)state;
	for (int i = 0; i < 3000; i++) {
		auto_buf struct buf a = BUF_INIT(1 << 20), b = BUF_INIT(1 << 20), diff = BUF_INIT(1 << 20);
		fill(&a, &seed, rand_r(&seed) % 40, 1 + rand_r(&seed) % 6);
		fill(&b, &seed, rand_r(&seed) % 40, 1 + rand_r(&seed) % 6);
		lines_diff(&diff, a.p, a.n, b.p, b.n, (unsigned)rand_r(&seed) % 4);
		auto_free char *got = apply(buf_cstr(&a), buf_cstr(&diff));
		assert_string_equal(got ? got : "", buf_cstr(&b));
	}
}

static void two_that_share_nothing(void **state)
{
	auto_buf struct buf a = BUF_INIT(1 << 20), b = BUF_INIT(1 << 20), diff = BUF_INIT(1 << 20);
	(void)state;
	for (int i = 0; i < 3000; i++) {
		buf_fmt(&a, "a%d\n", i);
		buf_fmt(&b, "b%d\n", i);
	}
	lines_diff(&diff, a.p, a.n, b.p, b.n, 3);
	auto_free char *got = apply(a.p, buf_cstr(&diff));
	assert_string_equal(got, b.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_ones),
		cmocka_unit_test(any_two_texts),
		cmocka_unit_test(two_that_share_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

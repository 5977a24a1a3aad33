// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "http/multipart.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

struct seen {
	struct buf b;
	size_t at_most; // bytes taken at once; 0 = all
	bool refuse;
};

static int on_part(void *ctx, const char *name, const char *filename, struct err *e)
{
	struct seen *s = ctx;
	buf_fmt(&s->b, "[%s|%s]", name, filename ? filename : "-");
	return s->refuse ? err_set(e, ERR_INVALID, "no") : 0;
}

static size_t on_data(void *ctx, const char *p, size_t n)
{
	struct seen *s = ctx;
	n = s->at_most && n > s->at_most ? s->at_most : n;
	buf_add(&s->b, p, n);
	return n;
}

static void on_end(void *ctx)
{
	struct seen *s = ctx;
	buf_str(&s->b, "$");
}

static const struct multipart_ops ops = {on_part, on_data, on_end};

// Fed in pieces of `piece` bytes. 0 and what was seen, or -1.
static int feed(const char *type, const char *text, size_t n, size_t piece, struct seen *s, bool *over, struct err *e)
{
	struct multipart m;
	int rc = 0;
	if (multipart_init(&m, type, &ops, s, e))
		return -1;
	for (size_t at = 0; at < n && !rc;) {
		long took = multipart_feed(&m, text + at, n - at < piece ? n - at : piece, e);
		if (took < 0)
			rc = -1;
		else
			at += (size_t)took;
	}
	*over = multipart_is_over(&m);
	multipart_done(&m);
	return rc;
}

#define TYPE "multipart/form-data; boundary=B-1"
#define PART(name, body) "--B-1\r\nContent-Disposition: form-data; " name "\r\nContent-Type: x/y\r\n\r\n" body "\r\n"

static const struct {
	const char *text, *want;
} good[] = {
	{PART("name=\"file\"; filename=\"a b.txt\"", "hello") "--B-1--\r\n", "[file|a b.txt]hello$"},
	{PART("name=file", "") "--B-1--", "[file|-]$"},
	{"--B-1\r\nContent-Disposition: form-data; name=x\r\n\r\n--B-1--", "[x|-]$"},
	{PART("name=\"a\"", "1") PART("name=\"b\"; filename=\"d/%22\\\"e%0A\"", "2\r\n--B-") "--B-1--\r\ntrailing", "[a|-]1$[b|d/\"\"e\n]2\r\n--B-$"},
	{"preamble\r\n" PART("name=\"f\"", "\r\r\n\r\n--B\r\n--B-2-") "--B-1  \r\n\r\nz\r\n--B-1--", "[f|-]\r\r\n\r\n--B\r\n--B-2-$[|-]z$"},
	{PART("filename=\"é\"; name=\"file\"", "-\r\n-") "--B-1--", "[file|é]-\r\n-$"},
};

static void parts_and_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < countof(good); i++)
		for (size_t piece = 1; piece < 80; piece++)
			for (size_t take = 0; take < 4; take++) {
				struct seen s = {.b = BUF_INIT(4096), .at_most = take};
				struct err e;
				bool over = false;
				assert_int_equal(feed(TYPE, good[i].text, strlen(good[i].text), piece, &s, &over, &e), 0);
				assert_string_equal(buf_cstr(&s.b), good[i].want);
				assert_true(over);
				buf_done(&s.b);
			}
}

static void what_is_none_is_refused(void **state)
{
	static const char *const types[] = {"multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=\"a\nb\"",
					    "multipart/form-data; boundary=0123456789012345678901234567890123456789012345678901234567890123456789x"};
	static const char *const texts[] = {"--B-1-x", "--B-1x\r\n", "--B-1- -"};
	struct err e;
	bool over;
	(void)state;
	for (size_t i = 0; i < countof(types); i++) {
		struct seen s = {.b = BUF_INIT(4096)};
		assert_int_equal(feed(types[i], "", 0, 1, &s, &over, &e), -1);
	}
	for (size_t i = 0; i < countof(texts); i++) {
		struct seen s = {.b = BUF_INIT(4096)};
		assert_int_equal(feed(TYPE, texts[i], strlen(texts[i]), 3, &s, &over, &e), -1);
		buf_done(&s.b);
	}
}

static void a_head_is_bounded(void **state)
{
	(void)state;
	auto_buf struct buf b = BUF_INIT(64 << 10);
	struct seen s = {.b = BUF_INIT(4096)};
	struct err e;
	bool over;
	buf_str(&b, "--B-1\r\nX: ");
	for (unsigned i = 0; i < MULTIPART_HEAD; i++)
		buf_byte(&b, 'x');
	assert_int_equal(feed(TYPE, b.p, b.n, 4096, &s, &over, &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
}

static void a_form_without_its_end_is_not_over(void **state)
{
	(void)state;
	struct seen s = {.b = BUF_INIT(4096)};
	struct err e;
	bool over = true;
	assert_int_equal(feed(TYPE, PART("name=file", "half"), strlen(PART("name=file", "half")), 7, &s, &over, &e), 0);
	assert_false(over);
	buf_done(&s.b);
}

static void a_refused_part_ends_it(void **state)
{
	(void)state;
	struct seen s = {.b = BUF_INIT(4096), .refuse = true};
	struct err e;
	bool over;
	assert_int_equal(feed(TYPE, good[0].text, strlen(good[0].text), 9, &s, &over, &e), -1);
	assert_string_equal(e.msg, "no");
	buf_done(&s.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_and_bytes),	 cmocka_unit_test(what_is_none_is_refused),
		cmocka_unit_test(a_head_is_bounded),	 cmocka_unit_test(a_form_without_its_end_is_not_over),
		cmocka_unit_test(a_refused_part_ends_it),
	};
	return cmocka_run_group_tests_name("http/multipart", tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Heads and chunked bodies: well-formed, cut anywhere, and each way of being malformed.
#include "base/mem.h"
#include "http/head.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the headers above it
#include <cmocka.h>

static ssize_t parse(const char *text, struct http_head *h)
{
	struct err e;
	return http_head_parse(text, strlen(text), h, &e);
}

static void test_head(void **state)
{
	static const char text[] =
		"HTTP/1.1 201 Created\r\nContent-Length: 12\r\nX-Skep-End:\t77 \r\nConnection: Close\r\n\r\nbody";
	struct http_head h;
	(void)state;
	assert_int_equal(parse(text, &h), (ssize_t)strlen(text) - 4);
	assert_int_equal(h.status, 201);
	assert_true(h.has_length && h.length == 12 && !h.chunked && h.close);
	assert_true(str_is(http_head_get(&h, "x-skep-END"), "77"));
	assert_null(http_head_get(&h, "absent").p);
	for (size_t n = 0; n < strlen(text) - 4; n++) {
		struct err e;
		assert_int_equal(http_head_parse(text, n, &h, &e), 0);
	}
}

static void test_minimal_and_chunked(void **state)
{
	struct http_head h;
	(void)state;
	assert_true(parse("HTTP/1.1 204\r\n\r\n", &h) > 0);
	assert_true(parse("HTTP/1.0 200 OK\r\n\r\n", &h) > 0 && h.close);
	assert_true(parse("HTTP/1.1 200 OK\r\nTransfer-Encoding: CHUNKED\r\n\r\n", &h) > 0 && h.chunked &&
		    !h.has_length);
}

static void test_malformed(void **state)
{
	static const char *const bad[] = {
		"HTTP/2.0 200 OK\r\n\r\n",
		"HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1 999 OK\r\n\r\n",
		"HTTP/1.1 200OK\r\n\r\n",
		"GET / HTTP/1.1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nNoColon\r\n\r\n",
		"HTTP/1.1 200 OK\r\n: v\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
		"HTTP/1.1 200 OK\nA: b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: \x01\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
	};
	struct http_head h;
	(void)state;
	for (size_t i = 0; i < countof(bad); i++)
		if (parse(bad[i], &h) != -1)
			fail_msg("taken: %s", bad[i]);
}

static void test_bounds(void **state)
{
	struct http_head h;
	struct err e;
	auto_buf struct buf b = BUF_INIT(1 << 20);
	(void)state;
	buf_str(&b, "HTTP/1.1 200 OK\r\n");
	for (int i = 0; i < HTTP_FIELDS_MAX + 1; i++)
		buf_fmt(&b, "A%d: x\r\n", i);
	buf_str(&b, "\r\n");
	assert_int_equal(http_head_parse(b.p, b.n, &h, &e), -1);
	buf_clear(&b);
	buf_str(&b, "HTTP/1.1 200 OK\r\nA: ");
	while (b.n < HTTP_HEAD_MAX)
		buf_byte(&b, 'x');
	assert_int_equal(http_head_parse(b.p, b.n, &h, &e), -1);
}

static ssize_t decode(const char *text, size_t step, struct buf *out)
{
	struct http_chunks c = {0};
	struct err e;
	size_t n = strlen(text), at = 0;
	while (at < n && c.state != CHUNK_DONE) {
		size_t k = n - at < step ? n - at : step;
		ssize_t used = http_chunks_add(&c, text + at, k, out, &e);
		if (used < 0)
			return -1;
		at += (size_t)used;
	}
	return c.state == CHUNK_DONE ? (ssize_t)at : -2;
}

static void test_chunks(void **state)
{
	static const char text[] = "5;ext=1\r\nhello\r\nA\r\n, world of\r\n0\r\nTrailer: x\r\n\r\nnext";
	(void)state;
	for (size_t step = 1; step < sizeof text; step++) {
		auto_buf struct buf out = BUF_INIT(1024);
		assert_int_equal(decode(text, step, &out), (ssize_t)strlen(text) - 4);
		assert_string_equal(buf_cstr(&out), "hello, world of");
	}
}

static void test_bad_chunks(void **state)
{
	static const char *const bad[] = {
		"\r\n",
		"x\r\n",
		"5hello",
		"5\nhello",
		"5\r\nhelloX\r\n",
		"5\r\nhello\n",
		"5 \r\nhello\r\n",
		";\r\n",
		"fffffffffffffffff\r\n",
		"0\r\nX\rY",
	};
	(void)state;
	for (size_t i = 0; i < countof(bad); i++) {
		auto_buf struct buf out = BUF_INIT(1024);
		if (decode(bad[i], 3, &out) != -1)
			fail_msg("taken: %s", bad[i]);
	}
	auto_buf struct buf small = BUF_INIT(4);
	assert_int_equal(decode("5\r\nhello\r\n0\r\n\r\n", 100, &small), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_head),	  cmocka_unit_test(test_minimal_and_chunked),
		cmocka_unit_test(test_malformed), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_chunks),	  cmocka_unit_test(test_bad_chunks),
	};
	return cmocka_run_group_tests_name("http/head", tests, NULL, NULL);
}

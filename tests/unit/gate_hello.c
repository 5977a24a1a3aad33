// SPDX-License-Identifier: Apache-2.0
// ClientHello: whole, cut into records and segments at every place, and each way of being wrong. And what the first
// bytes of other protocols look like.
#include "base/buf.h"
#include "base/mem.h"
#include "gate/hello.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the headers above it
#include <cmocka.h>

static void put(struct buf *b, size_t v, int bytes)
{
	while (bytes--)
		buf_byte(b, (char)(v >> 8 * bytes));
}

static void put_extension(struct buf *b, unsigned type, const void *p, size_t n)
{
	put(b, type, 2);
	put(b, n, 2);
	buf_add(b, p, n);
}

static void put_sni(struct buf *b, const char *name, size_t n)
{
	auto_buf struct buf ext = BUF_INIT(1024);
	put(&ext, n + 3, 2);
	put(&ext, 0, 1);
	put(&ext, n, 2);
	buf_add(&ext, name, n);
	put_extension(b, 0, ext.p, ext.n);
}

// The handshake message around a list of extensions; NULL = none at all.
static void put_hello(struct buf *out, const struct buf *ext)
{
	auto_buf struct buf b = BUF_INIT(32 << 10);
	put(&b, 0x0303, 2);
	for (int i = 0; i < 32; i++)
		buf_byte(&b, 'r');
	put(&b, 0, 1);
	put(&b, 2, 2);
	put(&b, 0x1301, 2);
	put(&b, 1, 1);
	put(&b, 0, 1);
	if (ext) {
		put(&b, ext->n, 2);
		buf_add(&b, ext->p, ext->n);
	}
	put(out, 1, 1);
	put(out, b.n, 3);
	buf_add(out, b.p, b.n);
}

// Into records of at most `size` bytes.
static void put_records(struct buf *out, const struct buf *msg, size_t size)
{
	for (size_t at = 0; at < msg->n; at += size) {
		size_t n = msg->n - at < size ? msg->n - at : size;
		put(out, 0x160301, 3);
		put(out, n, 2);
		buf_add(out, msg->p + at, n);
	}
}

static enum hello_state parse_with(const struct buf *ext, struct hello *h)
{
	auto_buf struct buf msg = BUF_INIT(32 << 10), out = BUF_INIT(64 << 10);
	put_hello(&msg, ext);
	put_records(&out, &msg, 16384);
	return hello_parse(out.p, out.n, h);
}

static void test_sni(void **state)
{
	auto_buf struct buf ext = BUF_INIT(4096), msg = BUF_INIT(8192);
	struct hello h;
	(void)state;
	put_extension(&ext, 0x0a0a, NULL, 0);
	put_sni(&ext, "API.Example.test", 16);
	put_extension(&ext, 16, "\x00\x0c\x02h2\x08http/1.1", 14);
	put_hello(&msg, &ext);
	static const size_t sizes[] = {1, 2, 3, 5, 17, 64, 16384};
	for (size_t i = 0; i < countof(sizes); i++) {
		auto_buf struct buf out = BUF_INIT(8192);
		put_records(&out, &msg, sizes[i]);
		for (size_t n = 0; n < out.n; n++)
			assert_int_equal(hello_parse(out.p, n, &h), HELLO_MORE);
		size_t whole = out.n;
		buf_add(&out, "\x14\x03\x03\x00\x01\x01", 6); // what follows is not looked at
		assert_int_equal(hello_parse(out.p, out.n, &h), HELLO_OK);
		assert_true(h.has_sni && h.h2 && !h.ech && h.n == whole);
		assert_string_equal(h.sni.s, "api.example.test");
	}
}

static void test_absent(void **state)
{
	auto_buf struct buf ext = BUF_INIT(64);
	struct hello h;
	(void)state;
	assert_int_equal(parse_with(NULL, &h), HELLO_OK);
	assert_true(!h.has_sni && !h.ech && !h.h2);
	assert_int_equal(parse_with(&ext, &h), HELLO_OK);
	assert_false(h.has_sni);
}

static void test_ech(void **state)
{
	auto_buf struct buf ext = BUF_INIT(256), old = BUF_INIT(256);
	struct hello h;
	(void)state;
	put_sni(&ext, "public.test", 11);
	put_extension(&ext, 0xfe0d, "\x00\x00\x01", 3);
	assert_int_equal(parse_with(&ext, &h), HELLO_OK);
	assert_true(h.ech && h.has_sni);
	put_extension(&old, 0xffce, "", 0);
	assert_true(parse_with(&old, &h) == HELLO_OK && h.ech);
}

static void expect_bad(const struct buf *ext, const char *why)
{
	struct hello h;
	if (parse_with(ext, &h) != HELLO_BAD)
		fail_msg("taken instead of: %s", why);
	assert_string_equal(h.why, why);
}

static void test_bad_extensions(void **state)
{
	(void)state;
	auto_buf struct buf twice = BUF_INIT(256), two = BUF_INIT(256), literal = BUF_INIT(256), nul = BUF_INIT(256),
			    type = BUF_INIT(64), cut = BUF_INIT(64), empty = BUF_INIT(64), alpn = BUF_INIT(64);
	put_sni(&twice, "a.test", 6);
	put_sni(&twice, "b.test", 6);
	expect_bad(&twice, "an extension twice");
	put_extension(&two, 0,
		      "\x00\x12\x00\x00\x06"
		      "a.test"
		      "\x00\x00\x06"
		      "b.test",
		      20);
	expect_bad(&two, "malformed server name");
	put_sni(&literal, "127.0.0.1", 9);
	expect_bad(&literal, "the server name is not a host name");
	put_sni(&nul, "good.test\0.evil.test", 20);
	expect_bad(&nul, "the server name is not a host name");
	put_extension(&type, 0,
		      "\x00\x04\x01\x00\x01"
		      "a",
		      6);
	expect_bad(&type, "malformed server name");
	put_extension(&empty, 0, "", 0);
	expect_bad(&empty, "malformed server name");
	buf_add(&cut,
		"\x00\x00\x00\x09"
		"a",
		5);
	expect_bad(&cut, "malformed extensions");
	put_extension(&alpn, 16, "\x00\x03\x05h2", 5);
	expect_bad(&alpn, "malformed protocol list");
}

static void test_bad_records(void **state)
{
	static const struct {
		const char *p;
		size_t n;
		const char *why;
	} cases[] = {
		{"\x17\x03\x01\x00\x01x", 6, "not a TLS handshake"},
		{"\x16\x02", 2, "unknown TLS version"},
		{"\x16\x03\x01\x00\x00", 5, "empty TLS record"},
		{"\x16\x03\x01\x40\x01", 5, "ClientHello too long"},
		{"\x16\x03\x01\x00\x04\x02\x00\x00\x00", 9, "not a ClientHello"},
		{"\x16\x03\x01\x00\x04\x01\x00\x40\x00", 9, "ClientHello too long"},
		{"\x16\x03\x01\x00\x01\x01\x15\x03\x01\x00\x02", 11, "not a TLS handshake"},
		{"\x16\x03\x01\x00\x05\x01\x00\x00\x00x", 10, "bytes after the ClientHello in its record"},
		{"\x16\x03\x01\x00\x04\x01\x00\x00\x00", 9, "malformed ClientHello"},
	};
	struct hello h;
	(void)state;
	for (size_t i = 0; i < countof(cases); i++) {
		if (hello_parse(cases[i].p, cases[i].n, &h) != HELLO_BAD || strcmp(h.why, cases[i].why))
			fail_msg("case %zu: %s", i, h.why ? h.why : "taken");
	}
}

static void test_bounds(void **state)
{
	auto_buf struct buf ext = BUF_INIT(32 << 10), msg = BUF_INIT(32 << 10), out = BUF_INIT(128 << 10);
	struct hello h;
	(void)state;
	char *pad = buf_room(&ext, 16 << 10);
	memset(pad, 0, 16 << 10);
	put_extension(&msg, 21, pad, 16360);
	put_sni(&msg, "a.test", 6);
	assert_int_equal(parse_with(&msg, &h), HELLO_BAD);
	assert_string_equal(h.why, "ClientHello too long");
	buf_clear(&msg);
	put_extension(&msg, 21, pad, 16000);
	put_sni(&msg, "a.test", 6);
	assert_int_equal(parse_with(&msg, &h), HELLO_OK);
	for (unsigned i = 0; i < 300; i++)
		put_extension(&out, 0x1000 + i, "", 0);
	assert_int_equal(parse_with(&out, &h), HELLO_BAD);
}

static void test_sniff(void **state)
{
#define CASE(s, r)                  \
	{                           \
		s, sizeof(s) - 1, r \
	}
	static const struct {
		const char *p;
		size_t n;
		enum sniff is;
	} cases[] = {
		CASE("", SNIFF_MORE),
		CASE("\x16", SNIFF_MORE),
		CASE("\x16\x03", SNIFF_TLS),
		CASE("\x16\x02", SNIFF_OTHER),
		CASE("\x80\x2e\x01\x00\x02", SNIFF_OTHER),
		CASE("GET / HT", SNIFF_MORE),
		CASE("GET / HTTP/1.1\r\n", SNIFF_HTTP),
		CASE("\r\n\r\nGET / HTTP/1.1\n", SNIFF_HTTP),
		CASE("m-search\t*\thttp/1.1\r\n", SNIFF_HTTP),
		CASE("PRI * HTTP/2.0\r\n", SNIFF_HTTP),
		CASE("GET key\r\n", SNIFF_OTHER),
		CASE("SSH-2.0-OpenSSH_9.2p1 Debian\r\n", SNIFF_OTHER),
		CASE("EHLO me\r\n", SNIFF_OTHER),
		CASE("*1\r\n$4\r\nPING\r\n", SNIFF_OTHER),
		CASE("0032git-upload-pack /p\0host=x", SNIFF_OTHER),
		CASE("\0\0\0\x08\x04\xd2\x16\x2f", SNIFF_OTHER),
		CASE("\r\n\x16\x03", SNIFF_OTHER),
	};
	(void)state;
	for (size_t i = 0; i < countof(cases); i++)
		if (hello_sniff(cases[i].p, cases[i].n) != cases[i].is)
			fail_msg("case %zu", i);
	char line[HELLO_LINE];
	memset(line, 'A', sizeof line);
	assert_int_equal(hello_sniff(line, 64), SNIFF_MORE);
	assert_int_equal(hello_sniff(line, 65), SNIFF_OTHER); // no method is that long
	line[3] = ' ';
	assert_int_equal(hello_sniff(line, sizeof line - 1), SNIFF_MORE);
	assert_int_equal(hello_sniff(line, sizeof line), SNIFF_HTTP);
}

static void test_request_scan(void **state)
{
	static const struct {
		const char *p;
		size_t n;
		enum request_scan_state is;
	} cases[] = {
		CASE(" GET / HTTP/1.1\r\nHost: b.test\r\n\r\n", SCAN_REQUEST),
		CASE("\xef\xbb\xbfGET / HTTP/1.1\r\n", SCAN_REQUEST),
		CASE("\0\r\n\tGET / HTTP/1.1\r\n", SCAN_REQUEST),
		CASE("G\0T / HTTP/1.1\r\n", SCAN_REQUEST),
		CASE("G(T / HTTP/1.1\r\n", SCAN_REQUEST),
		CASE("GET\x0b/\x0cHTTP/1.1\r\n", SCAN_REQUEST),
		CASE("GET /HTTP/1.1\r\n", SCAN_REQUEST),
		CASE("GET / hhttp /1.1\r\n", SCAN_REQUEST),
		CASE("GET / HTTP/1.1\rHost: b.test\r\r", SCAN_REQUEST),
		CASE("GET /\r\nHost: b.test\r\n\r\n", SCAN_REQUEST),
		CASE("GET / XTTP/1.1\r\n", SCAN_REQUEST),
		CASE("GET http://b.test/\n", SCAN_REQUEST),
		CASE("OPTIONS\t*\n", SCAN_REQUEST),
		CASE("AMQP\0\0\x09\x01 / HTTP/1.1\r\n", SCAN_REQUEST),
		CASE("GET                                                              /", SCAN_REQUEST),
		CASE("AMQP\0\0\x09\x01", SCAN_MORE),
		CASE("GET key\r\n", SCAN_OVER),
		CASE("get /key\r\n", SCAN_OVER),
		CASE("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$14\r\nGET / HTTP/1.1\r\n", SCAN_OVER),
		CASE("EHLO me\r\n", SCAN_OVER),
		CASE("<stream to='https://x'>", SCAN_MORE),
		CASE("SIP sip:a@b SIP/2.0\r\n", SCAN_OVER),
	};
	(void)state;
	for (size_t i = 0; i < countof(cases); i++) {
		struct request_scan whole = {0}, pieces = {0};
		if (request_scan_feed(&whole, cases[i].p, cases[i].n) != cases[i].is)
			fail_msg("case %zu", i);
		for (size_t k = 0; k < cases[i].n; k++)
			request_scan_feed(&pieces, cases[i].p + k, 1);
		if (pieces.state != cases[i].is)
			fail_msg("case %zu in pieces", i);
	}
	static char line[REQUEST_LINE];
	struct request_scan s = {0};
	memset(line, 'A', sizeof line);
	assert_int_equal(request_scan_feed(&s, line, REQUEST_LINE), SCAN_MORE);
	assert_int_equal(request_scan_feed(&s, line, 1), SCAN_OVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sni),	    cmocka_unit_test(test_absent),
		cmocka_unit_test(test_ech),	    cmocka_unit_test(test_bad_extensions),
		cmocka_unit_test(test_bad_records), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_sniff),	    cmocka_unit_test(test_request_scan),
	};
	return cmocka_run_group_tests_name("gate/hello", tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Output of a sandbox on the user's terminal, cut at every byte.
#include "base/mem.h"
#include "cli/plain.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the headers above it
#include <cmocka.h>

static const struct {
	const char *in, *out;
} rows[] = {
	{"plain\ttext\r\nnext\n", "plain\ttext\r\nnext\n"},
	{"\x1b[1;38:5:9mred\x1b[0m", "\x1b[1;38:5:9mred\x1b[0m\x1b[m"},
	{"\x1b]0;title\x07", "\\x1b]0;title\\x07"},
	{"\x1b]52;c;cm0gLXJm\x1b\\", "\\x1b]52;c;cm0gLXJm\\x1b\\"},
	{"\x1b[6n\x1b[c\x1b[2J\x1b[?1049h", "\\x1b[6n\\x1b[c\\x1b[2J\\x1b[?1049h"},
	{"\x1bP+q544e\x1b\\\x05", "\\x1bP+q544e\\x1b\\\\x05"},
	{"\xc2\x9b" "6n\xc2\x90", "\\x9b" "6n\\x90"},
	{"h\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x90\x9d", "h\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x90\x9d"},
	{"\xe2\x80\xae" "bidi\x08\x7f", "\\u{202e}bidi\\x08\\x7f"},
	{"cut \xe6\xbc", "cut \\xe6\\xbc"},
	{"cut \x1b[3", "cut \\x1b[3"},
	{"\x1b[11111111111111111111111111111111111m", "\\x1b[11111111111111111111111111111111111m"},
	{"\x1b\x1b[m", "\\x1b\x1b[m\x1b[m"},
};

static void test_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		size_t n = strlen(rows[i].in);
		for (size_t step = 1; step <= n; step++) {
			auto_buf struct buf b = BUF_INIT(1024);
			struct plain p = {0};
			for (size_t at = 0; at < n; at += step)
				plain_add(&p, rows[i].in + at, n - at < step ? n - at : step, &b);
			plain_end(&p, &b);
			assert_string_equal(buf_cstr(&b), rows[i].out);
		}
	}
}

static void test_every_byte(void **state)
{
	(void)state;
	for (int c = 0; c < 256; c++) {
		auto_buf struct buf b = BUF_INIT(1024);
		struct plain p = {0};
		char one = (char)c;
		plain_add(&p, &one, 1, &b);
		plain_end(&p, &b);
		bool stays = (c >= ' ' && c < 0x7f) || c == '\n' || c == '\r' || c == '\t';
		assert_int_equal(b.n, stays ? 1 : 4);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_every_byte)};
	return cmocka_run_group_tests_name("cli/plain", tests, NULL, NULL);
}

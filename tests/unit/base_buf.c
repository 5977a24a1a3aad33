// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static void grows_and_stays_terminated(void **state)
{
	(void)state;
	auto_buf struct buf b = BUF_INIT(1 << 20);
	assert_string_equal(buf_cstr(&b), "");
	for (int i = 0; i < 10000; i++)
		buf_fmt(&b, "%d,", i % 10);
	assert_int_equal(b.n, 20000);
	assert_int_equal(strlen(b.p), 20000);
	buf_cut(&b, 19998);
	assert_string_equal(b.p, "9,");
	buf_cut(&b, 5);
	assert_string_equal(buf_cstr(&b), "");
	buf_byte(&b, 'x');
	auto_free char *s = buf_take(&b);
	assert_string_equal(s, "x");
	auto_free char *empty = buf_take(&b);
	assert_string_equal(empty, "");
}

static void formats_in_place_and_past_it(void **state)
{
	(void)state;
	// Every length around the room that is there already: 128 bytes at first.
	for (int n = 0; n < 300; n++) {
		auto_buf struct buf b = BUF_INIT(1000), same = BUF_INIT(1000);
		buf_str(&b, "x");
		buf_str(&same, "x");
		buf_fmt(&b, "%*d|", n, 7);
		for (int i = 1; i < n; i++)
			buf_byte(&same, ' ');
		buf_str(&same, "7|");
		assert_string_equal(buf_cstr(&b), buf_cstr(&same));
		assert_int_equal(b.n, same.n);
	}
	auto_buf struct buf small = BUF_INIT(8);
	buf_str(&small, "abc");
	buf_fmt(&small, "%s", "defghi"); // there is memory for it, but it may not be
	assert_true(small.overflow);
	assert_string_equal(buf_cstr(&small), "abc");
}

static void writes_numbers(void **state)
{
	(void)state;
	auto_buf struct buf b = BUF_INIT(100);
	buf_u64(&b, 0);
	buf_byte(&b, ' ');
	buf_u64(&b, 10);
	buf_byte(&b, ' ');
	buf_u64(&b, UINT64_MAX);
	assert_string_equal(buf_cstr(&b), "0 10 18446744073709551615");
}

static void overflow_is_sticky_and_adds_nothing(void **state)
{
	(void)state;
	auto_buf struct buf b = BUF_INIT(8);
	buf_str(&b, "12345");
	buf_str(&b, "6789");
	assert_true(b.overflow);
	buf_str(&b, "6");
	assert_string_equal(b.p, "12345");
	assert_null(buf_room(&b, 1));
	buf_clear(&b);
	assert_false(b.overflow);
	buf_str(&b, "12345678"); // exactly full
	assert_false(b.overflow);
	buf_fmt(&b, "%s", "x");
	assert_true(b.overflow);
	auto_buf struct buf none = BUF_INIT(0);
	buf_add(&none, NULL, 0);
	assert_false(none.overflow);
	assert_null(buf_room(&b, SIZE_MAX));
}

static void wire_round_trip(void **state)
{
	(void)state;
	auto_buf struct buf b = BUF_INIT(1000);
	char one[] = "one", two[] = "";
	char *list[] = {one, two, NULL};
	wire_u8(&b, 255);
	wire_u32(&b, 0xfedcba98);
	wire_u64(&b, 0xfedcba9876543210);
	wire_str(&b, "text");
	wire_str(&b, NULL);
	wire_str(&b, "");
	wire_bytes(&b, "a\0b", 3);
	wire_strv(&b, list);
	wire_strv(&b, NULL);
	assert_int_equal((unsigned char)b.p[1], 0x98); // little-endian
	struct wire w = {(const uint8_t *)b.p, b.n, false};
	assert_int_equal(wire_get_u8(&w), 255);
	assert_int_equal(wire_get_u32(&w), 0xfedcba98);
	assert_true(wire_get_u64(&w) == 0xfedcba9876543210);
	auto_free char *text = wire_get_str(&w), *none = wire_get_str(&w), *empty = wire_get_str(&w);
	assert_string_equal(text, "text");
	assert_null(none);
	assert_string_equal(empty, "");
	size_t n;
	assert_memory_equal(wire_get_bytes(&w, &n), "a\0b", 3);
	assert_int_equal(n, 3);
	char **v = wire_get_strv(&w), **v0 = wire_get_strv(&w);
	assert_int_equal(strv_len(v), 2);
	assert_string_equal(v[0], "one");
	assert_int_equal(strv_len(v0), 0);
	assert_false(w.bad);
	assert_int_equal(w.n, 0);
	strv_free(v);
	strv_free(v0);
}

static void short_reads_stay_bad(void **state)
{
	(void)state;
	auto_buf struct buf b = BUF_INIT(100);
	wire_u32(&b, 7);
	for (size_t n = 0; n < 4; n++) {
		struct wire w = {(const uint8_t *)b.p, n, false};
		assert_int_equal(wire_get_u32(&w), 0);
		assert_true(w.bad);
		assert_int_equal(wire_get_u8(&w), 0); // also where a byte is left
	}
}

static void hostile_lengths(void **state)
{
	(void)state;
	static const uint8_t long_str[] = {0xfe, 0xff, 0xff, 0xff, 'x'}, nul[] = {3, 0, 0, 0, 'a', 0, 'b'};
	static const uint8_t many[] = {0xff, 0xff, 0, 0, 1}, null_in_list[] = {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
	struct wire a = {long_str, sizeof long_str, false}, b = {nul, sizeof nul, false};
	struct wire c = {many, sizeof many, false}, d = {null_in_list, sizeof null_in_list, false};
	assert_null(wire_get_str(&a));
	assert_true(a.bad);
	assert_null(wire_get_str(&b)); // a NUL inside is refused, not cut at
	assert_true(b.bad);
	assert_null(wire_get_strv(&c));
	assert_true(c.bad);
	assert_null(wire_get_strv(&d));
	assert_true(d.bad);
}

static void string_lists(void **state)
{
	(void)state;
	char **v = NULL;
	assert_int_equal(strv_len(NULL), 0);
	strv_add(&v, "a");
	strv_add(&v, "b");
	char **copy = strv_copy(v);
	strv_free(v);
	assert_string_equal(copy[1], "b");
	assert_null(copy[2]);
	strv_free(copy);
	strv_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grows_and_stays_terminated), cmocka_unit_test(formats_in_place_and_past_it), cmocka_unit_test(writes_numbers),
		cmocka_unit_test(overflow_is_sticky_and_adds_nothing),
		cmocka_unit_test(wire_round_trip),	      cmocka_unit_test(short_reads_stay_bad),
		cmocka_unit_test(hostile_lengths),	      cmocka_unit_test(string_lists),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

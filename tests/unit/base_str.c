// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "base/str.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static void splitting(void **state)
{
	(void)state;
	struct str s = str_of("a,,b,"), part;
	static const char *const want[] = {"a", "", "b", ""};
	for (size_t i = 0; i < countof(want); i++) {
		assert_true(str_next(&s, ',', &part));
		assert_true(str_is(part, want[i]));
	}
	assert_false(str_next(&s, ',', &part));
	assert_true(str_has_prefix("abc", "ab") && !str_has_prefix("a", "ab"));
	assert_true(str_has_suffix("abc", "bc") && !str_has_suffix("c", "bc"));
}

static void nearest(void **state)
{
	(void)state;
	static char run[] = "run", rm[] = "rm", snapshot[] = "snapshot", snapshots[] = "snapshots", ps[] = "ps";
	char *list[] = {run, rm, snapshot, snapshots, ps, NULL};
	static const struct {
		const char *word, *want;
	} cases[] = {{"rnu", "run"}, {"runn", "run"}, {"ls", "ps"}, {"snaphsot", "snapshot"}, {"snapshto", "snapshot"}, {"snapshot", "snapshot"},
		     {"snapshotz", "snapshot"}, {"frobnicate", NULL}, {"x", NULL}, {"", NULL}, {"list", NULL},
		     {"0123456789012345678901234567890123456789x", NULL}};
	for (size_t i = 0; i < countof(cases); i++) {
		const char *got = str_nearest(cases[i].word, list);
		assert_true(got == cases[i].want || (got && cases[i].want && !strcmp(got, cases[i].want)));
	}
	assert_null(str_nearest("run", NULL));
}

static void whole_numbers(void **state)
{
	(void)state;
	uint64_t v = 77;
	static const char *const bad[] = {"", "-1", "+1", " 1", "1 ", "01", "0x1", "1e3", "18446744073709551616",
					  "99999999999999999999", "1\n", "\xd9\xa1"};
	for (size_t i = 0; i < countof(bad); i++)
		assert_int_equal(str_to_u64(str_of(bad[i]), 0, UINT64_MAX, &v), -1);
	assert_int_equal(v, 77); // written only on success
	assert_int_equal(str_to_u64(str_of("18446744073709551615"), 0, UINT64_MAX, &v), 0);
	assert_true(v == UINT64_MAX);
	assert_int_equal(str_to_u64(str_of("0"), 0, 0, &v), 0);
	assert_int_equal(str_to_u64(str_of("5"), 6, 9, &v), -1);
	assert_int_equal(str_to_u64(str_of("10"), 6, 9, &v), -1);
}

static void sizes_and_durations(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t want;
	} sizes[] = {{"512", 512}, {"64k", 65536}, {"1.5g", 3ULL << 29}, {"2GiB", 2ULL << 30}, {"0", 0}},
	  times[] = {{"500ms", 500}, {"10", 10000}, {"1.5s", 1500}, {"5m", 300000}, {"2h", 7200000}, {"7d", 604800000}};
	static const char *const bad[] = {"", "x", "1x", "-1k", "1.", ".5", "1.2345k", "1 k", "1kk", "99999999999t"};
	uint64_t v;
	for (size_t i = 0; i < countof(sizes); i++) {
		assert_int_equal(str_to_size(sizes[i].text, &v), 0);
		assert_true(v == sizes[i].want);
	}
	for (size_t i = 0; i < countof(times); i++) {
		assert_int_equal(str_to_duration_ms(times[i].text, &v), 0);
		assert_true(v == times[i].want);
	}
	for (size_t i = 0; i < countof(bad); i++) {
		assert_int_equal(str_to_size(bad[i], &v), -1);
		assert_int_equal(str_to_duration_ms(bad[i], &v), -1);
	}
	assert_int_equal(str_to_milli("1.5", &v), 0);
	assert_int_equal(v, 1500);
	assert_int_equal(str_to_milli("0.001", &v), 0);
	assert_int_equal(v, 1);
	assert_int_equal(str_to_milli("1.5x", &v), -1);
}

static void formatting_says_when_it_cuts(void **state)
{
	(void)state;
	char b[4];
	assert_int_equal(fmt_to(b, sizeof b, "%d", 123), 0);
	assert_int_equal(fmt_to(b, sizeof b, "%d", 1234), -1);
	assert_string_equal(b, "123");
}

static void utf8(void **state)
{
	(void)state;
	static const char *const good[] = {"", "a", "gr\xc3\xbc\xc3\x9f", "\xe2\x82\xac", "\xf0\x9f\x90\x9d",
					   "\xf4\x8f\xbf\xbf"};
	static const char *const bad[] = {"\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
					  "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "a\xff", "\xe2\x82"};
	for (size_t i = 0; i < countof(good); i++)
		assert_true(str_is_utf8(good[i], strlen(good[i])));
	for (size_t i = 0; i < countof(bad); i++)
		assert_false(str_is_utf8(bad[i], strlen(bad[i])));
	static const char bee[] = "x\xf0\x9f\x90\x9d";
	for (size_t n = 2; n < 5; n++)
		assert_int_equal(str_utf8_whole(bee, n), 1);
	assert_int_equal(str_utf8_whole(bee, 5), 5);
	assert_int_equal(str_utf8_whole("", 0), 0);
	assert_int_equal(str_utf8_whole("\x80\x80\x80\x80", 4), 4); // not cut, just wrong
}

static void hex(void **state)
{
	char out[9] = "zzzzzzzz";
	(void)state;
	str_hex(out, "\x00\x9f\xfa\x41", 4);
	assert_string_equal(out, "009ffa41");
	str_hex(out, "", 0);
	assert_string_equal(out, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(splitting), cmocka_unit_test(nearest), cmocka_unit_test(whole_numbers), cmocka_unit_test(sizes_and_durations),
		cmocka_unit_test(formatting_says_when_it_cuts), cmocka_unit_test(utf8), cmocka_unit_test(hex),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

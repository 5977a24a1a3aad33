// SPDX-License-Identifier: Apache-2.0
#include "api/event_line.h"
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static void lines_are_whole(void **state)
{
	static const char first[] = "{\"time\":\"T1\",\"type\":\"exec.start\",\"body\":{\"type\":\"no\"}}\n", second[] = "{}\n", torn[] = "{\"time\":\"T3\"";
	auto_free char *text = xasprintf("%s%s%s", first, second, torn);
	struct str rest = str_of(text);
	struct event_line l;
	uint64_t at = 100;
	(void)state;
	assert_true(event_line_next(&rest, &at, &l));
	assert_true(str_is(l.time, "T1") && str_is(l.type, "exec.start"));
	assert_int_equal(l.text.n, strlen(first) - 1);
	assert_int_equal(l.after, 100 + strlen(first));
	assert_true(event_line_next(&rest, &at, &l));
	assert_true(!l.time.n && !l.type.n);
	assert_int_equal(l.after, 100 + strlen(first) + strlen(second));
	assert_false(event_line_next(&rest, &at, &l)); // the rest has not come yet
	assert_true(str_is(rest, torn));
	assert_int_equal(at, 100 + strlen(first) + strlen(second));
}

static void types_stand_for_what_is_below_them(void **state)
{
	char exec[] = "exec", up[] = "cell.up", *types[] = {exec, up, NULL}, *none[] = {NULL};
	(void)state;
	assert_true(event_is_of(str_of("anything"), NULL));
	assert_true(event_is_of(str_of("exec"), types) && event_is_of(str_of("exec.exit"), types) && event_is_of(str_of("cell.up"), types));
	assert_false(event_is_of(str_of("execs"), types));
	assert_false(event_is_of(str_of("exe"), types));
	assert_false(event_is_of(str_of("cell"), types));
	assert_false(event_is_of(str_of(""), types));
	assert_false(event_is_of(str_of("exec"), none));
}

static void ids_name_time_sandbox_and_offset(void **state)
{
	static const char *const bad[] = {
		"",
		"17",
		"2026-01-31T10:20:30.123Z",
		"2026-01-31T10:20:30.123Z-",
		"2026-01-31T10:20:30.123Z-sabc",
		"2026-01-31T10:20:30.123Z-sabc-",
		"2026-01-31T10:20:30.123Z-sabc-x",
		"2026-01-31T10:20:30.123Z-sabc--1",
		"2026-01-31T10:20:30.123Z-sabc-9223372036854775808",
		"2026-01-31T10:20:30.1234-sabc-1",
	};
	struct event_id id;
	struct err e;
	(void)state;
	assert_int_equal(event_id_parse("2026-01-31T10:20:30.123Z-sabc-4711", &id, &e), 0);
	assert_true(str_is(id.time, "2026-01-31T10:20:30.123Z") && str_is(id.sandbox, "sabc"));
	assert_int_equal(id.offset, 4711);
	for (size_t i = 0; i < countof(bad); i++) {
		assert_int_equal(event_id_parse(bad[i], &id, &e), -1);
		assert_int_equal(e.kind, ERR_INVALID);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_whole),
		cmocka_unit_test(types_stand_for_what_is_below_them),
		cmocka_unit_test(ids_name_time_sandbox_and_offset),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

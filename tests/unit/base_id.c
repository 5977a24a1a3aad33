// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static void ids(void **state)
{
	(void)state;
	char a[ID_SIZE], b[ID_SIZE];
	id_make('s', a);
	id_make('s', b);
	assert_true(id_is(a) && a[0] == 's' && strlen(a) == 16);
	assert_string_not_equal(a, b);
	static const char *const bad[] = {"", "s", "sabcdefghij", "1abcdefghijklmn", "sabcdefghijKlmn",
					  "sabcdefghij-lmn",
					  "s/../../../../x", "sabcdefghijklmnopqrstuvw", "sabcdefghijk\n"};
	for (size_t i = 0; i < countof(bad); i++)
		assert_false(id_is(bad[i]));
	assert_true(id_is("sabcdefghijk"));
}

static void keys(void **state)
{
	(void)state;
	char a[KEY_SIZE], b[KEY_SIZE];
	key_make(a);
	key_make(b);
	assert_int_equal(strspn(a, "0123456789abcdef"), 32);
	assert_true(key_equal(a, a));
	assert_false(key_equal(a, b));
	assert_false(key_equal(a, ""));
	assert_true(key_equal("", ""));
	b[0] = 0;
	assert_false(key_equal(b, a));
}

static void times(void **state)
{
	(void)state;
	char t[32];
	clock_iso(1769854830123, t);
	assert_string_equal(t, "2026-01-31T10:20:30.123Z");
	clock_iso(0, t);
	assert_string_equal(t, "1970-01-01T00:00:00.000Z");
	uint64_t a = clock_us(), b = clock_us();
	assert_true(b >= a);
	assert_true(clock_unix_ms() > 1700000000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(ids), cmocka_unit_test(keys), cmocka_unit_test(times)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
#include "model/state.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static void the_table(void **state)
{
	(void)state;
	// from (row) to (column): creating stopped running paused failed deleting
	static const char *const may[STATES] = {"011011", "001011", "010111", "011011", "011001", "000000"};
	for (int from = 0; from < STATES; from++)
		for (int to = 0; to < STATES; to++)
			assert_int_equal(state_may(from, to), may[from][to] == '1');
	assert_false(state_may(STATES, STATE_STOPPED));
	assert_false(state_may(STATE_STOPPED, STATES));
}

static void names(void **state)
{
	(void)state;
	for (int i = 0; i < STATES; i++)
		for (int k = 0; k < i; k++)
			assert_string_not_equal(state_name(i), state_name(k));
	assert_string_equal(state_name(STATE_RUNNING), "running");
	assert_string_equal(state_name(STATES), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_table), cmocka_unit_test(names)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/index.h"
#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 3000

static void what_is_put_is_found(void **state)
{
	static char keys[MANY][16];
	struct index x = {0};
	(void)state;
	assert_null(index_get(&x, "none"));
	index_drop(&x, "none");
	for (int i = 0; i < MANY; i++) {
		snprintf(keys[i], sizeof keys[i], "s%dk", i * 7919);
		index_put(&x, keys[i], keys[i]);
	}
	index_put(&x, keys[5], keys[6]); // replaced
	assert_int_equal(x.n, MANY);
	assert_ptr_equal(index_get(&x, keys[5]), keys[6]);
	x.compared = 0;
	for (int i = 6; i < MANY; i++)
		assert_ptr_equal(index_get(&x, keys[i]), keys[i]);
	assert_true(x.compared < 4 * MANY); // linear in all, whatever the number
	for (int i = 0; i < MANY; i += 2)
		index_drop(&x, keys[i]);
	assert_int_equal(x.n, MANY / 2);
	assert_null(index_get(&x, keys[6]));
	assert_ptr_equal(index_get(&x, keys[7]), keys[7]);
	index_done(&x);
	index_done(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_put_is_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

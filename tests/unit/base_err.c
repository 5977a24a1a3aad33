// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static void texts_and_kinds(void **state)
{
	(void)state;
	struct err e;
	errno = ENOENT;
	assert_int_equal(err_sys(&e, "open %s", "x"), -1);
	assert_string_equal(e.msg, "open x: No such file or directory");
	assert_true(e.kind == ERR_SYSTEM && e.sys == ENOENT && errno == ENOENT);
	errno = ENOSPC;
	err_sys(&e, "write");
	assert_int_equal(e.kind, ERR_LIMIT);
	err_set(&e, ERR_DENIED, "no");
	assert_int_equal(err_wrap(&e, "cell %d", 7), -1);
	assert_string_equal(e.msg, "cell 7: no");
	assert_true(e.kind == ERR_DENIED && e.sys == 0);
}

static void long_texts_are_cut(void **state)
{
	(void)state;
	struct err e;
	char text[2 * sizeof e.msg];
	memset(text, 'x', sizeof text);
	text[sizeof text - 1] = 0;
	err_set(&e, ERR_BUG, "%s", text);
	assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
	err_wrap(&e, "%s", text);
	err_sys(&e, "%s", text);
	assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
}

static void names_of_kinds(void **state)
{
	(void)state;
	for (int k = 1; k < ERR_KINDS; k++)
		assert_int_equal(err_kind_parse(err_kind_name(k)), k);
	assert_string_equal(err_kind_name(ERR_NOT_FOUND), "not_found");
	assert_string_equal(err_kind_name(ERR_KINDS), "none");
	assert_int_equal(err_kind_parse("what"), ERR_SYSTEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(texts_and_kinds), cmocka_unit_test(long_texts_are_cut),
					   cmocka_unit_test(names_of_kinds)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

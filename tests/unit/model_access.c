// SPDX-License-Identifier: Apache-2.0
#include "model/access.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void tokens(void **state)
{
	(void)state;
	static const char *const good[] = {"skep_" DIGITS, "e2b_" DIGITS, "sk_e2b_" DIGITS};
	static const char *const bad[] = {"",		DIGITS,		  "skep_",	  "skep_" DIGITS "0", "skep_ " DIGITS,
					  "SKEP_" DIGITS, "skep_" DIGITS " ", "skep_" DIGITS "\n", "x_" DIGITS,
					  "skep_0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef"};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_string_equal(token_digits(good[i]), DIGITS);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_null(token_digits(bad[i]));
}

static void of_sandboxes(void **state)
{
	(void)state;
	unsigned char proof[16];
	char text[TOKEN_SIZE], id[17];
	memset(proof, 0xa5, sizeof proof);
	token_of_sandbox("s0123456789abcde", proof, text);
	assert_int_equal(strlen(text), 5 + TOKEN_DIGITS);
	const char *digits = token_digits(text);
	assert_non_null(digits);
	assert_true(token_sandbox(digits, id));
	assert_string_equal(id, "s0123456789abcde");
	assert_string_equal(digits + 32, "a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5");
	assert_false(token_sandbox(DIGITS, id)); // has a NUL
	assert_false(token_sandbox("2e2e2f2e2e2f2e2e2f2e2e2f2e2e2f2ea5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5", id));
}

static void scopes(void **state)
{
	(void)state;
	assert_int_equal(scope_of_name("read"), SCOPE_READ);
	assert_int_equal(scope_of_name("admin"), SCOPE_ADMIN);
	assert_int_equal(scope_of_name("open"), -1); // nobody is given these
	assert_int_equal(scope_of_name("local"), -1);
	assert_int_equal(scope_of_name(""), -1);
	assert_true(SCOPE_READ < SCOPE_RUN && SCOPE_RUN < SCOPE_REVIEW && SCOPE_REVIEW < SCOPE_ADMIN && SCOPE_ADMIN < SCOPE_LOCAL);
}

static void on(void **state)
{
	(void)state;
	enum on_kind kind;
	const char *value;
	struct err e;
	assert_int_equal(on_parse("all", &kind, &value, &e), 0);
	assert_int_equal(kind, ON_ALL);
	assert_int_equal(on_parse("label=a=b=c", &kind, &value, &e), 0);
	assert_int_equal(kind, ON_LABEL);
	assert_string_equal(value, "a=b=c");
	assert_int_equal(on_parse("sx", &kind, &value, &e), 0);
	assert_int_equal(kind, ON_SANDBOX);
	assert_int_equal(on_parse("label=a", &kind, &value, &e), -1);
	assert_int_equal(on_parse("label==b", &kind, &value, &e), -1);
	assert_int_equal(on_parse("", &kind, &value, &e), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokens),
		cmocka_unit_test(of_sandboxes),
		cmocka_unit_test(scopes),
		cmocka_unit_test(on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

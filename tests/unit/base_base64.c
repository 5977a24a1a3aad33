// SPDX-License-Identifier: Apache-2.0
#include "base/base64.h"
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static void published_vectors(void **state)
{
	static const char *const v[][2] = {{"", ""},	     {"f", "Zg=="},	  {"fo", "Zm8="},      {"foo", "Zm9v"},
					   {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};
	(void)state;
	for (size_t i = 0; i < countof(v); i++) {
		auto_buf struct buf there = BUF_INIT(64), back = BUF_INIT(64);
		base64_add(&there, v[i][0], strlen(v[i][0]));
		assert_string_equal(buf_cstr(&there), v[i][1]);
		assert_int_equal(base64_decode(v[i][1], strlen(v[i][1]), &back), 0);
		assert_string_equal(buf_cstr(&back), v[i][0]);
	}
}

static void both_alphabets_and_no_padding(void **state)
{
	(void)state;
	auto_buf struct buf b = BUF_INIT(64);
	assert_int_equal(base64_decode("-_-_", 4, &b), 0);
	assert_int_equal(base64_decode("+/+/", 4, &b), 0);
	assert_memory_equal(b.p, b.p + 3, 3);
	buf_clear(&b);
	assert_int_equal(base64_decode("Zg", 2, &b), 0);
	assert_string_equal(buf_cstr(&b), "f");
}

static void what_is_none_is_refused(void **state)
{
	static const char *const bad[] = {"Z", "Zg=", "Zg===", "Z g=", "Zh==", "====", "Zm9v\n", "Zm=v", "Zm9vY"};
	(void)state;
	for (size_t i = 0; i < countof(bad); i++) {
		auto_buf struct buf b = BUF_INIT(64);
		assert_int_equal(base64_decode(bad[i], strlen(bad[i]), &b), -1);
	}
	auto_buf struct buf small = BUF_INIT(2);
	assert_int_equal(base64_decode("Zm9v", 4, &small), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_vectors),
		cmocka_unit_test(both_alphabets_and_no_padding),
		cmocka_unit_test(what_is_none_is_refused),
	};
	return cmocka_run_group_tests_name("base/base64", tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static json_t *parse(const char *s)
{
	struct err e;
	return json_read(s, strlen(s), &e);
}

static void what_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {"", "{", "{}x", "{\"a\":1,\"a\":2}", "{'a':1}", "nul", "{\"a\":\"\xff\"}",
					  "[1,]", "{\"a\":\"\\u0000\"}", "\"text\"", "99999999999999999999"};
	for (size_t i = 0; i < countof(bad); i++) {
		auto_json json_t *j = parse(bad[i]);
		assert_null(j);
	}
	auto_buf struct buf deep = BUF_INIT(1 << 20);
	for (int i = 0; i < 100000; i++)
		buf_byte(&deep, '[');
	auto_json json_t *j = parse(deep.p);
	assert_null(j);
}

static void members(void **state)
{
	(void)state;
	struct err e;
	const char *s = "unset";
	uint64_t n = 9;
	bool t = false;
	char **v;
	auto_json json_t *j = parse("{\"s\":\"x\",\"n\":5,\"neg\":-1,\"t\":true,"
				    "\"v\":[\"a\",\"b\"],\"mixed\":[\"a\",1],\"z\":null}");
	assert_int_equal(json_get_str(j, "s", &s, &e), 0);
	assert_string_equal(s, "x");
	assert_int_equal(json_get_str(j, "absent", &s, &e), 0);
	assert_null(s);
	assert_int_equal(json_get_str(j, "z", &s, &e), 0);
	assert_null(s);
	assert_int_equal(json_get_str(j, "n", &s, &e), -1);
	assert_int_equal(e.kind, ERR_INVALID);
	assert_int_equal(json_get_u64(j, "absent", &n, &e), 0);
	assert_int_equal(n, 9);
	assert_int_equal(json_get_u64(j, "n", &n, &e), 0);
	assert_int_equal(n, 5);
	assert_int_equal(json_get_u64(j, "neg", &n, &e), -1);
	assert_int_equal(json_get_u64(j, "s", &n, &e), -1);
	assert_int_equal(json_get_bool(j, "t", &t, &e), 0);
	assert_true(t);
	assert_int_equal(json_get_bool(j, "n", &t, &e), -1);
	assert_int_equal(json_get_strv(j, "mixed", &v, &e), -1);
	assert_int_equal(json_get_strv(j, "s", &v, &e), -1);
	assert_int_equal(json_get_strv(j, "absent", &v, &e), 0);
	assert_null(v);
	assert_int_equal(json_get_strv(j, "v", &v, &e), 0);
	assert_int_equal(strv_len(v), 2);
	strv_free(v);
	assert_string_equal(json_str(j, "n"), "");
	assert_int_equal(json_u64(j, "neg"), 0);
}

static void unknown_fields_are_errors(void **state)
{
	(void)state;
	static const char *const known[] = {"a", "b", NULL};
	struct err e;
	auto_json json_t *good = parse("{\"b\":1}"), *bad = parse("{\"a\":1,\"c\":2}"), *list = parse("[]");
	assert_int_equal(json_only(good, known, &e), 0);
	assert_int_equal(json_only(bad, known, &e), -1);
	assert_non_null(strstr(e.msg, "\"c\""));
	assert_int_equal(json_only(list, known, &e), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_refused), cmocka_unit_test(members),
					   cmocka_unit_test(unknown_fields_are_errors)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

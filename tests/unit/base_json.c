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

static void refused(const char *s, const char *why)
{
	struct err e = {0};
	auto_json json_t *j = json_read(s, strlen(s), &e);
	assert_null(j);
	assert_int_equal(e.kind, ERR_INVALID);
	if (!strstr(e.msg, why))
		fail_msg("%s: \"%s\" does not say \"%s\"", s, e.msg, why);
}

static void what_is_refused(void **state)
{
	static const char *const rows[][2] = {
		// the grammar
		{"", "ends too early at byte 0"},
		{" \n", "ends too early at byte 2"},
		{"{", "ends too early"},
		{"[1", "ends too early"},
		{"{}x", "behind the value at byte 2"},
		{"[][]", "behind the value"},
		{"{'a':1}", "a key is missing"},
		{"{1:2}", "a key is missing"},
		{"{\"a\" 1}", "':' is missing"},
		{"{\"a\":1 \"b\":2}", "',' or"},
		{"[1 2]", "',' or"},
		{"[1}", "',' or"},
		{"{\"a\":1]", "',' or"},
		{"[1,]", "not a value"},
		{"[,1]", "not a value"},
		{"{\"a\":1,}", "a key is missing"},
		{"{,}", "a key is missing"},
		{"[nul]", "not a value"},
		{"[True]", "not a value"},
		{"[truee]", "',' or"},
		{"[NaN]", "not a value"},
		{"[/**/]", "not a value"},
		{"[1]\f", "behind the value"},
		{"\"text\"", "neither"},
		{"7", "neither"},
		{"null", "neither"},
		{"\xef\xbb\xbf{}", "neither"},
		// numbers
		{"[01]", "',' or"},
		{"[-]", "not a value"},
		{"[+1]", "not a value"},
		{"[.5]", "not a value"},
		{"[1.]", "without its digits"},
		{"[1e]", "without its digits"},
		{"[1e+]", "without its digits"},
		{"[0x10]", "',' or"},
		{"[9223372036854775808]", "too large"},
		{"[-9223372036854775809]", "too large"},
		{"[99999999999999999999]", "too large"},
		{"[1e999]", "too large"},
		// strings
		{"[\"a]", "ends too early"},
		{"[\"a\\", "ends too early"},
		{"[\"\\x\"]", "not an escape"},
		{"[\"\\u12g4\"]", "not an escape"},
		{"[\"\\u12", "not an escape"},
		{"[\"\\u0000\"]", "\\u0000"},
		{"{\"\\u0000\":1}", "\\u0000"},
		{"[\"\\ud800\"]", "surrogate"},
		{"[\"\\ud800\\n\"]", "surrogate"},
		{"[\"\\ud800\\ud800\"]", "surrogate"},
		{"[\"\\udc00\\ud800\"]", "surrogate"},
		{"[\"a\nb\"]", "control character"},
		{"[\"\x1f\"]", "control character"},
		{"[\"\xff\"]", "not UTF-8"},
		{"[\"\xed\xa0\x80\"]", "not UTF-8"},
		{"[\"\xc0\xaf\"]", "not UTF-8"},
		{"[\"\xf4\x90\x80\x80\"]", "not UTF-8"},
		{"[\"\xe2\x82\"]", "not UTF-8"},
		// what more than one reader may read in different ways
		{"{\"a\":1,\"a\":2}", "twice"},
		{"[{\"a\":1,\"b\":{},\"\\u0061\":2}]", "twice"},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++)
		refused(rows[i][0], rows[i][1]);
	struct err e;
	assert_null(json_read("[\"\0\"]", 5, &e)); // the byte itself
	assert_null(json_read("[]\0", 3, &e));
	assert_null(json_read("[1]", 2, &e)); // what lies behind the end is not looked at
}

static json_t *nested(unsigned depth)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(8 << 20);
	for (unsigned i = 0; i < depth; i++)
		buf_str(&b, i % 2 ? "{\"k\":" : "[");
	buf_str(&b, "0");
	for (unsigned i = depth; i--;)
		buf_byte(&b, i % 2 ? '}' : ']');
	return json_read(b.p, b.n, &e);
}

static void depth(void **state)
{
	(void)state;
	auto_json json_t *most = nested(JSON_DEPTH), *over = nested(JSON_DEPTH + 1), *hostile = nested(100000);
	assert_non_null(most);
	assert_null(over);
	assert_null(hostile);
	unsigned n = 0;
	const json_t *v = most;
	for (; !json_is_integer(v); n++)
		v = json_is_array(v) ? json_array_get(v, 0) : json_object_get(v, "k");
	assert_int_equal(n, JSON_DEPTH);
}

static void text_is(const char *json, const char *want)
{
	auto_json json_t *j = parse(json);
	const json_t *v = json_array_get(j, 0);
	assert_true(json_is_string(v));
	assert_string_equal(json_string_value(v), want);
}

static void strings(void **state)
{
	(void)state;
	text_is("[\"\"]", "");
	text_is("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]", "\"\\/\b\f\n\r\t");
	text_is("[\"\\u0041\\u00e9\\u6F22\\ud83d\\udc1d\"]", "A\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x90\x9d");
	text_is("[\"h\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x90\x9d \x7f\"]", "h\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x90\x9d \x7f");
	text_is("[\"\\uffff\\u0001\\udbff\\udfff\"]", "\xef\xbf\xbf\x01\xf4\x8f\xbf\xbf");
	text_is(" [ \"a\" , \"b\" ] \r\n\t", "a");
}

static void number_is(const char *json, int64_t want)
{
	auto_json json_t *j = parse(json);
	const json_t *v = json_array_get(j, 0);
	assert_true(json_is_integer(v));
	assert_int_equal(json_integer_value(v), want);
}

static void numbers(void **state)
{
	(void)state;
	number_is("[0]", 0);
	number_is("[-0]", 0);
	number_is("[-17]", -17);
	number_is("[9223372036854775807]", INT64_MAX);
	number_is("[-9223372036854775808]", INT64_MIN);
	auto_json json_t *j = parse("[1.5,1e3,-2E-2,1e-999,10.0]");
	assert_int_equal(json_array_size(j), 5);
	size_t i;
	const json_t *v;
	json_array_foreach(j, i, v)
	{
		assert_true(json_is(v, JSON_REAL));
		assert_false(json_is_integer(v));
		assert_int_equal(json_integer_value(v), 0);
	}
}

static void walking(void **state)
{
	(void)state;
	auto_json json_t *j =
		parse("{\"list\":[[1,2],{\"x\":{}},3],\"o\":{\"z\":true,\"a\":false,\"m\":null},\"e\":[]}");
	const char *key, *const names[] = {"list", "o", "e"}, *const inner[] = {"z", "a", "m"};
	json_t *v;
	size_t i = 0;
	json_object_foreach(j, key, v) assert_string_equal(key, names[i++]);
	assert_int_equal(i, 3);
	i = 0;
	json_object_foreach(json_object_get(j, "o"), key, v) assert_string_equal(key, inner[i++]);
	assert_int_equal(i, 3);
	json_array_foreach(json_object_get(j, "list"), i, v)
		assert_ptr_equal(v, json_array_get(json_object_get(j, "list"), i));
	assert_int_equal(i, 3);
	assert_int_equal(json_integer_value(json_array_get(json_object_get(j, "list"), 2)), 3);
	assert_int_equal(json_object_size(j), 3);
	assert_int_equal(json_array_size(json_object_get(j, "e")), 0);
	const json_t *o = json_object_get(j, "o");
	assert_true(json_is_true(json_object_get(o, "z")) && json_is_false(json_object_get(o, "a")));
	assert_true(json_is_boolean(json_object_get(o, "a")) && json_is_null(json_object_get(o, "m")));
}

static void nothing_is_found_in_nothing(void **state)
{
	(void)state;
	auto_json json_t *j = parse("{\"s\":\"x\",\"a\":[1]}");
	const json_t *s = json_object_get(j, "s"), *v;
	const char *key;
	size_t i;
	assert_null(json_object_get(NULL, "s"));
	assert_null(json_object_get(s, "s"));
	assert_null(json_array_get(j, 0));
	assert_null(json_array_get(json_object_get(j, "a"), 1));
	assert_null(json_string_value(NULL));
	assert_null(json_string_value(j));
	assert_int_equal(json_array_size(NULL) + json_object_size(s) + json_array_size(j), 0);
	assert_false(json_is_null(NULL) || json_is_boolean(NULL) || json_is_object(NULL) || json_is_boolean(s));
	json_array_foreach(j, i, v) fail();
	json_object_foreach(json_object_get(j, "a"), key, v) fail_msg("%s", key);
	json_array_foreach(json_object_get(j, "absent"), i, v) fail();
	json_decref(NULL);
}

// A hundred thousand keys, and one of them twice: found, without comparing each with each.
static void many_keys(void **state)
{
	(void)state;
	struct err e;
	auto_buf struct buf b = BUF_INIT(4 << 20);
	buf_byte(&b, '{');
	for (int i = 0; i < 100000; i++)
		buf_fmt(&b, "\"k%d\":%d,", i, i);
	auto_free char *once = xasprintf("%s\"last\":1}", b.p), *twice = xasprintf("%s\"k77777\":1}", b.p);
	auto_json json_t *good = json_read(once, strlen(once), &e), *bad = json_read(twice, strlen(twice), &e);
	assert_null(bad);
	assert_int_equal(json_object_size(good), 100001);
	assert_int_equal(json_u64(good, "k99999"), 99999);
}

static void prints(const char *json, unsigned indent, const char *want)
{
	auto_json json_t *j = parse(json);
	auto_buf struct buf b = BUF_INIT(1024);
	assert_non_null(j);
	json_print(&b, j, indent);
	assert_string_equal(buf_cstr(&b), want);
}

static void printing(void **state)
{
	(void)state;
	prints(" { \"a\" : [ 1 , -2 , null , true , false ] , \"b\" : { } , \"c\" : [ ] } ", 0,
	       "{\"a\":[1,-2,null,true,false],\"b\":{},\"c\":[]}");
	prints("{\"a\":[1,{\"x\":\"y\"}],\"b\":{},\"c\":[[]]}", 2,
	       "{\n  \"a\": [\n    1,\n    {\n      \"x\": \"y\"\n    }\n  ],\n  \"b\": {},\n  \"c\": [\n    []\n  ]\n}");
	prints("[1.5,10.0,1e300,0.1]", 0, "[1.5,10.0,1.0000000000000001e+300,0.10000000000000001]");
	prints("[\"\\\"\\\\\\n\\u0007\xc3\xa9\"]", 0, "[\"\\\"\\\\\\n\\u0007\xc3\xa9\"]");
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
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_refused), cmocka_unit_test(depth),
		cmocka_unit_test(strings),	   cmocka_unit_test(numbers),
		cmocka_unit_test(walking),	   cmocka_unit_test(nothing_is_found_in_nothing),
		cmocka_unit_test(many_keys),	   cmocka_unit_test(printing),
		cmocka_unit_test(members),	   cmocka_unit_test(unknown_fields_are_errors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

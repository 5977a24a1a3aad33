// SPDX-License-Identifier: Apache-2.0
// What E2B's clients write into queries, names and network wishes.
#include "api/e2b_list.c"

#include "api/e2b_templates.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void times(void **state)
{
	static const struct {
		const char *text;
		int64_t ms; // -1: refused
	} rows[] = {
		{"1970-01-01T00:00:00Z", 0},	      {"1970-01-01T00:00:01.5Z", 1500},	    {"1970-01-01T00:00:01.123456789Z", 1123},
		{"1970-01-01T02:00:00+02:00", 0},     {"1970-01-01T00:00:00-01:30", 5400000}, {"1970-01-01T01:00:00 01:00", 0}, // a + read as a space
		{"1969-12-31T23:59:59Z", 0},	      {"1970-01-01T00:00:00", -1},	    {"1970-01-01", -1},
		{"", -1},			      {"1970-01-01T00:00:00Zx", -1},	    {"1970-01-01T00:00:00+1:00", -1},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		uint64_t ms = 7;
		int rc = read_time(rows[i].text, &ms);
		assert_int_equal(rc, rows[i].ms < 0 ? -1 : 0);
		if (!rc)
			assert_int_equal(ms, rows[i].ms);
	}
}

// The query as it is after its own decoding.
static int metadata(const char *text, struct filter *f)
{
	char *query[] = {(char *)"metadata", (char *)text, NULL};
	struct request r = {.query = query};
	*f = (struct filter){0};
	return read_metadata(&r, f);
}

static void metadata_is_encoded_thrice(void **state)
{
	struct filter f;
	(void)state;
	assert_int_equal(metadata("a=b%2520c&k=v", &f), 0); // {a: "b c", k: "v"}, as the SDKs send it
	assert_int_equal(strv_len(f.metadata), 4);
	assert_string_equal(f.metadata[0], "a");
	assert_string_equal(f.metadata[1], "b c");
	assert_string_equal(f.metadata[3], "v");
	strv_free(f.metadata);
	assert_int_equal(metadata("x%253Dy=1%2526%252B", &f), 0);
	assert_string_equal(f.metadata[0], "x=y");
	assert_string_equal(f.metadata[1], "1&+");
	strv_free(f.metadata);
	static const char *const bad[] = {"a", "%", "a=%25", "a=%2500"};
	for (size_t i = 0; i < countof(bad); i++) {
		assert_int_equal(metadata(bad[i], &f), -1);
		strv_free(f.metadata);
	}
}

static void tokens(void **state)
{
	static const struct {
		const char *text;
		int rc;
	} rows[] = {{"", 0}, {"12-sabcdefghijklmno", 0}, {"x", -1}, {"12-", -1}, {"-sabcdefghijklmno", -1}, {"12-sabcdefghijklmnopqrstuvw", -1}, {"1-../..", -1}};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		char *query[] = {(char *)"nextToken", (char *)rows[i].text, NULL};
		struct request r = {.query = query};
		struct filter f = {0};
		assert_int_equal(read_token(&r, &f), rows[i].rc);
	}
}

static void words(void **state)
{
	static const struct {
		const char *word, *name, *tag; // name NULL: refused
	} rows[] = {
		{"base", "base", NULL}, {"team/base:v1.2", "base", "v1.2"}, {"Base", "base", NULL}, {"a_b-c:default", "a_b-c", "default"},
		{"", NULL, NULL},	{"a b", NULL, NULL},		    {"a:", NULL, NULL},	    {"/a", NULL, NULL},
		{"a/", NULL, NULL},	{"../a", NULL, NULL},		    {"a:b c", NULL, NULL},  {"a:b:c", NULL, NULL},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		struct err e;
		char *name = NULL, *tag = NULL;
		int rc = e2b_word_split(rows[i].word, &name, &tag, &e);
		assert_int_equal(rc, rows[i].name ? 0 : -1);
		if (rc)
			continue;
		assert_string_equal(name, rows[i].name);
		if (rows[i].tag)
			assert_string_equal(tag, rows[i].tag);
		else
			assert_null(tag);
		free(name);
		free(tag);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times), cmocka_unit_test(metadata_is_encoded_thrice), cmocka_unit_test(tokens), cmocka_unit_test(words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static void commas_and_nesting(void **state)
{
	(void)state;
	auto_buf struct buf b = BUF_INIT(1000);
	struct jsonw w = {.b = &b};
	char x[] = "x", y[] = "y";
	char *list[] = {x, y, NULL};
	jw_open(&w, '{');
	jw_kstr(&w, "a", "b");
	jw_kstr(&w, "absent", NULL);
	jw_ku64(&w, "n", UINT64_MAX);
	jw_ki64(&w, "m", INT64_MIN);
	jw_kbool(&w, "t", true);
	jw_key(&w, "none");
	jw_null(&w);
	jw_kstrv(&w, "v", list);
	jw_kstrv(&w, "e", NULL);
	jw_key(&w, "o");
	jw_open(&w, '[');
	jw_open(&w, '{');
	jw_close(&w, '}');
	jw_u64(&w, 1);
	jw_raw(&w, "[2]");
	jw_close(&w, ']');
	jw_close(&w, '}');
	assert_string_equal(b.p, "{\"a\":\"b\",\"n\":18446744073709551615,\"m\":-9223372036854775808,\"t\":true,"
				 "\"none\":null,\"v\":[\"x\",\"y\"],\"e\":[],\"o\":[{},1,[2]]}");
}

// Whatever bytes a string has, the text is JSON in one line and a reader gets them back.
static void any_bytes(void **state)
{
	(void)state;
	for (int c = 1; c < 256; c++) {
		auto_buf struct buf b = BUF_INIT(1000);
		struct jsonw w = {.b = &b};
		struct err e;
		char text[] = {'a', (char)c, 'z', 0};
		jw_open(&w, '{');
		jw_kstr(&w, "s", text);
		jw_close(&w, '}');
		for (size_t i = 0; i < b.n; i++)
			assert_true((unsigned char)b.p[i] >= 0x20 && (unsigned char)b.p[i] < 0x7f);
		auto_json json_t *j = json_read(b.p, b.n, &e);
		assert_non_null(j);
		if (c < 0x80)
			assert_string_equal(json_str(j, "s"), text);
		else
			assert_int_equal(strlen(json_str(j, "s_b64")), 4);
	}
}

static void base64_of_what_is_not_utf8(void **state)
{
	(void)state;
	static const struct {
		const char *in, *out;
	} v[] = {{"\xff", "/w=="}, {"\xff\xfe", "//4="}, {"\xff\xfe\xfd", "//79"}, {"\xff\xfe\xfd\xfc", "//79/A=="}};
	for (size_t i = 0; i < countof(v); i++) {
		auto_buf struct buf b = BUF_INIT(1000);
		struct jsonw w = {.b = &b};
		struct err e;
		jw_open(&w, '{');
		jw_kstr(&w, "k", v[i].in);
		jw_close(&w, '}');
		auto_json json_t *j = json_read(b.p, b.n, &e);
		assert_string_equal(json_str(j, "k_b64"), v[i].out);
	}
	auto_buf struct buf list = BUF_INIT(1000);
	struct jsonw lw = {.b = &list};
	char plain[] = "\xc3\xbf", odd[] = "\xff"; // alike once escaped: only all of them in base64 tell which is which
	jw_open(&lw, '{');
	jw_kstrv(&lw, "v", (char *[]){plain, odd, NULL});
	jw_close(&lw, '}');
	assert_non_null(strstr(buf_cstr(&list), "\"v_b64\":[\"w78=\",\"/w==\"]}"));
	auto_buf struct buf b = BUF_INIT(1000);
	struct jsonw w = {.b = &b};
	jw_open(&w, '{');
	jw_kstr(&w, "k", "gr\xc3\xbc\xc3\x9f");
	jw_close(&w, '}');
	assert_string_equal(b.p, "{\"k\":\"gr\xc3\xbc\xc3\x9f\"}");
}

static void null_where_there_is_nothing(void **state)
{
	auto_buf struct buf b = BUF_INIT(1000);
	struct jsonw w = {.b = &b};
	(void)state;
	jw_open(&w, '{');
	jw_nstr(&w, "a", NULL);
	jw_nstr(&w, "b", "");
	jw_nu64(&w, "c", 0);
	jw_nu64(&w, "d", 7);
	jw_ntime(&w, "e", 0);
	jw_ntime(&w, "f", 1700000000123);
	jw_ktime(&w, "g", 0);
	jw_close(&w, '}');
	assert_string_equal(b.p, "{\"a\":null,\"b\":\"\",\"c\":null,\"d\":7,\"e\":null,\"f\":\"2023-11-14T22:13:20.123Z\",\"g\":\"1970-01-01T00:00:00.000Z\"}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(commas_and_nesting), cmocka_unit_test(any_bytes),
					   cmocka_unit_test(base64_of_what_is_not_utf8), cmocka_unit_test(null_where_there_is_nothing)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

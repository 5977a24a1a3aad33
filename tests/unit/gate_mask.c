// SPDX-License-Identifier: Apache-2.0
// Echo masking: every form of a value, cut anywhere, and what must flow without being held.
#include "base/mem.h"
#include "gate/mask.h"
#include <openssl/crypto.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the headers above it
#include <cmocka.h>

#define VALUE "s3cr3t-Value/with+chars=="
#define HOLDER "skep_TOKEN_00"

static struct mask_set *one(const char *value)
{
	struct secret_value v = {(char *)"TOKEN", (char *)HOLDER, (uint8_t *)value, strlen(value)};
	return mask_set_new(&v, 1);
}

// Feeds text in pieces of the given size.
static char *through(const char *text, size_t step, bool same_length)
{
	struct mask m;
	struct buf out = BUF_INIT(1 << 20);
	size_t n = strlen(text);
	mask_init(&m, one(VALUE), same_length);
	for (size_t at = 0; at < n; at += step)
		mask_add(&m, text + at, n - at < step ? n - at : step, at + step >= n, &out);
	mask_done(&m);
	return buf_take(&out);
}

static void test_forms(void **state)
{
	static const char *const forms[] = {
		VALUE,
		"czNjcjN0LVZhbHVlL3dpdGgrY2hhcnM9PQ==", // base64
		"s3cr3t-Value%2Fwith%2Bchars%3D%3D",	// percent
		"s3cr3t-Value%2fwith%2bchars%3d%3d",
		"s3cr3t-Value\\/with+chars==", // JSON as some write it
		"7333637233742d56616c75652f776974682b63686172733d3d",
		"s3cr3t-Value/with%2Bchars%3D%3D", // percent, in a path
		"s3cr3t-Value/with\\u002Bchars==", // JSON and HTML of those who escape more
		"s3cr3t-Value/with&#43;chars==",
		"s3cr3t-Value/with&#x2B;chars==",
	};
	(void)state;
	for (size_t i = 0; i < countof(forms); i++)
		for (size_t step = 1; step < 50; step += step < 8 ? 1 : 9) {
			auto_free char *text = xasprintf("a %s b", forms[i]), *got = through(text, step, false);
			if (!strstr(got, "a " HOLDER) || strstr(got, "with") || strstr(got, forms[i]))
				fail_msg("form %zu in steps of %zu: %s", i, step, got);
			assert_true(got[strlen(got) - 1] == 'b');
		}
}

static void test_escapes(void **state)
{
	static const char value[] = "a<b>&c\"d'e`f(g)";
	static const char *const forms[] = {
		"a\\u003cb\\u003e\\u0026c\\\"d'e`f(g)",
		"a\\u003Cb\\u003E\\u0026c\\u0022d\\u0027e\\u0060f(g)",
		"a&lt;b&gt;&amp;c&quot;d&#x27;e`f(g)",
		"a&lt;b&gt;&amp;c&quot;d&#039;e`f(g)",
		"a&lt;b&gt;&amp;c&#34;d&#39;e`f(g)",
		"a%3Cb%3E%26c%22d'e%60f(g)",
		"a%3cb%3e%26c%22d%27e%60f%28g%29",
	};
	struct mask_set *set = one(value);
	(void)state;
	for (size_t i = 0; i < countof(forms); i++) {
		auto_buf struct buf out = BUF_INIT(1000);
		auto_free char *text = xasprintf("<%s>", forms[i]);
		if (!mask_text(set, text, strlen(text), &out) || strcmp(buf_cstr(&out), "<" HOLDER ">"))
			fail_msg("form %zu: %s", i, buf_cstr(&out));
	}
	mask_set_put(set);
}

// More than the secure heap holds: the keys of connections must still find room in it.
static void test_large_values(void **state)
{
	enum { N = 8, SIZE = 60000 };
	struct secret_value v[N];
	auto_buf struct buf out = BUF_INIT(1 << 20);
	(void)state;
	assert_int_equal(CRYPTO_secure_malloc_init(256 << 10, 16) != 0, 1);
	for (int i = 0; i < N; i++) {
		v[i] = (struct secret_value){(char *)"TOKEN", (char *)HOLDER, xcalloc(1, SIZE), SIZE};
		for (size_t k = 0; k < SIZE; k++)
			v[i].value[k] = (uint8_t)('a' + (k * 7 + k / 26 + (size_t)i) % 26);
	}
	struct mask_set *set = mask_set_new(v, N);
	assert_true(CRYPTO_secure_used() <= 128 << 10);
	assert_true(mask_text(set, (char *)v[N - 1].value, SIZE, &out));
	assert_string_equal(buf_cstr(&out), HOLDER);
	mask_set_put(set);
	assert_int_equal(CRYPTO_secure_used(), 0);
	CRYPTO_secure_malloc_done();
	for (int i = 0; i < N; i++)
		free(v[i].value);
}

// A body that ends inside a value, as one that breaks off does: most of it tells all of it.
static void test_cut_off(void **state)
{
	(void)state;
	for (size_t n = 1; n < strlen(VALUE); n++) {
		auto_free char *text = xasprintf("so far %.*s", (int)n, VALUE), *got = through(text, 5, false);
		auto_free char *same = through(text, 5, true);
		bool hidden = strcmp(got, text);
		assert_int_equal(hidden, n >= strlen(VALUE) / 2);
		assert_int_equal(strlen(same), strlen(text));
		assert_true(!hidden || (!strcmp(got, "so far " HOLDER) && !strstr(same, "s3c")));
	}
}

// "user:" before the value shifts its bits: the middle of the text is another one for each length.
static void test_basic(void **state)
{
	static const char *const basic[] = {
		"dTpzM2NyM3QtVmFsdWUvd2l0aCtjaGFycz09",	    // u:
		"dXM6czNjcjN0LVZhbHVlL3dpdGgrY2hhcnM9PQ==", // us:
		"dXNlOnMzY3IzdC1WYWx1ZS93aXRoK2NoYXJzPT0=", // use:
	};
	(void)state;
	for (size_t i = 0; i < countof(basic); i++) {
		auto_free char *got = through(basic[i], 7, false);
		assert_non_null(strstr(got, HOLDER));
		assert_true(strlen(got) < strlen(HOLDER) + 12);
	}
}

static void test_same_length(void **state)
{
	(void)state;
	auto_free char *got = through("x" VALUE "y", 4, true);
	assert_string_equal(got, "x*************************y");
}

static void test_flows(void **state)
{
	struct mask m;
	auto_buf struct buf out = BUF_INIT(1024);
	(void)state;
	mask_init(&m, one(VALUE), false);
	mask_add(&m, "data: 1\n\n", 9, false, &out);
	assert_string_equal(buf_cstr(&out), "data: 1\n\n"); // nothing of it could begin a form
	mask_add(&m, "ends in s3cr", 12, false, &out);
	assert_string_equal(buf_cstr(&out), "data: 1\n\nends in ");
	mask_add(&m, "ets", 3, false, &out);
	assert_string_equal(buf_cstr(&out), "data: 1\n\nends in s3cret"); // the last s may begin another
	mask_add(&m, NULL, 0, true, &out);
	assert_string_equal(buf_cstr(&out), "data: 1\n\nends in s3crets");
	mask_done(&m);
}

// Who speaks in turns gets the few bytes that could begin a value; the rest of a value that follows is masked all the same.
static void test_late(void **state)
{
	struct mask m;
	struct secret_value v = {(char *)"S", (char *)"PLACEHOLDER", (uint8_t *)"s3cr3t-Value/with+chars", 23};
	auto_buf struct buf out = BUF_INIT(4096);
	(void)state;
	mask_init(&m, mask_set_new(&v, 1), false);
	mask_add(&m, "turn s3", 7, false, &out);
	assert_string_equal(buf_cstr(&out), "turn ");
	assert_true(mask_holds(&m));
	mask_late(&m, &out);
	assert_string_equal(buf_cstr(&out), "turn s3");
	assert_false(mask_holds(&m));
	mask_late(&m, &out);
	mask_add(&m, "c", 1, false, &out); // goes on
	mask_late(&m, &out);
	assert_string_equal(buf_cstr(&out), "turn s3c");
	mask_add(&m, "r3t-Va", 6, false, &out);
	mask_late(&m, &out); // too much of it
	assert_string_equal(buf_cstr(&out), "turn s3c");
	mask_add(&m, "lue/with+chars.", 15, false, &out);
	assert_string_equal(buf_cstr(&out), "turn s3cPLACEHOLDER.");
	buf_clear(&out);
	mask_add(&m, "s3", 2, false, &out);
	mask_late(&m, &out);
	mask_add(&m, "x, another s", 12, true, &out);
	assert_string_equal(buf_cstr(&out), "s3x, another s");
	mask_done(&m);
	mask_init(&m, mask_set_new(&v, 1), true);
	buf_clear(&out);
	mask_add(&m, "s3c", 3, false, &out);
	mask_late(&m, &out);
	mask_add(&m, "r3t-Value/with+chars", 20, true, &out);
	assert_string_equal(buf_cstr(&out), "s3c********************");
	mask_done(&m);
}

static void test_broken_off(void **state)
{
	struct mask m;
	auto_buf struct buf out = BUF_INIT(1024);
	(void)state;
	mask_init(&m, one(VALUE), false);
	mask_add(&m, "start s3cr3t-Value/with+char", 28, false, &out);
	mask_done(&m);
	assert_string_equal(buf_cstr(&out), "start ");
}

static void test_prefix_of_another(void **state)
{
	struct secret_value v[] = {{(char *)"A", (char *)"<A>", (uint8_t *)"tok-1234", 8},
				   {(char *)"B", (char *)"<B>", (uint8_t *)"tok-1234-longer", 15}};
	struct mask m;
	auto_buf struct buf out = BUF_INIT(1024);
	(void)state;
	mask_init(&m, mask_set_new(v, 2), false);
	mask_add(&m, "tok-1234-lon", 12, false, &out);
	assert_int_equal(out.n, 0);
	mask_add(&m, "ger tok-1234 ", 13, true, &out);
	assert_string_equal(buf_cstr(&out), "<B> <A> ");
	mask_done(&m);
}

static void test_text(void **state)
{
	struct mask_set *set = one(VALUE);
	auto_buf struct buf out = BUF_INIT(1024);
	(void)state;
	assert_false(mask_text(set, "Bearer none", 11, &out));
	assert_int_equal(out.n, 0);
	assert_true(mask_text(set, "v=" VALUE, 2 + strlen(VALUE), &out));
	assert_string_equal(buf_cstr(&out), "v=" HOLDER);
	mask_set_put(set);
	assert_null(mask_set_new(NULL, 0));
	assert_null(one(""));
}

// The password in a value user:password is looked for alone as well.
static void test_password(void **state)
{
	struct mask_set *set = one("bob:correct-horse");
	auto_buf struct buf out = BUF_INIT(1024);
	(void)state;
	assert_true(mask_text(set, "p=correct-horse", 15, &out));
	assert_string_equal(buf_cstr(&out), "p=" HOLDER);
	mask_set_put(set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),	    cmocka_unit_test(test_escapes),	cmocka_unit_test(test_large_values),
		cmocka_unit_test(test_cut_off),	    cmocka_unit_test(test_basic),
		cmocka_unit_test(test_same_length), cmocka_unit_test(test_flows),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_broken_off),  cmocka_unit_test(test_prefix_of_another),
		cmocka_unit_test(test_text),	    cmocka_unit_test(test_password),
	};
	return cmocka_run_group_tests_name("gate/mask", tests, NULL, NULL);
}

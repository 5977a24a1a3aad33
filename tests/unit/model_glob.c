// SPDX-License-Identifier: Apache-2.0
// Globs of paths: what they name, what lies above and below it, and that no text makes them slow.
#include "base/clock.h"
#include "base/mem.h"
#include "model/glob.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static void one_part(void **state)
{
	(void)state;
	static const struct {
		const char *glob, *path;
		enum glob_fit fit;
	} rows[] = {
		{".env", ".env", GLOB_FITS}, {".env", "a/.env", GLOB_NO}, {".env", ".envrc", GLOB_NO}, {".env", ".en", GLOB_NO},
		{"*.pem", "x.pem", GLOB_FITS}, {"*.pem", ".pem", GLOB_FITS}, {"*.pem", "a/x.pem", GLOB_NO}, {"*.pem", "x.pem.bak", GLOB_NO},
		{"a?c", "abc", GLOB_FITS}, {"a?c", "ac", GLOB_NO}, {"*a*b*", "xxaxxbxx", GLOB_FITS}, {"*a*b*", "xxbxxa", GLOB_NO},
		{"[ab]x", "bx", GLOB_FITS}, {"[!ab]x", "bx", GLOB_NO}, {"[a-c]x", "bx", GLOB_FITS}, {"[a-c]x", "dx", GLOB_NO},
		{"[]]", "]", GLOB_FITS}, {"[a-]", "-", GLOB_FITS}, {"[", "[", GLOB_FITS}, {"[!]", "[!]", GLOB_FITS}, {"[^x]", "x", GLOB_NO},
		{"*", "anything", GLOB_FITS}, {"*", "", GLOB_ABOVE},
	};
	for (size_t i = 0; i < countof(rows); i++)
		if (glob_fit(rows[i].glob, rows[i].path) != rows[i].fit)
			fail_msg("%s on %s: %d", rows[i].glob, rows[i].path, glob_fit(rows[i].glob, rows[i].path));
}

static void many_parts(void **state)
{
	(void)state;
	static const struct {
		const char *glob, *path;
		enum glob_fit fit;
	} rows[] = {
		{"a/b", "a", GLOB_ABOVE}, {"a/b", "a/b", GLOB_FITS}, {"a/b", "b", GLOB_NO}, {"a/b", "a/b/c", GLOB_NO}, {"a/b", "", GLOB_ABOVE},
		{"**/.env", ".env", GLOB_FITS}, {"**/.env", "a/.env", GLOB_FITS}, {"**/.env", "a/b/.env", GLOB_FITS},
		{"**/.env", "a/b", GLOB_ABOVE}, {"a/**", "a", GLOB_ABOVE}, {"a/**", "a/x", GLOB_FITS}, {"a/**", "a/x/y", GLOB_FITS},
		{"a/**", "b", GLOB_NO}, {"a/**/z", "a/z", GLOB_FITS}, {"a/**/z", "a/b/c/z", GLOB_FITS}, {"a/**/z", "a/b", GLOB_ABOVE},
		{"**", "x", GLOB_FITS}, {"**", "x/y", GLOB_FITS}, {"**/**/x", "x", GLOB_FITS}, {"*/x", "a/x", GLOB_FITS}, {"*/x", "a/b/x", GLOB_NO},
		{"**/k/*.pem", "a/k/s.pem", GLOB_FITS}, {"**/k/*.pem", "a/k/b/s.pem", GLOB_ABOVE},
	};
	for (size_t i = 0; i < countof(rows); i++)
		if (glob_fit(rows[i].glob, rows[i].path) != rows[i].fit)
			fail_msg("%s on %s: %d", rows[i].glob, rows[i].path, glob_fit(rows[i].glob, rows[i].path));
}

static void what_is_covered(void **state)
{
	(void)state;
	char secrets[] = "secrets", pem[] = "**/*.pem";
	char *globs[] = {secrets, pem, NULL};
	assert_true(glob_covers(globs, "secrets"));
	assert_true(glob_covers(globs, "secrets/a/b"));
	assert_true(glob_covers(globs, "x/y.pem"));
	assert_true(glob_covers(globs, "dir.pem/inside"));
	assert_false(glob_covers(globs, "secret"));
	assert_false(glob_covers(globs, "x/secrets"));
	assert_false(glob_covers(NULL, "secrets"));
	assert_true(glob_is_literal(".env") && glob_is_literal("a/b c"));
	assert_false(glob_is_literal("a/*") || glob_is_literal("[x]") || glob_is_literal("a?"));
	assert_true(glob_is_valid("a/b"));
	assert_false(glob_is_valid("") || glob_is_valid("/a") || glob_is_valid("a//b") || glob_is_valid("a/../b") || glob_is_valid("a/"));
}

static void no_text_is_slow(void **state)
{
	(void)state;
	char glob[4001], name[4001], deep[128], path[4001];
	for (int i = 0; i < 4000; i++)
		glob[i] = i % 2 ? 'a' : '*';
	glob[3998] = 'b';
	glob[4000] = 0;
	memset(name, 'a', 4000);
	name[4000] = 0;
	for (int i = 0; i < 2000; i++)
		memcpy(path + 2 * i, "a/", 2);
	path[3999] = 0;
	for (int i = 0; i < 42; i++)
		memcpy(deep + 3 * i, "**/", 3);
	deep[126] = 'b';
	deep[127] = 0;
	uint64_t start = clock_ms();
	assert_int_equal(glob_fit(glob, name), GLOB_NO);
	assert_int_equal(glob_fit(deep, path), GLOB_ABOVE);
	assert_true(clock_ms() - start < 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_part),
		cmocka_unit_test(many_parts),
		cmocka_unit_test(what_is_covered),
		cmocka_unit_test(no_text_is_slow),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

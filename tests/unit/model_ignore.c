// SPDX-License-Identifier: Apache-2.0
// Rules of .gitignore files, each beside what git says of the same path.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/ignore.h"
#include <string.h>

static void rules_fit_as_in_git(void **state)
{
	static const struct {
		const char *rules, *path;
		bool is_dir;
		enum ignore_fit fit;
	} rows[] = {
		{"*.o\n", "a.o", false, IGNORE_YES},
		{"*.o\n", "d/e/a.o", false, IGNORE_YES},
		{"*.o", "a.c", false, IGNORE_SILENT},
		{"build/\n", "build", true, IGNORE_YES},
		{"build/\n", "build", false, IGNORE_SILENT},
		{"build/\r\n", "d/build", true, IGNORE_YES},
		{"/build\n", "build", true, IGNORE_YES},
		{"/build\n", "d/build", true, IGNORE_SILENT},
		{"d/x\n", "d/x", false, IGNORE_YES},
		{"d/x\n", "e/d/x", false, IGNORE_SILENT},
		{"**/x\n", "e/d/x", false, IGNORE_YES},
		{"**/x\n", "x", false, IGNORE_YES},
		{"a/**\n", "a", true, IGNORE_SILENT},
		{"a/**\n", "a/b/c", false, IGNORE_YES},
		{"a/**/b\n", "a/b", false, IGNORE_YES},
		{"a/**/b\n", "a/x/y/b", false, IGNORE_YES},
		{"a/*\n", "a/x/y", false, IGNORE_SILENT},
		{"*\n!keep\n", "keep", false, IGNORE_NO},
		{"!keep\n*\n", "keep", false, IGNORE_YES},
		{"# no rule\n\\#one\n", "#one", false, IGNORE_YES},
		{"\\!one\n", "!one", false, IGNORE_YES},
		{"one   \n", "one", false, IGNORE_YES},
		{"one\\ \n", "one ", false, IGNORE_YES},
		{"[ab]?.txt\n", "b1.txt", false, IGNORE_YES},
		{"[!ab]?.txt\n", "b1.txt", false, IGNORE_SILENT},
		{"\xef\xbb\xbf*.o\n", "a.o", false, IGNORE_YES},
		{"/\n\n!\n", "x", true, IGNORE_SILENT},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		struct ignore g;
		ignore_parse(&g, rows[i].rules, strlen(rows[i].rules));
		if (ignore_fit(&g, rows[i].path, rows[i].is_dir) != rows[i].fit)
			fail_msg("row %zu: %s of %s", i, rows[i].path, rows[i].rules);
		ignore_done(&g);
	}
}

static void a_pattern_of_many_parts_is_bounded(void **state)
{
	char text[1024], path[1024];
	struct ignore g;
	(void)state;
	for (size_t i = 0; i + 4 < sizeof text; i += 3) {
		memcpy(text + i, "**/", 4);
		memcpy(path + i, "ab/", 4);
	}
	ignore_parse(&g, text, strlen(text));
	assert_int_equal(g.n, 0);
	assert_int_equal(ignore_fit(&g, path, false), IGNORE_SILENT);
	ignore_done(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_fit_as_in_git),
		cmocka_unit_test(a_pattern_of_many_parts_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// The key of a setup layer: the same for the same, another for every difference that counts.
#include "base/mem.h"
#include "model/setup.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static char one[] = "npm ci", two[] = "make deps", joined[] = "npm cimake deps", env[] = "A=1", hide[] = ".env";

static void key(const struct setup *s, char out[SHA256_HEX])
{
	setup_key(s, out);
	assert_int_equal(strlen(out), 64);
}

static void every_part_counts(void **state)
{
	(void)state;
	char *commands[] = {one, two, NULL}, *other[] = {one, NULL}, *glued[] = {joined, NULL}, *turned[] = {two, one, NULL}, *envs[] = {env, NULL},
	     *hides[] = {hide, NULL}, *none[] = {NULL};
	struct setup_file files[] = {{xstrdup("package-lock.json"), "aa"}, {xstrdup("go.sum"), "bb"}}, changed[] = {files[0], {files[1].path, "cc"}},
			  absent[] = {files[0], {files[1].path, ""}};
	const struct setup base = {"/p", "host-1", "/p", PROFILE_USER, commands, NULL, NULL, files, 2};
	struct setup v[] = {base, base, base, base, base, base, base, base, base, base, base, base, base};
	v[1].repo = "/q";
	v[2].image = "host-2";
	v[3].ws_path = "/w";
	v[4].profile = PROFILE_ROOT;
	v[5].commands = other;
	v[6].commands = glued;
	v[7].commands = turned;
	v[8].env = envs;
	v[9].hide = hides;
	v[10].files = changed;
	v[11].files = absent;
	v[12].n_files = 1;
	char keys[countof(v)][SHA256_HEX], again[SHA256_HEX];
	for (size_t i = 0; i < countof(v); i++) {
		key(&v[i], keys[i]);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(keys[i], keys[k]);
	}
	key(&base, again);
	assert_string_equal(again, keys[0]);
	struct setup empty = base;
	empty.env = none; // no list and an empty one are the same
	key(&empty, again);
	assert_string_equal(again, keys[0]);
	struct setup moved = base, moved2 = base; // what stands in one list does not stand in the next
	moved.env = envs;
	moved2.hide = envs;
	key(&moved, keys[0]);
	key(&moved2, keys[1]);
	assert_string_not_equal(keys[0], keys[1]);
	free(files[0].path);
	free(files[1].path);
}

static void which_names_are_locks(void **state)
{
	(void)state;
	static const char *const yes[] = {"package-lock.json", "requirements.txt", "requirements-dev.txt", "go.sum", "Cargo.lock", "pom.xml"};
	static const char *const no[] = {"package.json", "my-requirements.txt", "requirements.in", "go.mod", "", "x/go.sum"};
	for (size_t i = 0; i < countof(yes); i++)
		assert_true(setup_is_lock(yes[i]));
	for (size_t i = 0; i < countof(no); i++)
		assert_false(setup_is_lock(no[i]));
}

static void one_command_runs_them_all(void **state)
{
	(void)state;
	char *commands[] = {one, two, NULL}, **argv = setup_argv(commands);
	assert_int_equal(strv_len(argv), 6);
	assert_string_equal(argv[4], "npm ci"); // an argument, never a part of the script
	assert_null(strstr(argv[2], "npm"));
	strv_free(argv);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_part_counts),
		cmocka_unit_test(which_names_are_locks),
		cmocka_unit_test(one_command_runs_them_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

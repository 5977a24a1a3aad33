// SPDX-License-Identifier: Apache-2.0
#include "base/home.h"
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// cmocka wants the headers above it
#include <cmocka.h>

static void is(const char *home, const char *want)
{
	struct err e;
	auto_free char *got = home_dir(home, &e);
	assert_non_null(got);
	assert_string_equal(got, want);
}

static void test_home(void **state)
{
	struct err e;
	bool root = !geteuid();
	(void)state;
	unsetenv("SKEP_HOME");
	setenv("XDG_STATE_HOME", "/state", 1);
	is("/home/u", root ? "/var/lib/skep" : "/state/skep");
	setenv("XDG_STATE_HOME", "relative", 1);
	is("/home/u", root ? "/var/lib/skep" : "/home/u/.local/state/skep");
	unsetenv("XDG_STATE_HOME");
	setenv("SKEP_HOME", "", 1);
	is("/home/u", root ? "/var/lib/skep" : "/home/u/.local/state/skep");
	setenv("SKEP_HOME", "/own", 1);
	is(NULL, "/own");
	setenv("SKEP_HOME", "own", 1);
	auto_free char *cwd = getcwd(NULL, 0), *below = xasprintf("%s/own", cwd);
	is(NULL, below);
	setenv("SKEP_HOME", "./own", 1);
	is(NULL, below);
	setenv("SKEP_HOME", "/usr/../usr/./bin/../none/of/it", 1);
	is(NULL, "/usr/none/of/it");
	setenv("SKEP_HOME", "/usr/none/../x", 1);
	assert_null(home_dir(NULL, &e));
	assert_int_equal(e.kind, ERR_INVALID);
	unsetenv("SKEP_HOME");
	if (root)
		return;
	assert_null(home_dir(NULL, &e));
	assert_int_equal(e.kind, ERR_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_home)};
	return cmocka_run_group_tests_name("base/home", tests, NULL, NULL);
}

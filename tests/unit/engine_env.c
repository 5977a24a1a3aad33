// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_int.h"

#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char *get(char *const *env, const char *name)
{
	size_t n = strlen(name);
	const char *found = NULL;
	for (; *env; env++)
		if (!strncmp(*env, name, n) && (*env)[n] == '=') {
			assert_null(found); // never twice
			found = *env + n + 1;
		}
	return found;
}

static struct env_input input(void)
{
	return (struct env_input){.sandbox = "s1", .exec = "x1", .path = "/usr/bin", .home = "/home/skep", .user = "skep", .bash = true};
}

static void has_the_basics_and_nothing_else(void **state)
{
	(void)state;
	struct env_input in = input();
	setenv("LEAK", "1", 1);
	char **env = env_make(&in);
	assert_string_equal(get(env, "PATH"), "/usr/bin");
	assert_string_equal(get(env, "HOME"), "/home/skep");
	assert_string_equal(get(env, "USER"), "skep");
	assert_string_equal(get(env, "LOGNAME"), "skep");
	assert_string_equal(get(env, "SHELL"), "/bin/bash");
	assert_string_equal(get(env, "SKEP_SANDBOX"), "s1");
	assert_string_equal(get(env, "SKEP_EXEC"), "x1");
	assert_null(get(env, "TERM"));
	assert_null(get(env, "TMPDIR"));
	assert_int_equal(strv_len(env), 7);
	strv_free(env);
}

static void tools_give_way_to_what_was_said(void **state)
{
	(void)state;
	char *tools[] = {(char[]){"RUSTUP_HOME=/h/.rustup"}, (char[]){"VOLTA_HOME=/h/.volta"}, NULL}, *own[] = {(char[]){"VOLTA_HOME=/mine"}, NULL};
	struct env_input in = input();
	in.tools = tools;
	in.sandbox_env = own;
	char **env = env_make(&in);
	assert_string_equal(get(env, "RUSTUP_HOME"), "/h/.rustup");
	assert_string_equal(get(env, "VOLTA_HOME"), "/mine");
	strv_free(env);
}

static void takes_only_the_allowlist_of_the_caller(void **state)
{
	(void)state;
	char *caller[] = {(char[]){"LANG=de_DE.UTF-8"}, (char[]){"LC_ALL=C"}, (char[]){"AWS_SECRET=1"}, (char[]){"SSH_AUTH_SOCK=/x"},
			  (char[]){"CI=1"}, (char[]){"FORCE_COLOR=1"}, (char[]){"CLICOLOR=0"}, (char[]){"CLICOLOR_FORCE=1"}, (char[]){"TERM=vt100"}, (char[]){"TZ"}, (char[]){"LANGX=1"}, NULL};
	struct env_input in = input();
	in.caller = caller;
	char **env = env_make(&in);
	assert_string_equal(get(env, "LANG"), "de_DE.UTF-8");
	assert_string_equal(get(env, "LC_ALL"), "C");
	assert_string_equal(get(env, "CI"), "1");
	assert_string_equal(get(env, "FORCE_COLOR"), "1");
	assert_string_equal(get(env, "CLICOLOR"), "0");
	assert_string_equal(get(env, "CLICOLOR_FORCE"), "1");
	assert_null(get(env, "AWS_SECRET"));
	assert_null(get(env, "SSH_AUTH_SOCK"));
	assert_null(get(env, "TERM")); // no terminal
	assert_null(get(env, "LANGX"));
	strv_free(env);
	in.tty = true;
	env = env_make(&in);
	assert_string_equal(get(env, "TERM"), "vt100");
	strv_free(env);
}

static void later_wins(void **state)
{
	(void)state;
	char *box[] = {(char[]){"A=box"}, (char[]){"B=box"}, (char[]){"PATH=/box"}, NULL};
	char *exec[] = {(char[]){"A=exec"}, (char[]){"EMPTY="}, (char[]){"EQ=a=b"}, NULL};
	struct env_input in = input();
	in.sandbox_env = box;
	in.exec_env = exec;
	char **env = env_make(&in);
	assert_string_equal(get(env, "A"), "exec");
	assert_string_equal(get(env, "B"), "box");
	assert_string_equal(get(env, "PATH"), "/box");
	assert_string_equal(get(env, "EMPTY"), "");
	assert_string_equal(get(env, "EQ"), "a=b");
	strv_free(env);
}

static void refuses_what_is_not_name_value(void **state)
{
	(void)state;
	struct err e;
	char *good[] = {(char[]){"A=1"}, (char[]){"B="}, NULL};
	char *bare[] = {(char[]){"A"}, NULL}, *nameless[] = {(char[]){"=1"}, NULL};
	assert_int_equal(env_check(good, &e), 0);
	assert_int_equal(env_check(NULL, &e), 0);
	assert_int_equal(env_check(bare, &e), -1);
	assert_int_equal(env_check(nameless, &e), -1);
	assert_int_equal(e.kind, ERR_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(has_the_basics_and_nothing_else),
		cmocka_unit_test(tools_give_way_to_what_was_said),
		cmocka_unit_test(takes_only_the_allowlist_of_the_caller),
		cmocka_unit_test(later_wins),
		cmocka_unit_test(refuses_what_is_not_name_value),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

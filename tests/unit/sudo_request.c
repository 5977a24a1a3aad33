// SPDX-License-Identifier: Apache-2.0
// sudo's words: options in every form, the environment that stays, the shell's line.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "sudo/request.h"
#include <string.h>

#define MAX 24
static int parse(struct sudo_args *a, struct err *e, ...)
{
	static char *argv[MAX];
	va_list ap;
	size_t n = 0;
	va_start(ap, e);
	argv[n++] = (char *)"sudo";
	while (n < MAX - 1 && (argv[n] = va_arg(ap, char *)))
		n++;
	va_end(ap);
	argv[n] = NULL;
	return sudo_args_parse(argv, a, e);
}

static void options_in_every_form(void **state)
{
	struct sudo_args a;
	struct err e;
	(void)state;
	assert_int_equal(parse(&a, &e, "-nEu", "bob", "A=1", "--chdir=/x", "B==", "ls", "-l", "-u", NULL), 0);
	assert_string_equal(a.user, "bob");
	assert_string_equal(a.chdir, "/x");
	assert_true(a.keep_all);
	assert_string_equal(a.set[0], "A=1");
	assert_string_equal(a.set[1], "B==");
	assert_string_equal(a.command[0], "ls");
	assert_string_equal(a.command[2], "-u");
	sudo_args_done(&a);
	assert_int_equal(parse(&a, &e, "-u#7", "--", "A=1", NULL), 0);
	assert_string_equal(a.user, "7");
	assert_null(a.set);
	assert_string_equal(a.command[0], "A=1");
	sudo_args_done(&a);
	assert_int_equal(parse(&a, &e, "--preserve-env=X,Y", "--user", "eve", "./a=b", NULL), 0);
	assert_false(a.keep_all);
	assert_string_equal(a.keep[1], "Y");
	assert_string_equal(a.command[0], "./a=b"); // a path, no variable
	sudo_args_done(&a);
	assert_int_equal(parse(&a, &e, "-k", NULL), 0);
	assert_int_equal(a.what, SUDO_NOTHING);
	assert_int_equal(parse(&a, &e, "-k", "ls", NULL), 0);
	assert_int_equal(a.what, SUDO_RUN);
	assert_int_equal(parse(&a, &e, "-i", NULL), 0);
	assert_true(a.login && !*a.command);
}

static void what_is_refused(void **state)
{
	static const char *const bad[][2] = {{"-u", NULL}, {"-Z", NULL}, {"--us", NULL}, {"--login=x", "ls"}, {"-g", "root"}, {"--user", NULL}, {"A=1", NULL}};
	struct sudo_args a;
	struct err e;
	(void)state;
	for (size_t i = 0; i < countof(bad); i++) {
		assert_int_equal(parse(&a, &e, bad[i][0], bad[i][1], NULL), -1);
		assert_true(*e.msg);
	}
	assert_int_equal(parse(&a, &e, NULL), -1);
}

static const char *value(char **env, const char *name)
{
	size_t n = strlen(name);
	for (; *env; env++)
		if (!strncmp(*env, name, n) && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

static void request(struct exec_spec *s, const char *option, const char *word)
{
	static const char *const env[] = {"A=1", "HOME=/home/u", "LC_ALL=C", "PATH=/evil", "SKEP_EXEC=x", "TERM=vt", "BASH_ENV=/x", "noequals", NULL};
	struct sudo_caller by = {.name = "u", .shell = "/bin/zsh", .uid = 1000, .gid = 1000, .env = (char *const *)env};
	struct sudo_account as = {"root", "/root", "/bin/bash"};
	struct sudo_args a;
	struct err e;
	assert_int_equal(parse(&a, &e, option, word, word ? "it's $A" : NULL, NULL), 0);
	sudo_request(&a, &by, &as, s);
	sudo_args_done(&a);
}

static void what_the_command_gets(void **state)
{
	struct exec_spec s;
	(void)state;
	request(&s, "-n", "echo");
	assert_null(value(s.env, "A"));
	assert_null(value(s.env, "BASH_ENV"));
	assert_string_equal(value(s.env, "HOME"), "/root");
	assert_string_equal(value(s.env, "LC_ALL"), "C");
	assert_string_equal(value(s.env, "SKEP_EXEC"), "x");
	assert_null(strstr(value(s.env, "PATH"), "/evil"));
	assert_string_equal(value(s.env, "SUDO_COMMAND"), "echo it's $A");
	assert_string_equal(s.argv[1], "it's $A");
	exec_spec_done(&s);
	request(&s, "-E", "echo");
	assert_string_equal(value(s.env, "A"), "1");
	assert_string_equal(value(s.env, "HOME"), "/home/u");
	assert_string_equal(value(s.env, "USER"), "root");
	exec_spec_done(&s);
	request(&s, "-s", "echo");
	assert_string_equal(s.argv[0], "/bin/zsh");
	assert_string_equal(s.argv[1], "-c");
	assert_string_equal(s.argv[2], "echo it\\'s\\ $A");
	exec_spec_done(&s);
	request(&s, "-i", NULL);
	assert_string_equal(s.argv[0], "/bin/bash");
	assert_string_equal(s.argv[1], "-l");
	assert_null(s.argv[2]);
	exec_spec_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_in_every_form), cmocka_unit_test(what_is_refused), cmocka_unit_test(what_the_command_gets),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

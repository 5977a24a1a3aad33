// SPDX-License-Identifier: Apache-2.0
// Who commits, as git's own files have it: the two values, and nothing that follows from them.
#include "base/fs.h"
#include "base/mem.h"
#include "workspace/gituser.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
// cmocka wants the four above it
#include <cmocka.h>

#define BOTH "[user]\n\tname = \"A B\"\n[user]\n\temail = \"a@example.org\"\n"

static char home[64];

static int set_up(void **state)
{
	(void)state;
	memcpy(home, "/tmp/skep-gituser-XXXXXX", 25);
	return mkdtemp(home) ? 0 : -1;
}

static int tear_down(void **state)
{
	struct err e;
	(void)state;
	return fs_remove_tree(AT_FDCWD, home, &e);
}

static void file(const char *path, const char *text)
{
	struct err e;
	auto_free char *full = xasprintf("%s/%s", home, path);
	auto_free char *dir = xstrndup(full, (size_t)(strrchr(full, '/') - full));
	assert_int_equal(fs_mkdirs(AT_FDCWD, dir, 0755, &e), 0);
	assert_int_equal(fs_write(AT_FDCWD, full, text, strlen(text), 0644, &e), 0);
}

static void says(const char *below, const char *want)
{
	auto_buf struct buf b = BUF_INIT(4096);
	auto_free char *dir = below ? xasprintf("%s/%s", home, below) : NULL;
	gituser_config(home, NULL, dir, &b);
	assert_string_equal(buf_cstr(&b), want);
}

static void forms(void **state)
{
	static const char *const texts[] = {
		"[user]\n\tname = A B\n\temail = a@example.org\n",
		"[user]\nname=A B\nemail=a@example.org",
		"# x\n[User] ; y\r\n  NAME = \"A B\"   # z\r\n  Email = a@example.org ; w\r\n",
		"[user] name = A \\\nB\n email = \"a@exa\"mple.org\n",
		"[user]\n\tname = old\n[core]\n\tname = no\n\tpager = less\n[user \"x\"]\n\tname = no\n[user]\n\tsigningkey = k\n\tname = A B\n\temail = a@example.org\n",
		"[alias]\n\tname\n\tx = \"!sh -c '[user]'\"\n[user]\n\tname\n\tname = A B\n\temail = a@example.org\n",
	};
	(void)state;
	says(NULL, "");
	for (size_t i = 0; i < countof(texts); i++) {
		file(".gitconfig", texts[i]);
		says(NULL, BOTH);
	}
}

static void values_that_are_left_out(void **state)
{
	(void)state;
	file(".gitconfig", "[user]\n\tname = \"A\\n[core]\"\n\temail = \"a\\\"b\\\\c\"\n");
	says(NULL, "[user]\n\temail = \"a\\\"b\\\\c\"\n");
	file(".gitconfig", "[user]\n\tname = \xff\xfe\n\temail =\n");
	says(NULL, "");
	auto_buf struct buf b = BUF_INIT(10000);
	buf_str(&b, "[user]\n\tname = ");
	for (int i = 0; i < 2000; i++)
		buf_byte(&b, 'x');
	file(".gitconfig", buf_cstr(&b));
	says(NULL, "");
}

static void two_files_and_includes(void **state)
{
	(void)state;
	file(".config/git/config", "[user]\n\tname = A B\n\temail = other@example.org\n");
	file(".gitconfig", "[include]\n\tpath = more/mail\n\tpath = ~/absent\n");
	file("more/mail", "[user]\n\temail = a@example.org\n[include]\n\tpath = mail\n"); // itself, again and again
	says(NULL, BOTH);
}

static void by_directory(void **state)
{
	(void)state;
	file(".gitconfig", "[user]\n\tname = A B\n\temail = home@example.org\n"
			   "[includeIf \"gitdir:~/work/\"]\n\tpath = ~/work.inc\n[includeIf \"gitdir/i:~/WORK2/\"]\n\tpath = ~/work.inc\n"
			   "[includeIf \"gitdir:named/.git\"]\n\tpath = ~/work.inc\n[includeIf \"onbranch:main\"]\n\tpath = ~/bad.inc\n");
	file("work.inc", "[user]\n\temail = a@example.org\n");
	file("bad.inc", "[user]\n\temail = bad@example.org\n");
	const char *other = "[user]\n\tname = \"A B\"\n[user]\n\temail = \"home@example.org\"\n";
	says("work/p", BOTH);
	says("work/deep/er", BOTH);
	says("work2/p", BOTH);
	says("x/named", BOTH);
	says("works/p", other);
	says("play/p", other);
	says(NULL, other);
}

static void what_is_no_file(void **state)
{
	(void)state;
	auto_free char *path = xasprintf("%s/.gitconfig", home);
	assert_int_equal(mkfifo(path, 0600), 0); // nobody waits for its writer
	says(NULL, "");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/dev/zero", path), 0);
	says(NULL, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(forms, set_up, tear_down),
		cmocka_unit_test_setup_teardown(values_that_are_left_out, set_up, tear_down),
		cmocka_unit_test_setup_teardown(two_files_and_includes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(by_directory, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_no_file, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

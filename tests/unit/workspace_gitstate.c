// SPDX-License-Identifier: Apache-2.0
#include "workspace/gitstate.h"

#include "base/fs.h"
#include "base/mem.h"
#include "workspace/gitdir.h"
#include "workspace/gitlayer_int.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static char top[64];

static void rest(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
}

static void put(const char *name, const char *text)
{
	struct err e;
	auto_free char *path = xasprintf("%s/%s", top, name), *dir = xstrdup(path);
	*strrchr(dir, '/') = 0;
	assert_int_equal(fs_mkdirs(AT_FDCWD, dir, 0755, &e), 0);
	assert_int_equal(fs_replace(AT_FDCWD, path, text, strlen(text), 0644, &e), 0);
}

static int make(void **state)
{
	(void)state;
	strcpy(top, "/tmp/gitstate.XXXXXX");
	assert_non_null(mkdtemp(top));
	put(".git/HEAD", "ref: refs/heads/main\n");
	put(".git/config", "[core]\n\tbare = false\n");
	put(".git/refs/heads/main", "1111111111111111111111111111111111111111\n");
	put(".git/objects/info/x", "");
	put(".git/index", "DIRC");
	rest();
	return 0;
}

static int drop(void **state)
{
	(void)state;
	struct err e;
	return fs_remove_tree(AT_FDCWD, top, &e);
}

static void same_until_something_moves(void **state)
{
	(void)state;
	static const char *const moves[] = {
		".git/HEAD",
		".git/index",
		".git/config",
		".git/packed-refs",
		".git/refs/heads/other",
		".git/refs/a/b/c",
		".git/shallow",
		".git/objects/info/alternates",
		".git/MERGE_HEAD",
		".git/rebase-merge/done",
		".git/info/exclude",
		".git/config.worktree",
		".git/modules/x/HEAD",
		".git/modules/x/refs/heads/main",
		".git/modules/x/index",
		".git/modules/y/z/HEAD",
	};
	struct err e;
	for (size_t i = 0; i < countof(moves); i++) {
		struct gitstate s, after;
		assert_int_equal(gitstate_read(top, &s, &e), 0);
		assert_true(s.git);
		assert_true(gitstate_same(&s));
		put("work", "tree"); // no part of it
		assert_true(gitstate_same(&s));
		put(moves[i], "new\n");
		assert_false(gitstate_same(&s));
		rest();
		assert_int_equal(gitstate_read(top, &after, &e), 0);
		assert_true(!after.git || strcmp(s.key, after.key));
		gitstate_done(&s);
		gitstate_done(&after);
	}
}

static void too_young_to_tell(void **state)
{
	(void)state;
	struct err e;
	struct gitstate s;
	put(".git/refs/heads/new", "x");
	assert_int_equal(gitstate_read(top, &s, &e), 0);
	assert_true(s.young);
	assert_false(gitstate_same(&s));
	gitstate_done(&s);
	rest();
	assert_int_equal(gitstate_read(top, &s, &e), 0);
	assert_true(gitstate_same(&s));
	gitstate_done(&s);
}

static void without_a_repository(void **state)
{
	(void)state;
	struct err e;
	struct gitstate s, zero = {0};
	auto_free char *dir = xasprintf("%s/plain", top), *git = xasprintf("%s/.git", dir);
	assert_false(gitstate_same(&zero));
	put("plain/x", "");
	assert_int_equal(gitstate_read(dir, &s, &e), 0);
	assert_false(s.git);
	assert_string_equal(s.key, "");
	assert_true(gitstate_same(&s));
	assert_int_equal(mkdir(git, 0755), 0);
	assert_false(gitstate_same(&s));
	gitstate_done(&s);
	assert_int_equal(gitstate_read(dir, &s, &e), 0); // a .git that is none
	assert_false(s.git);
	assert_non_null(strstr(s.why, "HEAD"));
	assert_int_equal(strlen(s.key), SHA256_HEX - 1); // it has to be hidden
	gitstate_done(&s);
	assert_int_equal(gitstate_read("/nowhere/at/all", &s, &e), -1);
}

static void worktree_of_a_config(void **state)
{
	(void)state;
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"[core]\n\tworktree = ../../../sub\n", "../../../sub"},
		{"[core]\n worktree=\"a b\" # c\n", "a b"},
		{"[CORE]\r\n\tWorkTree = x\r\n", "x"},
		{"[core] worktree = one\n[core]\nworktree = two\n", "two"},
		{"[core \"x\"]\n\tworktree = no\n", NULL},
		{"[remote]\n\tworktree = no\n", NULL},
		{"[core]\n\tworktrees = no\n", NULL},
		{"[core]\n\tworktree\n", NULL},
		{"[core]\n# worktree = no\n", NULL},
		{"", NULL},
	};
	for (size_t i = 0; i < countof(cases); i++) {
		auto_free char *got = gitdir_worktree(cases[i].text);
		if (cases[i].want)
			assert_string_equal(got, cases[i].want);
		else
			assert_null(got);
	}
}

static void urls_lose_their_credentials(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{"https://u:p@h/x", "https://h/x"},
		{"https://token@h/x", "https://h/x"},
		{"http://a@h", "http://h"},
		{"ssh://git@h/x", "ssh://git@h/x"},
		{"ssh://git:pw@h/x", "ssh://h/x"},
		{"git@h:x", "git@h:x"},
		{"https://h/a@b", "https://h/a@b"},
		{"x https://u:p@q@h/ y https://v@w/", "x https://h/ y https://w/"},
		{"://", "://"},
		{"", ""},
	};
	for (size_t i = 0; i < countof(cases); i++) {
		auto_buf struct buf b = BUF_INIT(1000);
		buf_str(&b, cases[i][0]);
		url_scrub(&b);
		assert_string_equal(buf_cstr(&b), cases[i][1]);
		assert_int_equal(b.n, strlen(cases[i][1]));
	}
}

static void names_of_refs(void **state)
{
	(void)state;
	static const char *const good[] = {"refs/heads/a", "refs/heads/a/b", "refs/x", "refs/heads/\xc3\xa9",
					   "refs/tags/v1.0"};
	static const char *const bad[] = {"HEAD",	   "refs/",
					  "refs/heads/",   "refs/heads/a..b",
					  "refs/heads/.a", "refs/heads/a.lock",
					  "refs/a.lock/b", "refs/heads/a b",
					  "refs/heads/a~", "refs/heads/a\n",
					  "refs//a",	   "refs/a@{b",
					  "refs/heads/a.", "../refs/x"};
	for (size_t i = 0; i < countof(good); i++)
		assert_true(gitref_is_name(good[i]));
	for (size_t i = 0; i < countof(bad); i++)
		assert_false(gitref_is_name(bad[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(same_until_something_moves, make, drop),
		cmocka_unit_test_setup_teardown(too_young_to_tell, make, drop),
		cmocka_unit_test_setup_teardown(without_a_repository, make, drop),
		cmocka_unit_test(worktree_of_a_config),
		cmocka_unit_test(urls_lose_their_credentials),
		cmocka_unit_test(names_of_refs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

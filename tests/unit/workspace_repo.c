// SPDX-License-Identifier: Apache-2.0
#include "workspace/repo_url.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/mem.h"
#include "workspace/repo_dir.h"
#include "workspace/repo_git.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static void urls(void **state)
{
	(void)state;
	static const struct {
		const char *text, *clean, *scheme, *host, *place, *user, *password;
	} cases[] = {
		{"https://example.org/a/b.git", "https://example.org/a/b.git", "https", "example.org",
		 "https://example.org", NULL, NULL},
		{"HTTPS://u:p%2Fx@Example.org:8443/a", "https://Example.org:8443/a", "https", "example.org",
		 "https://Example.org:8443", "u", "p/x"},
		{"https://token@h/a", "https://h/a", "https", "h", "https://h", "token", NULL},
		{"https://u:a@b@h/a", "https://h/a", "https", "h", "https://h", "u", "a@b"},
		{"ssh://git@h:22/a", "ssh://git@h:22/a", "ssh", "h", "ssh://h:22", "git", NULL},
		{"ssh://git:pw@h/a", "ssh://git@h/a", "ssh", "h", "ssh://h", "git", "pw"},
		{"git@h:a/b", "git@h:a/b", "ssh", "h", "ssh://h", "git", NULL},
		{"h:a", "h:a", "ssh", "h", "ssh://h", NULL, NULL},
		{"http://[::1]:80/a", "http://[::1]:80/a", "http", "[::1]", "http://[::1]:80", NULL, NULL},
		{"file:///a/b", "file:///a/b", "file", "", "file://", NULL, NULL},
		{"/a/b", "file:///a/b", "file", "", "file://", NULL, NULL},
		{"git://h/a@b:c", "git://h/a@b:c", "git", "h", "git://h", NULL, NULL},
	};
	for (size_t i = 0; i < countof(cases); i++) {
		struct repo_url u;
		struct err e;
		assert_int_equal(repo_url_parse(cases[i].text, &u, &e), 0);
		assert_string_equal(u.clean, cases[i].clean);
		assert_string_equal(u.scheme, cases[i].scheme);
		assert_string_equal(u.host, cases[i].host);
		assert_string_equal(u.place, cases[i].place);
		assert_true(cases[i].user ? u.user && !strcmp(u.user, cases[i].user) : !u.user);
		assert_true(cases[i].password ? u.password && !strcmp(u.password, cases[i].password) : !u.password);
		repo_url_done(&u);
	}
}

static void not_urls(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"",
		"a",
		"./a",
		"a/b:c",
		"ext::sh",
		"fd::1",
		"ftp://h/a",
		"https://h",
		"https://h/",
		"https:///a",
		"https://-h/a",
		"-h:a",
		"-u@h:a",
		"ssh://-oProxyCommand=x/a",
		"https://h:0/a",
		"https://h:x/a",
		"https://h:99999/a",
		"https://u%0a:p@h/a",
		"https://h/a b",
		"https://h/a\n",
		"file://host/a",
		"https://u@/a",
		"h:",
		"h::a",
		"https://ho$t/a",
	};
	for (size_t i = 0; i < countof(bad); i++) {
		struct repo_url u;
		struct err e;
		assert_int_equal(repo_url_parse(bad[i], &u, &e), -1);
		assert_int_equal(e.kind, ERR_INVALID);
	}
}

static void urls_of_submodules(void **state)
{
	(void)state;
	static const char *const cases[][3] = {
		{"https://h/a/b.git", "../c.git", "https://h/a/c.git"},
		{"https://h/a/b", "./c", "https://h/a/b/c"},
		{"https://h/a/b/", "../../c", "https://h/c"},
		{"https://h/a", "../../c", ""},
		{"git@h:a/b", "../c", "git@h:a/c"},
		{"git@h:a", "../c", "git@h:c"},
		{"https://h/a", "https://x/y", "https://x/y"},
		{"file:///a/b", "../c", "file:///a/c"},
		{"", "../c", ""},
	};
	for (size_t i = 0; i < countof(cases); i++) {
		auto_free char *got = repo_url_join(cases[i][0], cases[i][1]);
		assert_string_equal(got, cases[i][2]);
	}
}

static void whole_or_absent(void **state)
{
	(void)state;
	struct err e;
	struct stat st;
	struct repo_dir d = {.fd = -1};
	char top[] = "/tmp/repodir.XXXXXX";
	assert_non_null(mkdtemp(top));
	auto_free char *path = xasprintf("%s/x", top), *partial = xasprintf("%s/x.partial", top),
		       *left = xasprintf("%s/x.partial/left/over", top);
	assert_int_equal(fs_mkdirs(AT_FDCWD, left, 0700, &e), 0);
	assert_int_equal(repo_dir_begin(path, &d, &e), 1);
	assert_false(fs_exists(d.fd, "left"));
	assert_int_equal(fs_write(d.fd, "made", "x", 1, 0644, &e), 0);
	assert_int_equal(repo_dir_commit(&d, &e), 0);
	repo_dir_drop(&d);
	assert_false(fs_exists(AT_FDCWD, partial));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0755);
	assert_int_equal(repo_dir_begin(path, &d, &e), 0);
	auto_free char *other = xasprintf("%s/y", top), *other_partial = xasprintf("%s/y.partial", top);
	assert_int_equal(repo_dir_begin(other, &d, &e), 1);
	repo_dir_drop(&d);
	assert_false(fs_exists(AT_FDCWD, other_partial));
	assert_int_equal(fs_remove_tree(AT_FDCWD, top, &e), 0);
}

static void copies_with_holes(void **state)
{
	(void)state;
	struct err e;
	struct stat st;
	char top[] = "/tmp/repocopy.XXXXXX", block[4096];
	assert_non_null(mkdtemp(top));
	auto_fd int dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd int from = openat(dir, "from", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	memset(block, 'x', sizeof block);
	assert_int_equal(pwrite(from, block, sizeof block, 1 << 20), sizeof block);
	assert_int_equal(ftruncate(from, 16 << 20), 0);
	assert_int_equal(repo_copy_fd(from, dir, "to", 0640, (struct timespec){.tv_sec = 1000, .tv_nsec = 5}, &e), 0);
	assert_int_equal(fstatat(dir, "to", &st, 0), 0);
	assert_int_equal(st.st_size, 16 << 20);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(st.st_mtim.tv_sec, 1000);
	assert_true(st.st_blocks * 512 < 1 << 20);
	auto_fd int to = openat(dir, "to", O_RDONLY | O_CLOEXEC);
	char got[4096];
	assert_int_equal(pread(to, got, sizeof got, 1 << 20), sizeof got);
	assert_memory_equal(got, block, sizeof got);
	assert_int_equal(repo_copy_fd(from, dir, "to", 0640, (struct timespec){0}, &e), -1); // never over another
	assert_int_equal(fs_remove_tree(AT_FDCWD, top, &e), 0);
}

static void git_alone_and_what_it_says(void **state)
{
	(void)state;
	struct err e;
	setenv("GIT_DIR", "/nowhere", 1);
	setenv("GIT_CONFIG_COUNT", "nonsense", 1);
	auto_git struct git_run g, bad;
	git_init(&g, GIT_ALONE, NULL);
	auto_fd int in = git_stdin("[a]\n\tb = c\n", 11, &e);
	g.in = in;
	git_args(&g, "config", "--file", "-", "--get", "a.b", NULL);
	assert_int_equal(git_must(&g, &e), 0);
	assert_string_equal(git_output(&g), "c");
	git_init(&bad, GIT_ALONE, "/nowhere");
	git_args(&bad, "rev-parse", "HEAD", NULL);
	assert_int_equal(git_must(&bad, &e), -1);
	assert_non_null(strstr(e.msg, "not a git repository"));
	assert_null(strstr(e.msg, "fatal: "));
	unsetenv("GIT_DIR");
	unsetenv("GIT_CONFIG_COUNT");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(urls),
		cmocka_unit_test(not_urls),
		cmocka_unit_test(urls_of_submodules),
		cmocka_unit_test(whole_or_absent),
		cmocka_unit_test(copies_with_holes),
		cmocka_unit_test(git_alone_and_what_it_says),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

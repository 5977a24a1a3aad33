// SPDX-License-Identifier: Apache-2.0
#include "workspace/source.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <fcntl.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static const struct source_rules rules = {"/home/ann", "/home/ann.real", "/home/ann/.local/state/skep"};

static enum err_kind judge(const char *path)
{
	struct err e = {0};
	return source_check(&rules, path, &e) ? e.kind : ERR_NONE;
}

static void refuses_what_must_stay_out(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"/", "/home", "/home/ann", "/home/ann.real", "/home/ann/.local", "/home/ann/.local/state",
		"/home/ann/.local/state/skep", "/home/ann/.local/state/skep/layers", "/usr", "/etc", "/etc/ssh", "/tmp",
		"/proc/self", "/sys/fs", "/dev/shm", "/var", "/run", "/opt", "/lib64", "/boot",
	};
	for (size_t i = 0; i < countof(bad); i++)
		assert_int_equal(judge(bad[i]), ERR_INVALID);
}

// Root, with sudo, stands in somebody else's home.
static void refuses_other_homes(void **state)
{
	const struct passwd *pw;
	(void)state;
	for (setpwent(); (pw = getpwent());) {
		if (pw->pw_uid < 1000 || pw->pw_uid >= 65534 || pw->pw_dir[0] != '/' || !pw->pw_dir[1])
			continue;
		auto_free char *project = xasprintf("%s/project", pw->pw_dir);
		assert_int_equal(judge(pw->pw_dir), ERR_INVALID);
		assert_int_equal(judge(project), ERR_NONE);
	}
	endpwent();
}

static void accepts_projects(void **state)
{
	(void)state;
	static const char *const good[] = {"/home/ann/src/p", "/home/annika", "/tmp/x", "/opt/project", "/var/www/site", "/srv/p",
					   "/home/ann/.local/state/skepticism"};
	for (size_t i = 0; i < countof(good); i++)
		assert_int_equal(judge(good[i]), ERR_NONE);
}

static void says_why_and_what_to_do(void **state)
{
	(void)state;
	struct err e;
	struct source src;
	assert_int_equal(source_check(&rules, "/home/ann", &e), -1);
	assert_non_null(strstr(e.msg, "home directory"));
	assert_null(strstr(e.msg, "--repo")); // it may be about a mount
	assert_int_equal(source_resolve(&rules, "/usr", NULL, &src, &e), -1);
	assert_non_null(strstr(e.msg, "system directory"));
	assert_non_null(strstr(e.msg, "--repo"));
}

static void clean_paths(void **state)
{
	(void)state;
	assert_true(path_is_clean("/"));
	assert_true(path_is_clean("/a/b.c/..d"));
	assert_false(path_is_clean("a/b"));
	assert_false(path_is_clean("/a//b"));
	assert_false(path_is_clean("/a/"));
	assert_false(path_is_clean("/a/./b"));
	assert_false(path_is_clean("/a/.."));
	assert_true(path_is_below("/a/b", "/a"));
	assert_true(path_is_below("/a", "/a"));
	assert_false(path_is_below("/ab", "/a"));
	assert_true(path_is_below("/x", "/"));
}

static void expect_map(const char *base, const char *ws, const char *cwd, const char *want)
{
	auto_free char *got = path_map(base, ws, cwd);
	assert_string_equal(got, want);
}

static void maps_the_callers_directory(void **state)
{
	(void)state;
	expect_map("/p", "/p", "/p/sub", "/p/sub");
	expect_map("/p", "/workspace", "/p/sub", "/workspace/sub");
	expect_map("/p", "/p", "/other", "/p");
	expect_map("/p", "/p", "/pp", "/p");
	expect_map("/p", "/p", "/p/../etc", "/p");
	expect_map("/p", "/p", NULL, "/p");
	expect_map(NULL, "/workspace", "/anything", "/workspace");
}

struct place {
	char dir[64];
	struct source_rules rules;
	char home[96], skep[96];
};

static int make_place(void **state)
{
	static struct place p;
	struct err e;
	if (fmt_to(p.dir, sizeof p.dir, "/tmp/skep-source-XXXXXX") || !mkdtemp(p.dir) ||
	    fmt_to(p.home, sizeof p.home, "%s/home", p.dir) || fmt_to(p.skep, sizeof p.skep, "%s/.skep", p.home))
		return -1;
	auto_free char *deep = xasprintf("%s/home/proj/src/deep", p.dir), *git = xasprintf("%s/home/proj/.git/refs/heads", p.dir);
	auto_free char *dot = xasprintf("%s/home/.git", p.dir), *plain = xasprintf("%s/home/plain", p.dir);
	auto_free char *link = xasprintf("%s/home/link", p.dir), *skep = xasprintf("%s/home/.skep", p.dir);
	if (fs_mkdirs(AT_FDCWD, deep, 0755, &e) || fs_mkdirs(AT_FDCWD, git, 0755, &e) || mkdir(dot, 0755) || mkdir(plain, 0755) ||
	    mkdir(skep, 0700) || symlink("proj/src", link))
		return -1;
	p.rules = (struct source_rules){p.home, NULL, p.skep};
	*state = &p;
	return 0;
}

static int drop_place(void **state)
{
	struct place *p = *state;
	struct err e;
	return fs_remove_tree(AT_FDCWD, p->dir, &e);
}

static void expect_base(struct place *p, const char *cwd, const char *repo, const char *want)
{
	struct source s;
	struct err e = {0};
	auto_free char *c = cwd ? xasprintf("%s/%s", p->dir, cwd) : NULL, *r = repo ? xasprintf("%s/%s", p->dir, repo) : NULL;
	auto_free char *w = want ? xasprintf("%s/%s", p->dir, want) : NULL;
	int rc = source_resolve(&p->rules, c, r, &s, &e);
	if (!want) {
		assert_int_equal(rc, -1);
		assert_int_equal(e.kind, ERR_INVALID);
		return;
	}
	assert_int_equal(rc, 0);
	assert_string_equal(s.base, w);
	assert_true(source_is(s.base, s.dev, s.ino));
	assert_false(source_is(s.base, s.dev, s.ino + 1));
	free(s.base);
}

static void resolves_sources(void **state)
{
	struct place *p = *state;
	expect_base(p, "home/proj/src/deep", NULL, "home/proj"); // git top level
	expect_base(p, "home/link", NULL, "home/proj");		  // links are resolved first
	expect_base(p, "home/plain", NULL, "home/plain");	  // a repository in the home directory does not count
	expect_base(p, "home/proj/src", "home/proj/src", "home/proj/src"); // named: as it is
	expect_base(p, "home", NULL, NULL);
	expect_base(p, "home/.skep", NULL, NULL);
	expect_base(p, "home/nothing", NULL, NULL);
}

static void expect_url(const char *text, const char *kept)
{
	struct err e;
	assert_true(source_is_url(text));
	char *url = source_url(text, &e);
	if (kept)
		assert_string_equal(url, kept);
	else
		assert_null(url);
	free(url);
}

static void urls_are_kept_without_credentials(void **state)
{
	struct place *p = *state;
	struct source s;
	struct err e;
	expect_url("https://example.org/x.git", "https://example.org/x.git");
	expect_url("https://me:token@example.org/x.git", "https://example.org/x.git");
	expect_url("https://a@b:c@example.org/x@y.git", "https://example.org/x@y.git");
	expect_url("ssh://git@example.org/x.git", "ssh://git@example.org/x.git");
	expect_url("ssh://git:word@example.org:22/x.git", "ssh://git@example.org:22/x.git");
	expect_url("git@example.org:x.git", "git@example.org:x.git");
	expect_url("file:///srv/x.git", "file:///srv/x.git");
	expect_url("ext::sh -c id://x", NULL);
	expect_url("ext::sh -c id", NULL);
	expect_url("-u:x", NULL);
	expect_url("ftp://example.org/x", NULL);
	assert_false(source_is_url("/srv/a:b"));
	assert_int_equal(source_resolve(&p->rules, p->dir, "relative", &s, &e), -1);
	assert_int_equal(e.kind, ERR_INVALID);
}

static void reads_head(void **state)
{
	struct place *p = *state;
	struct err e;
	auto_free char *proj = xasprintf("%s/home/proj", p->dir), *head = xasprintf("%s/.git/HEAD", proj);
	auto_free char *ref = xasprintf("%s/.git/refs/heads/main", proj);
	static const char commit[] = "0123456789abcdef0123456789abcdef01234567\n";
	assert_null(source_head(proj));
	assert_int_equal(fs_write(AT_FDCWD, head, "ref: refs/heads/main\n", 21, 0644, &e), 0);
	auto_free char *unborn = source_head(proj);
	assert_string_equal(unborn, "refs/heads/main");
	assert_int_equal(fs_write(AT_FDCWD, ref, commit, strlen(commit), 0644, &e), 0);
	auto_free char *found = source_head(proj);
	assert_memory_equal(found, commit, 40);
	assert_int_equal(fs_write(AT_FDCWD, head, "ref: refs/../../../etc/passwd\n", 30, 0644, &e), 0);
	assert_null(source_head(proj));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_what_must_stay_out),
		cmocka_unit_test(refuses_other_homes), cmocka_unit_test(accepts_projects),
		cmocka_unit_test(says_why_and_what_to_do),
		cmocka_unit_test(clean_paths),
		cmocka_unit_test(maps_the_callers_directory),
		cmocka_unit_test_setup_teardown(resolves_sources, make_place, drop_place),
		cmocka_unit_test_setup_teardown(urls_are_kept_without_credentials, make_place, drop_place),
		cmocka_unit_test_setup_teardown(reads_head, make_place, drop_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

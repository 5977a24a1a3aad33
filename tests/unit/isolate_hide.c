// SPDX-License-Identifier: Apache-2.0
// The layer of whiteouts: which names are in it, what its directories look like, and that no link leads it elsewhere.
#include "base/fs.h"
#include "base/mem.h"
#include "isolate/hide.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
// cmocka wants the four above it
#include <cmocka.h>

struct place {
	char dir[64];
	int top, base, into;
};

static int set_up(void **state)
{
	struct place *p = xcalloc(1, sizeof *p);
	strncpy(p->dir, "/tmp/skep-hide-XXXXXX", sizeof p->dir - 1);
	assert_non_null(mkdtemp(p->dir));
	p->top = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(p->top, "base", 0755) | mkdirat(p->top, "into", 0755), 0);
	p->base = openat(p->top, "base", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	p->into = openat(p->top, "into", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = p;
	return 0;
}

static int tear_down(void **state)
{
	struct place *p = *state;
	struct err e;
	int rc = fs_remove_tree(AT_FDCWD, p->dir, &e);
	close(p->top);
	close(p->base);
	close(p->into);
	free(p);
	return rc;
}

static void put(const struct place *p, const char *path)
{
	struct err e;
	auto_free char *dir = xstrdup(path);
	char *slash = strrchr(dir, '/');
	if (slash) {
		*slash = 0;
		assert_int_equal(fs_mkdirs(p->base, dir, 0755, &e), 0);
	}
	assert_int_equal(fs_write(p->base, path, "x", 1, 0644, &e), 0);
}

static bool is_hidden(const struct place *p, const char *path)
{
	struct stat st;
	return !fstatat(p->into, path, &st, AT_SYMLINK_NOFOLLOW) && S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0);
}

static void build(const struct place *p, const char *a, const char *b, const char *c)
{
	char **globs = NULL;
	struct err e = {0};
	const char *all[] = {a, b, c};
	for (size_t i = 0; i < countof(all); i++)
		if (all[i])
			strv_add(&globs, all[i]);
	if (hide_build(p->base, p->into, globs, &e))
		fail_msg("%s", e.msg);
	strv_free(globs);
}

static void names_and_globs(void **state)
{
	struct place *p = *state;
	struct stat st;
	put(p, ".env");
	put(p, "a/b/.env");
	put(p, "a/b/other");
	put(p, "keys/x.pem");
	put(p, "keys/y");
	put(p, ".git/.env");
	assert_int_equal(fchmodat(p->base, "a/b", 0750, 0), 0);
	build(p, "**/.env", "keys/*.pem", NULL);
	assert_true(is_hidden(p, ".env") && is_hidden(p, "a/b/.env") && is_hidden(p, "keys/x.pem"));
	assert_false(fs_exists(p->into, "keys/y") || fs_exists(p->into, "a/b/other") || fs_exists(p->into, ".git"));
	assert_int_equal(fstatat(p->into, "a/b", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0750);
}

static void a_name_is_hidden_before_it_exists(void **state)
{
	struct place *p = *state;
	put(p, "conf/x");
	build(p, "later", "conf/later", "none/later");
	assert_true(is_hidden(p, "later") && is_hidden(p, "conf/later"));
	assert_false(fs_exists(p->into, "none")); // there it would show a directory that is not there
}

static void a_directory_covers_what_is_below(void **state)
{
	struct place *p = *state;
	put(p, "s/a/x.pem");
	build(p, "s/a/x.pem", "s", "s/b");
	assert_true(is_hidden(p, "s"));
}

static void links_lead_nowhere(void **state)
{
	struct place *p = *state;
	put(p, "real/x.pem");
	assert_int_equal(symlinkat("real", p->base, "link"), 0);
	assert_int_equal(symlinkat("/etc", p->base, "etc"), 0);
	build(p, "link/secret", "etc/passwd", "**/*.pem");
	assert_true(is_hidden(p, "real/x.pem"));
	assert_false(fs_exists(p->into, "link") || fs_exists(p->into, "etc"));
}

static void too_many_stop_it(void **state)
{
	struct place *p = *state;
	struct err e;
	char all[] = "*", bad[] = "../x", *globs[] = {all, NULL}, *wrong[] = {bad, NULL};
	for (int i = 0; i <= HIDE_NAMES; i++) {
		auto_free char *name = xasprintf("f%d", i);
		put(p, name);
	}
	assert_int_equal(hide_build(p->base, p->into, globs, &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
	assert_int_equal(hide_build(p->base, p->into, wrong, &e), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(names_and_globs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_name_is_hidden_before_it_exists, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_directory_covers_what_is_below, set_up, tear_down),
		cmocka_unit_test_setup_teardown(links_lead_nowhere, set_up, tear_down),
		cmocka_unit_test_setup_teardown(too_many_stop_it, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

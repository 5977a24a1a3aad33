// SPDX-License-Identifier: Apache-2.0
// The change walk, on directories laid out as an overlay leaves them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fs.h"
#include "base/mem.h"
#include "init/changes.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

struct place {
	char dir[64];
	int top, base;
};

static int set_up(void **state)
{
	struct place *p = xcalloc(1, sizeof *p);
	struct err e;
	memcpy(p->dir, "/tmp/skep-changes-XXXXXX", 25);
	assert_non_null(mkdtemp(p->dir));
	p->top = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(fs_mkdirs(p->top, "ws", 0755, &e) | fs_mkdirs(p->top, "base", 0755, &e), 0);
	p->base = openat(p->top, "base", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = p;
	return 0;
}

static int tear_down(void **state)
{
	struct place *p = *state;
	struct err e;
	close(p->base);
	close(p->top);
	assert_int_equal(fs_remove_tree(AT_FDCWD, p->dir, &e), 0);
	free(p);
	return 0;
}

static void put(struct place *p, const char *path, const char *text)
{
	struct err e;
	assert_int_equal(fs_write(p->top, path, text, strlen(text), 0644, &e), 0);
}

static bool has(const struct changes *c, const char *line)
{
	for (char **l = c->list; l && *l; l++)
		if (!strcmp(*l, line))
			return true;
	return false;
}

static void every_kind_is_named(void **state)
{
	struct place *p = *state;
	struct changes c;
	struct err e;
	put(p, "base/same", "1");
	put(p, "ws/same", "1"); // copied up, not changed
	put(p, "base/edited", "old");
	put(p, "ws/edited", "new");
	put(p, "ws/added", "x");
	put(p, "base/mode", "x");
	put(p, "ws/mode", "x");
	assert_int_equal(fchmodat(p->top, "ws/mode", 0755, 0), 0);
	put(p, "base/removed", "x");
	assert_int_equal(mknodat(p->top, "ws/removed", S_IFCHR, makedev(0, 0)), 0);
	assert_int_equal(symlinkat("/etc/passwd", p->top, "ws/link"), 0);
	assert_int_equal(fs_mkdirs(p->top, "ws/empty", 0755, &e), 0);
	assert_int_equal(fs_mkdirs(p->top, "ws/.git/objects", 0755, &e), 0);
	assert_int_equal(changes_walk(&(struct changes_of){.layer = p->top, .base = p->base}, &c), 0);
	assert_true(has(&c, "M edited") && has(&c, "A added") && has(&c, "M mode") && has(&c, "D removed"));
	assert_true(has(&c, "A link") && has(&c, "A empty/"));
	assert_int_equal(c.count, 6);
	changes_done(&c);
}

static void a_replaced_directory_shows_both_sides(void **state)
{
	struct place *p = *state;
	struct changes c;
	struct err e;
	assert_int_equal(fs_mkdirs(p->top, "base/d", 0755, &e) | fs_mkdirs(p->top, "ws/d", 0755, &e), 0);
	put(p, "base/d/old", "x");
	put(p, "ws/d/new", "x");
	auto_free char *dir = xasprintf("%s/ws/d", p->dir);
	if (setxattr(dir, "user.overlay.opaque", "y", 1, 0)) {
		skip();
	}
	assert_int_equal(changes_walk(&(struct changes_of){.layer = p->top, .base = p->base}, &c), 0);
	assert_true(has(&c, "A d/new") && has(&c, "D d/old"));
	changes_done(&c);
}

static void what_is_hidden_is_no_change(void **state)
{
	struct place *p = *state;
	struct changes c;
	struct err e;
	char env[] = ".env", pem[] = "**/*.pem", dir[] = "secrets", *hide[] = {env, pem, dir, NULL};
	put(p, "base/.env", "theirs");
	put(p, "ws/.env", "mine");
	assert_int_equal(fs_mkdirs(p->top, "ws/d", 0755, &e) | fs_mkdirs(p->top, "ws/secrets", 0755, &e), 0);
	put(p, "ws/d/k.pem", "x");
	put(p, "ws/d/other", "x");
	put(p, "ws/secrets/s", "x");
	assert_int_equal(changes_walk(&(struct changes_of){.layer = p->top, .base = p->base, .hide = hide}, &c), 0);
	assert_true(has(&c, "A d/other"));
	assert_int_equal(c.count, 1);
	changes_done(&c);
}

static void a_layer_that_can_not_be_seen_is_not_unchanged(void **state)
{
	struct place *p = *state;
	struct changes c;
	struct err e;
	assert_int_equal(fs_remove_tree(p->top, "ws", &e), 0);
	assert_int_equal(changes_walk(&(struct changes_of){.layer = p->top, .base = p->base}, &c), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_kind_is_named, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_replaced_directory_shows_both_sides, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_hidden_is_no_change, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_layer_that_can_not_be_seen_is_not_unchanged, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

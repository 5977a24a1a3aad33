// SPDX-License-Identifier: Apache-2.0
// What gc would remove, and what it must not touch: the nursery's own things among them.
#include "engine/engine_int.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
// cmocka wants the headers above it
#include <cmocka.h>

static struct engine g;
static char top[64];

static void open_dir(const char *name, int *fd)
{
	struct err e;
	assert_int_equal(fs_mkdirs(g.home_fd, name, 0700, &e), 0);
	*fd = fs_open(g.home_fd, name, O_RDONLY | O_DIRECTORY, 0, &e);
	assert_true(*fd >= 0);
}

static int set_up(void **state)
{
	static struct loop loop;
	struct err e;
	(void)state;
	memcpy(top, "/tmp/skep-gc-XXXXXX", 20);
	if (!mkdtemp(top) || loop_init(&loop, &e))
		return -1;
	auto_free char *db = xasprintf("%s/state.db", top);
	g = (struct engine){.loop = &loop, .home_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	g.store = store_open(db, &e);
	open_dir("layers", &g.layers);
	open_dir("sandboxes", &g.sandboxes);
	open_dir("images", &g.images);
	open_dir("journals", &g.journals);
	open_dir("run/cells", &g.cells);
	return g.store ? 0 : -1;
}

static int tear_down(void **state)
{
	struct err e;
	int *fds[] = {&g.home_fd, &g.sandboxes, &g.layers, &g.journals, &g.images, &g.cells};
	(void)state;
	while (g.boxes)
		box_drop(g.boxes);
	loop_done(g.loop);
	store_close(g.store);
	for (size_t i = 0; i < countof(fds); i++)
		close_fd(fds[i]);
	return fs_remove_tree(AT_FDCWD, top, &e);
}

static void make(const char *path)
{
	struct err e;
	assert_int_equal(fs_mkdirs(g.home_fd, path, 0700, &e), 0);
}

static void collect(void *ctx, const struct err *e, const struct gc_item *items, size_t n)
{
	assert_null(e);
	for (size_t i = 0; i < n; i++) {
		assert_false(items[i].done);
		strv_add(ctx, items[i].what);
	}
}

static bool would_go(char *const *found, const char *path)
{
	for (; found && *found; found++)
		if (!strcmp(*found, path))
			return true;
	return false;
}

static void knows_what_is_whose(void **state)
{
	static const char *const stays[] = {
		"layers/.spare",      "layers/.spare/l000000000000001", "layers/.fresh-abc-l00000000000002",
		"layers/.ending-l003", "layers/laaaaaaaaaaaaaaa",	 "images/own-0123456789abcdef",
		"sandboxes/saaaaaaaaaaaaaaa", "journals/sbbbbbbbbbbbbbbb",
	};
	static const char *const goes[] = {"layers/.gone-l004", "layers/lbbbbbbbbbbbbbbb", "images/icccccccccccccccc.partial",
					   "sandboxes/sccccccccccccccc"};
	struct sandbox row = {.state = STATE_STOPPED, .id = "saaaaaaaaaaaaaaa", .layer = "laaaaaaaaaaaaaaa"};
	char **found = NULL;
	(void)state;
	box_add(&g, &row);
	for (size_t i = 0; i < countof(stays); i++)
		make(stays[i]);
	for (size_t i = 0; i < countof(goes); i++)
		make(goes[i]);
	struct err e;
	close(fs_unix_listen(g.cells, ".slot-1-2", &e)); // nobody serves it, and it is the nursery's all the same
	close(fs_unix_listen(g.cells, "sccccccccccccccc.sock", &e));
	engine_gc(&g, true, (struct gc_done){collect, &found});
	for (size_t i = 0; i < countof(goes); i++)
		assert_true(would_go(found, goes[i]));
	assert_true(would_go(found, "run/cells/sccccccccccccccc.sock"));
	assert_int_equal(strv_len(found), countof(goes) + 1);
	strv_free(found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(knows_what_is_whose, set_up, tear_down),
	};
	return cmocka_run_group_tests_name("engine/gc", tests, NULL, NULL);
}

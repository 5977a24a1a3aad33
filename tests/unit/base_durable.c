// SPDX-License-Identifier: Apache-2.0
#include "base/durable.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char dir[64];
static int at = -1;

static int set_up(void **state)
{
	struct err e;
	(void)state;
	if (fmt_to(dir, sizeof dir, "/tmp/skep-durable-XXXXXX") || !mkdtemp(dir))
		return -1;
	at = fs_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0, &e);
	return at < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	struct err e;
	(void)state;
	close_fd(&at);
	return fs_remove_tree(AT_FDCWD, dir, &e);
}

static void what_is_there_and_what_is_not(void **state)
{
	struct err e;
	auto_buf struct buf list = BUF_INIT(65536);
	(void)state;
	assert_int_equal(fs_mkdirs(at, "a/sub", 0700, &e), 0);
	assert_int_equal(fs_write(at, "a/journal", "x", 1, 0600, &e), 0);
	assert_int_equal(fs_write(at, "rows", "y", 1, 0600, &e), 0);
	assert_int_equal(mkfifoat(at, "a/pipe", 0600), 0); // nobody writes to it: it must not be waited for
	assert_int_equal(symlinkat("/nowhere", at, "a/link"), 0);
	durable_add(&list, DURABLE_FILES, "a");
	durable_add(&list, DURABLE_TREE, "a");
	durable_add(&list, DURABLE_TREE, "gone");
	durable_add(&list, DURABLE_FILES, "gone");
	durable_add(&list, DURABLE_FILE, "gone-too");
	durable_add(&list, DURABLE_FILE, "rows");
	durable_add(&list, DURABLE_DIR, "a");
	durable_add(&list, DURABLE_DIR, ".");
	assert_int_equal(durable_sync(at, &list, &e), 0);
}

static void a_failure_is_told(void **state)
{
	struct err e = {0};
	auto_buf struct buf list = BUF_INIT(4096), cut = BUF_INIT(64);
	(void)state;
	assert_int_equal(fs_write(at, "file", "y", 1, 0600, &e), 0);
	durable_add(&list, DURABLE_FILES, "file"); // no directory
	assert_int_equal(durable_sync(at, &list, &e), -1);
	assert_non_null(strstr(e.msg, "sync file"));
	buf_str(&cut, "fro");
	assert_int_equal(durable_sync(at, &cut, &e), -1);
	assert_int_equal(e.kind, ERR_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_there_and_what_is_not, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_failure_is_told, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Names, and what happens where nothing has to be done. The work itself needs an overlay: tests/e2e/test_rename.py.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fs.h"
#include "init/movable.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_names(void **state)
{
	char a[256], b[256], long_a[256], long_b[256];
	(void)state;
	movable_name("dir", a);
	assert_string_equal(a, ".skep-rename.dir");
	memset(long_a, 'x', 255);
	long_a[255] = 0;
	memcpy(long_b, long_a, 256);
	long_b[254] = 'y';
	movable_name(long_a, a);
	movable_name(long_b, b);
	assert_true(strlen(a) <= 255 && strlen(b) <= 255);
	assert_string_not_equal(a, b);
	movable_name(long_a, b);
	assert_string_equal(a, b);
}

static size_t count(int dir)
{
	DIR *d = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	size_t n = 0;
	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

// On a plain file system every directory can be moved: it is only asked, and nothing is left of the question.
static void test_movable_already(void **state)
{
	char top[] = "/tmp/skep-movable-XXXXXX";
	struct err e;
	struct stat before, after;
	(void)state;
	assert_non_null(mkdtemp(top));
	int dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(fs_mkdirs(dir, "d/sub", 0750, &e), 0);
	assert_int_equal(fs_write(dir, "d/f", "x", 1, 0644, &e), 0);
	assert_int_equal(fstatat(dir, "d", &before, 0), 0);
	assert_int_equal(movable_make(dir, "d"), 0);
	assert_int_equal(fstatat(dir, "d", &after, 0), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
	assert_int_equal(count(dir), 1);
	assert_int_equal(movable_make(dir, "none"), -1);
	assert_int_equal(movable_make(dir, "d/f"), -1);
	assert_int_equal(symlinkat("d", dir, "link"), 0);
	assert_int_equal(movable_make(dir, "link"), -1); // never what a link points to
	assert_int_equal(symlinkat("/etc", dir, ".skep-rename.d"), 0);
	assert_int_equal(movable_make(dir, "d"), -1); // nor into what somebody put in its way
	assert_int_equal(count(dir), 3);
	close(dir);
	assert_int_equal(fs_remove_tree(AT_FDCWD, top, &e), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_movable_already),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
// cmocka wants the four above it
#include <cmocka.h>
#include "dir.h"

static void write_read_replace(void **state)
{
	struct err e = {0};
	struct stat st;
	auto_buf struct buf b = BUF_INIT(100);
	assert_int_equal(fs_write(dir_of(state), "f", "one", 3, 0640, &e), 0);
	assert_int_equal(fs_replace(dir_of(state), "f", "three", 5, 0600, &e), 0);
	assert_int_equal(fs_read(dir_of(state), "f", &b, &e), 0);
	assert_string_equal(b.p, "three");
	assert_int_equal(fstatat(dir_of(state), "f", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_false(fs_exists(dir_of(state), "f.new"));
	assert_int_equal(e.kind, ERR_NONE); // untouched on success
	assert_int_equal(fs_mkdirs(dir_of(state), "a/b/c", 0755, &e), 0);
	assert_int_equal(fs_mkdirs(dir_of(state), "a/b/c", 0755, &e), 0);
	assert_int_equal(fs_replace(dir_of(state), "a/b/x", "y", 1, 0600, &e), 0);
	assert_int_equal(fs_read(dir_of(state), "nope", &b, &e), -1);
	assert_int_equal(e.sys, ENOENT);
}

static void reading_is_bounded(void **state)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(10);
	assert_int_equal(fs_write(dir_of(state), "f", "0123456789abcdef", 16, 0600, &e), 0);
	assert_int_equal(fs_read(dir_of(state), "f", &b, &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
}

static void descriptors_are_close_on_exec(void **state)
{
	struct err e;
	auto_fd int a = fs_open(dir_of(state), "x", O_RDWR | O_CREAT, 0600, &e);
	auto_fd int b = fs_open_beneath(dir_of(state), "x", O_RDONLY, 0, &e);
	auto_fd int c = fs_open_in_root(dir_of(state), "/x", O_RDONLY, &e);
	assert_int_equal(fcntl(a, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(b, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(c, F_GETFD), FD_CLOEXEC);
}

static void beneath_follows_no_link_and_never_leaves(void **state)
{
	struct err e;
	assert_int_equal(fs_mkdirs(dir_of(state), "d", 0755, &e), 0);
	assert_int_equal(fs_write(dir_of(state), "d/f", "x", 1, 0600, &e), 0);
	assert_int_equal(symlinkat("d", dir_of(state), "link"), 0);
	assert_int_equal(symlinkat("/etc/passwd", dir_of(state), "passwd"), 0);
	static const char *const bad[] = {"../x", "/etc/passwd", "link/f", "passwd", "d/../../x", "d/../link/f"};
	for (size_t i = 0; i < countof(bad); i++)
		assert_int_equal(fs_open_beneath(dir_of(state), bad[i], O_RDONLY, 0, &e), -1);
	auto_fd int ok = fs_open_beneath(dir_of(state), "d/f", O_RDONLY, 0, &e);
	assert_true(ok >= 0);
	// in_root takes links and "..", but the directory is its whole world
	assert_int_equal(fs_open_in_root(dir_of(state), "passwd", O_RDONLY, &e), -1);
	assert_int_equal(e.sys, ENOENT);
	auto_fd int in = fs_open_in_root(dir_of(state), "/../../link/f", O_RDONLY, &e);
	assert_true(in >= 0);
	assert_int_equal(fs_open_in_root(dir_of(state), "../../../../proc/self/fd/0", O_RDONLY, &e), -1);
}

static void directories_are_made_behind_no_link(void **state)
{
	struct err e;
	auto_fd int made = fs_mkdirs_beneath(dir_of(state), "m/n/o", 0755, &e), again = fs_mkdirs_beneath(dir_of(state), "m/n/o", 0755, &e);
	assert_true(made >= 0 && again >= 0);
	assert_int_equal(fs_mkdirs(dir_of(state), "other", 0755, &e), 0);
	assert_int_equal(symlinkat("../other", dir_of(state), "m/link"), 0);
	assert_int_equal(fs_write(dir_of(state), "m/file", "x", 1, 0600, &e), 0);
	static const char *const bad[] = {"m/link", "m/link/new", "m/file/new", "m/../../x", "/m", "m//n"};
	for (size_t i = 0; i < countof(bad); i++)
		assert_int_equal(fs_mkdirs_beneath(dir_of(state), bad[i], 0755, &e), -1);
	assert_false(fs_exists(dir_of(state), "other/new"));
}

static void trees_are_removed_without_following(void **state)
{
	struct err e = {0};
	assert_int_equal(fs_mkdirs(dir_of(state), "keep", 0755, &e), 0);
	assert_int_equal(fs_write(dir_of(state), "keep/f", "x", 1, 0600, &e), 0);
	assert_int_equal(fs_mkdirs(dir_of(state), "t/a/b", 0755, &e), 0);
	assert_int_equal(fs_write(dir_of(state), "t/a/b/f", "x", 1, 0400, &e), 0);
	assert_int_equal(symlinkat("../keep", dir_of(state), "t/link"), 0);
	assert_int_equal(mkfifoat(dir_of(state), "t/fifo", 0), 0);
	assert_int_equal(fchmodat(dir_of(state), "t/a/b", 0500, 0), 0);
	assert_int_equal(fchmodat(dir_of(state), "t/a", 0, 0), 0);
	assert_int_equal(fs_remove_tree(dir_of(state), "t", &e), 0);
	assert_false(fs_exists(dir_of(state), "t"));
	assert_true(fs_exists(dir_of(state), "keep/f"));
	assert_int_equal(symlinkat("keep", dir_of(state), "link"), 0);
	assert_int_equal(fs_remove_tree(dir_of(state), "link", &e), 0);
	assert_true(fs_exists(dir_of(state), "keep/f"));
	assert_int_equal(fs_remove_tree(dir_of(state), "absent", &e), 0);
}

static void sockets_with_long_paths(void **state)
{
	struct err e = {0};
	struct stat st;
	auto_buf struct buf name = BUF_INIT(300);
	for (int i = 0; i < 150; i++)
		buf_byte(&name, 'd');
	assert_int_equal(fs_mkdirs(dir_of(state), name.p, 0755, &e), 0);
	auto_fd int dir = fs_open(dir_of(state), name.p, O_RDONLY | O_DIRECTORY, 0, &e);
	auto_fd int s = fs_unix_listen(dir, "sock", &e);
	if (s < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(fstatat(dir, "sock", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	auto_fd int c = fs_unix_connect(dir, "sock", &e);
	assert_true(c >= 0);
	auto_fd int again = fs_unix_listen(dir, "sock", &e); // replaces a stale one
	assert_true(again >= 0);
	assert_int_equal(fs_unix_connect(dir, "none", &e), -1);
	assert_int_equal(fs_unix_listen(dir, name.p, &e), -1);
	assert_int_equal(e.kind, ERR_INVALID);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(write_read_replace), T(reading_is_bounded), T(descriptors_are_close_on_exec),
		T(beneath_follows_no_link_and_never_leaves), T(directories_are_made_behind_no_link), T(trees_are_removed_without_following),
		T(sockets_with_long_paths),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

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

struct dir {
	char path[64];
	int fd;
};

static int setup(void **state)
{
	struct dir *d = xcalloc(1, sizeof *d);
	*d = (struct dir){.path = "/tmp/skep-fs-XXXXXX"};
	assert_non_null(mkdtemp(d->path));
	d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = d;
	return d->fd < 0;
}

static int teardown(void **state)
{
	struct dir *d = *state;
	struct err e;
	close(d->fd);
	int rc = fs_remove_tree(AT_FDCWD, d->path, &e);
	free(d);
	return rc;
}

static int at(void **state)
{
	return ((struct dir *)*state)->fd;
}

static void write_read_replace(void **state)
{
	struct err e = {0};
	struct stat st;
	auto_buf struct buf b = BUF_INIT(100);
	assert_int_equal(fs_write(at(state), "f", "one", 3, 0640, &e), 0);
	assert_int_equal(fs_replace(at(state), "f", "three", 5, 0600, &e), 0);
	assert_int_equal(fs_read(at(state), "f", &b, &e), 0);
	assert_string_equal(b.p, "three");
	assert_int_equal(fstatat(at(state), "f", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_false(fs_exists(at(state), "f.new"));
	assert_int_equal(e.kind, ERR_NONE); // untouched on success
	assert_int_equal(fs_mkdirs(at(state), "a/b/c", 0755, &e), 0);
	assert_int_equal(fs_mkdirs(at(state), "a/b/c", 0755, &e), 0);
	assert_int_equal(fs_replace(at(state), "a/b/x", "y", 1, 0600, &e), 0);
	assert_int_equal(fs_read(at(state), "nope", &b, &e), -1);
	assert_int_equal(e.sys, ENOENT);
}

static void reading_is_bounded(void **state)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(10);
	assert_int_equal(fs_write(at(state), "f", "0123456789abcdef", 16, 0600, &e), 0);
	assert_int_equal(fs_read(at(state), "f", &b, &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
}

static void descriptors_are_close_on_exec(void **state)
{
	struct err e;
	auto_fd int a = fs_open(at(state), "x", O_RDWR | O_CREAT, 0600, &e);
	auto_fd int b = fs_open_beneath(at(state), "x", O_RDONLY, 0, &e);
	auto_fd int c = fs_open_in_root(at(state), "/x", O_RDONLY, &e);
	assert_int_equal(fcntl(a, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(b, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(c, F_GETFD), FD_CLOEXEC);
}

static void beneath_follows_no_link_and_never_leaves(void **state)
{
	struct err e;
	assert_int_equal(fs_mkdirs(at(state), "d", 0755, &e), 0);
	assert_int_equal(fs_write(at(state), "d/f", "x", 1, 0600, &e), 0);
	assert_int_equal(symlinkat("d", at(state), "link"), 0);
	assert_int_equal(symlinkat("/etc/passwd", at(state), "passwd"), 0);
	static const char *const bad[] = {"../x", "/etc/passwd", "link/f", "passwd", "d/../../x", "d/../link/f"};
	for (size_t i = 0; i < countof(bad); i++)
		assert_int_equal(fs_open_beneath(at(state), bad[i], O_RDONLY, 0, &e), -1);
	auto_fd int ok = fs_open_beneath(at(state), "d/f", O_RDONLY, 0, &e);
	assert_true(ok >= 0);
	// in_root takes links and "..", but the directory is its whole world
	assert_int_equal(fs_open_in_root(at(state), "passwd", O_RDONLY, &e), -1);
	assert_int_equal(e.sys, ENOENT);
	auto_fd int in = fs_open_in_root(at(state), "/../../link/f", O_RDONLY, &e);
	assert_true(in >= 0);
	assert_int_equal(fs_open_in_root(at(state), "../../../../proc/self/fd/0", O_RDONLY, &e), -1);
}

static void directories_are_made_behind_no_link(void **state)
{
	struct err e;
	auto_fd int made = fs_mkdirs_beneath(at(state), "m/n/o", 0755, &e), again = fs_mkdirs_beneath(at(state), "m/n/o", 0755, &e);
	assert_true(made >= 0 && again >= 0);
	assert_int_equal(fs_mkdirs(at(state), "other", 0755, &e), 0);
	assert_int_equal(symlinkat("../other", at(state), "m/link"), 0);
	assert_int_equal(fs_write(at(state), "m/file", "x", 1, 0600, &e), 0);
	static const char *const bad[] = {"m/link", "m/link/new", "m/file/new", "m/../../x", "/m", "m//n"};
	for (size_t i = 0; i < countof(bad); i++)
		assert_int_equal(fs_mkdirs_beneath(at(state), bad[i], 0755, &e), -1);
	assert_false(fs_exists(at(state), "other/new"));
}

static void trees_are_removed_without_following(void **state)
{
	struct err e = {0};
	assert_int_equal(fs_mkdirs(at(state), "keep", 0755, &e), 0);
	assert_int_equal(fs_write(at(state), "keep/f", "x", 1, 0600, &e), 0);
	assert_int_equal(fs_mkdirs(at(state), "t/a/b", 0755, &e), 0);
	assert_int_equal(fs_write(at(state), "t/a/b/f", "x", 1, 0400, &e), 0);
	assert_int_equal(symlinkat("../keep", at(state), "t/link"), 0);
	assert_int_equal(mkfifoat(at(state), "t/fifo", 0), 0);
	assert_int_equal(fchmodat(at(state), "t/a/b", 0500, 0), 0);
	assert_int_equal(fchmodat(at(state), "t/a", 0, 0), 0);
	assert_int_equal(fs_remove_tree(at(state), "t", &e), 0);
	assert_false(fs_exists(at(state), "t"));
	assert_true(fs_exists(at(state), "keep/f"));
	assert_int_equal(symlinkat("keep", at(state), "link"), 0);
	assert_int_equal(fs_remove_tree(at(state), "link", &e), 0);
	assert_true(fs_exists(at(state), "keep/f"));
	assert_int_equal(fs_remove_tree(at(state), "absent", &e), 0);
}

static void sockets_with_long_paths(void **state)
{
	struct err e = {0};
	struct stat st;
	auto_buf struct buf name = BUF_INIT(300);
	for (int i = 0; i < 150; i++)
		buf_byte(&name, 'd');
	assert_int_equal(fs_mkdirs(at(state), name.p, 0755, &e), 0);
	auto_fd int dir = fs_open(at(state), name.p, O_RDONLY | O_DIRECTORY, 0, &e);
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

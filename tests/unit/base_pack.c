// SPDX-License-Identifier: Apache-2.0
// Streams of files: what goes in comes out, and what is hostile stays out.
#include "base/buf.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/pack.h"
#include "base/str.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
// cmocka wants the headers above it
#include <cmocka.h>

static int top; // a fresh directory for each test
static char top_path[32];

static int setup(void **state)
{
	(void)state;
	if (fmt_to(top_path, sizeof top_path, "/tmp/skep-pack-XXXXXX") || !mkdtemp(top_path))
		return -1;
	top = open(top_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return mkdirat(top, "in", 0755) || mkdirat(top, "out", 0755);
}

static int teardown(void **state)
{
	struct err e;
	(void)state;
	close(top);
	return fs_remove_tree(AT_FDCWD, top_path, &e);
}

static int open_dir(const char *name)
{
	int fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void put(const char *path, const void *p, size_t n, mode_t mode)
{
	struct err e;
	assert_int_equal(fs_write(top, path, p, n, 0600, &e), 0);
	assert_int_equal(fchmodat(top, path, mode, 0), 0);
}

static int packed(const char *name, const char *as)
{
	struct err e = {0};
	int fd = memfd_create("pack", MFD_CLOEXEC), in = open_dir("in");
	assert_int_equal(pack_write(fd, in, name, as, &e), 0);
	close(in);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static int unpack(int fd, struct err *e)
{
	int out = open_dir("out"), rc = pack_read(fd, out, e);
	close(out);
	close(fd);
	return rc;
}

static void same_file(const char *path, const void *p, size_t n, mode_t mode)
{
	struct err e;
	struct stat st;
	auto_buf struct buf b = BUF_INIT(64 << 20);
	assert_int_equal(fs_read(top, path, &b, &e), 0);
	assert_int_equal(b.n, n);
	assert_memory_equal(buf_cstr(&b), p, n);
	assert_int_equal(fstatat(top, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode & 07777, mode);
}

static void test_tree(void **state)
{
	struct err e = {0};
	struct stat st;
	char link[64];
	size_t big_n = 1000003;
	auto_free char *big = xcalloc(1, big_n);
	(void)state;
	for (size_t i = 0; i < big_n; i++)
		big[i] = (char)(i * 7 + i / 251);
	mkdirat(top, "in/t", 0755);
	mkdirat(top, "in/t/shut", 0755);
	mkdirat(top, "in/t/void", 0711);
	put("in/t/big", big, big_n, 0644);
	put("in/t/empty", "", 0, 0600);
	put("in/t/shut/caf\xe9", "x", 1, 04755);
	assert_int_equal(symlinkat("../nowhere", top, "in/t/link"), 0);
	assert_int_equal(mkfifoat(top, "in/t/fifo", 0600), 0);
	struct timespec times[2] = {{.tv_sec = 5}, {.tv_sec = -1000, .tv_nsec = 5}};
	assert_int_equal(utimensat(top, "in/t/big", times, 0), 0);
	assert_int_equal(fchmodat(top, "in/t/shut", 0555, 0), 0);

	assert_int_equal(unpack(packed("t", "renamed"), &e), 0);
	same_file("out/renamed/big", big, big_n, 0644);
	same_file("out/renamed/empty", "", 0, 0600);
	same_file("out/renamed/shut/caf\xe9", "x", 1, 0755);
	fstatat(top, "out/renamed/big", &st, 0);
	assert_int_equal(st.st_mtim.tv_sec, -1000);
	assert_int_equal(st.st_mtim.tv_nsec, 5);
	fstatat(top, "out/renamed/shut", &st, 0);
	assert_int_equal(st.st_mode & 07777, 0555);
	fstatat(top, "out/renamed/void", &st, 0);
	assert_int_equal(st.st_mode & 07777, 0711);
	assert_int_equal(readlinkat(top, "out/renamed/link", link, sizeof link), 10);
	assert_int_equal(fstatat(top, "out/renamed/fifo", &st, AT_SYMLINK_NOFOLLOW), -1);
}

static void test_single_file_replaces(void **state)
{
	struct err e = {0};
	(void)state;
	put("in/f", "new", 3, 0640);
	put("out/f", "old and longer", 14, 0600);
	assert_int_equal(unpack(packed("f", "f"), &e), 0);
	same_file("out/f", "new", 3, 0640);
}

static void test_merges_into_a_directory(void **state)
{
	struct err e = {0};
	(void)state;
	mkdirat(top, "in/d", 0755);
	put("in/d/new", "n", 1, 0644);
	mkdirat(top, "out/d", 0700);
	put("out/d/old", "o", 1, 0644);
	assert_int_equal(unpack(packed("d", "d"), &e), 0);
	same_file("out/d/new", "n", 1, 0644);
	same_file("out/d/old", "o", 1, 0644);
}

// What is there as a link is replaced when it is a file's name, and refused when it is a directory's.
static void test_links_at_the_target(void **state)
{
	struct err e = {0};
	struct stat st;
	(void)state;
	mkdirat(top, "victim", 0755);
	put("victim/file", "host", 4, 0644);
	put("in/f", "evil", 4, 0644);
	mkdirat(top, "in/d", 0755);
	put("in/d/file", "evil", 4, 0644);
	assert_int_equal(symlinkat("../victim/file", top, "out/f"), 0);
	assert_int_equal(symlinkat("../victim", top, "out/d"), 0);
	assert_int_equal(unpack(packed("f", "f"), &e), 0);
	assert_int_equal(unpack(packed("d", "d"), &e), -1);
	same_file("victim/file", "host", 4, 0644);
	assert_int_equal(fstatat(top, "out/f", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISREG(st.st_mode));
}

static void add_entry(struct buf *b, char type, const char *path)
{
	wire_u8(b, (uint8_t)type);
	wire_u32(b, 0644);
	wire_u64(b, 0);
	wire_str(b, path);
	if (type == 'f') {
		wire_u64(b, 1);
		buf_byte(b, 'x');
	}
	if (type == 'l')
		wire_str(b, "/etc");
}

// One hostile stream: entries as "tpath tpath ...".
static int hostile(const char *entries, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	struct str rest = str_of(entries), w;
	buf_str(&b, "SKEPPAK1");
	while (str_next(&rest, ' ', &w)) {
		auto_free char *path = xstrndup(w.p + 1, w.n - 1);
		add_entry(&b, w.p[0], path);
	}
	buf_byte(&b, 'e');
	int fd = memfd_create("pack", MFD_CLOEXEC);
	assert_int_equal(fs_write_all(fd, b.p, b.n, e), 0);
	lseek(fd, 0, SEEK_SET);
	return unpack(fd, e);
}

static void test_hostile_paths(void **state)
{
	static const char *const bad[] = {
		"f/abs",
		"f../up",
		"f..",
		"f.",
		"dd f../x",
		"dd fd/../x",
		"dd fd/..",
		"dd fd//x",
		"dd fd/",
		"fa/b",
		"fa fb",
		"da fb",
		"dd ld/l fd/l/passwd",
		"dd fe/x",
		"dd dd/e fd/e/../f",
		"dd fdx/y",
		"ld fd/x",
		"dd f/d/x",
	};
	(void)state;
	for (size_t i = 0; i < countof(bad); i++) {
		struct err e = {0};
		if (!hostile(bad[i], &e))
			fail_msg("taken: %s", bad[i]);
		assert_int_not_equal(e.kind, ERR_NONE);
		assert_int_equal(fs_remove_tree(top, "out", &e), 0);
		mkdirat(top, "out", 0755);
	}
	assert_false(fs_exists(top, "up"));
	struct err e;
	assert_int_equal(hostile("dd fd/a dd/e fd/e/b fd/c", &e), 0);
}

// Cut anywhere, or with any byte changed, a stream ends in an error or in files below the target.
static void test_damaged_streams(void **state)
{
	struct err e = {0};
	char all[512];
	(void)state;
	mkdirat(top, "in/t", 0755);
	put("in/t/f", "content", 7, 0644);
	assert_int_equal(symlinkat("f", top, "in/t/l"), 0);
	int fd = packed("t", "t");
	ssize_t n = read(fd, all, sizeof all);
	close(fd);
	for (ssize_t cut = 0; cut < n; cut++) {
		fd = memfd_create("pack", MFD_CLOEXEC);
		assert_int_equal(fs_write_all(fd, all, (size_t)cut, &e), 0);
		lseek(fd, 0, SEEK_SET);
		assert_int_equal(unpack(fd, &e), -1);
	}
	for (ssize_t at = 0; at < n * 3; at++) {
		char copy[sizeof all];
		memcpy(copy, all, sizeof copy);
		copy[at / 3] ^= (char)(at % 3 == 0 ? 1 : at % 3 == 1 ? 0x80 : 0x2f);
		fd = memfd_create("pack", MFD_CLOEXEC);
		assert_int_equal(fs_write_all(fd, copy, (size_t)n, &e), 0);
		lseek(fd, 0, SEEK_SET);
		(void)!unpack(fd, &e);
	}
}

static void test_roots_that_are_refused(void **state)
{
	struct err e = {0};
	int in = open_dir("in"), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	(void)state;
	assert_int_equal(mkfifoat(top, "in/fifo", 0600), 0);
	assert_int_equal(pack_write(null, in, "fifo", "fifo", &e), -1);
	assert_int_equal(e.kind, ERR_UNSUPPORTED);
	assert_int_equal(pack_write(null, in, "none", "none", &e), -1);
	close(in);
	close(null);
}

static void test_too_deep(void **state)
{
	struct err e = {0};
	(void)state;
	int fd = open_dir("in");
	for (int i = 0; i < 600; i++) {
		assert_int_equal(mkdirat(fd, "d", 0755), 0);
		int next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	close(fd);
	int in = open_dir("in"), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	assert_int_equal(pack_write(null, in, "d", "d", &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
	close(in);
	close(null);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_tree, setup, teardown),
		cmocka_unit_test_setup_teardown(test_single_file_replaces, setup, teardown),
		cmocka_unit_test_setup_teardown(test_merges_into_a_directory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_links_at_the_target, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hostile_paths, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged_streams, setup, teardown),
		cmocka_unit_test_setup_teardown(test_roots_that_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_too_deep, setup, teardown),
	};
	return cmocka_run_group_tests_name("base/pack", tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Streams of changes: what is written is read, in pieces of any size, and nothing else passes.
#include "base/delta.h"
#include "base/mem.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
// cmocka wants the headers above it
#include <cmocka.h>

static void test_paths(void **state)
{
	static const char *const good[] = {"a", "a/b", ".a", "..a", "a..", "a/.../b", " ", "\xff"};
	static const char *const bad[] = {"", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/.", "a/..", "a/../b", "../a"};
	char longest[DELTA_PATH + 2];
	(void)state;
	for (size_t i = 0; i < countof(good); i++)
		assert_true(delta_path_ok(good[i]));
	for (size_t i = 0; i < countof(bad); i++)
		assert_false(delta_path_ok(bad[i]));
	memset(longest, 'a', sizeof longest);
	longest[DELTA_PATH] = 0;
	assert_true(delta_path_ok(longest));
	longest[DELTA_PATH] = 'a';
	longest[DELTA_PATH + 1] = 0;
	assert_false(delta_path_ok(longest));
}

static void read_body(struct delta_in *in, const char *want, size_t want_n)
{
	auto_buf struct buf got = BUF_INIT(64 << 20);
	struct err e;
	for (;;) {
		const char *p;
		size_t n;
		bool torn = true;
		assert_int_equal(delta_body(in, &p, &n, &torn, &e), 0);
		if (!n) {
			assert_false(torn);
			break;
		}
		buf_add(&got, p, n);
	}
	assert_int_equal(got.n, want_n);
	assert_memory_equal(buf_cstr(&got), want, want_n);
}

static void next(struct delta_in *in, struct delta_entry *en, char kind, const char *path)
{
	struct err e = {0};
	assert_int_equal(delta_next(in, en, &e), 1);
	assert_int_equal(en->kind, kind);
	assert_string_equal(en->path, path);
}

static void test_round_trip(void **state)
{
	struct err e = {0};
	struct delta_out o;
	struct delta_in in;
	struct delta_entry en;
	uint8_t sha[32] = {1, 2, 3};
	size_t n = 1000003;
	auto_free char *big = xcalloc(1, n);
	(void)state;
	for (size_t i = 0; i < n; i++)
		big[i] = (char)(i * 7 + i / 251);
	int fd = memfd_create("delta", MFD_CLOEXEC), file = memfd_create("file", MFD_CLOEXEC);
	assert_int_equal(write(file, big, n), (ssize_t)n);
	lseek(file, 0, SEEK_SET);
	delta_out_init(&o, fd);
	assert_int_equal(delta_put_bytes(&o, "a/b", true, big, n, &e), 0);
	assert_int_equal(delta_put_fd(&o, "c", file, &e), 0);
	assert_int_equal(delta_put_bytes(&o, "empty", false, "", 0, &e), 0);
	assert_int_equal(delta_put_link(&o, "l", "../x", &e), 0);
	assert_int_equal(delta_put(&o, 'x', false, "gone", &e), 0);
	assert_int_equal(delta_put_size(&o, 'h', "h", false, 1ULL << 40, &e), 0);
	assert_int_equal(delta_put_expect(&o, "w", 'f', true, sha, &e), 0);
	assert_int_equal(delta_put(&o, 'd', false, "../out", &e), -1);
	assert_int_equal(delta_end(&o, &e), 0);
	delta_out_done(&o);
	lseek(fd, 0, SEEK_SET);
	delta_in_fd(&in, fd);
	assert_int_equal(delta_start(&in, &e), 0);
	next(&in, &en, 'f', "a/b");
	assert_true(en.exec);
	assert_int_equal(delta_next(&in, &en, &e), -1); // the body comes first
	read_body(&in, big, n);
	next(&in, &en, 'f', "c");
	read_body(&in, big, n);
	next(&in, &en, 'f', "empty");
	read_body(&in, "", 0);
	next(&in, &en, 'l', "l");
	assert_string_equal(en.link, "../x");
	next(&in, &en, 'x', "gone");
	next(&in, &en, 'h', "h");
	assert_int_equal(en.size, 1ULL << 40);
	next(&in, &en, 'c', "w");
	assert_memory_equal(en.sha, sha, 32);
	assert_int_equal(delta_next(&in, &en, &e), 0);
	delta_in_done(&in);
	close(fd);
	close(file);
}

// A file with holes: they are sent as such, and the mark with it; other names and known files have no body.
static void test_marks_and_holes(void **state)
{
	struct err e = {0};
	struct delta_out o;
	struct delta_in in;
	struct delta_entry en;
	const struct delta_mark mark = {1, 2, 3, 4, 5};
	const char *p;
	size_t n, sum = 0, holes = 0;
	bool torn;
	(void)state;
	int fd = memfd_create("delta", MFD_CLOEXEC), file = memfd_create("file", MFD_CLOEXEC);
	assert_int_equal(ftruncate(file, 64 << 20), 0);
	assert_int_equal(pwrite(file, "in the middle", 13, 32 << 20), 13);
	delta_out_init(&o, fd);
	assert_int_equal(delta_put_marked(&o, "holes", file, &mark, &e), 0);
	assert_int_equal(delta_put_same(&o, "again", true, "holes", &e), 0);
	assert_int_equal(delta_put_known(&o, "known", false, 7, &e), 0);
	assert_int_equal(delta_put_size(&o, 'n', "not asked for", false, 9, &e), 0);
	assert_int_equal(delta_end(&o, &e), 0);
	delta_out_done(&o);
	assert_true(lseek(fd, 0, SEEK_CUR) < 1 << 20);
	lseek(fd, 0, SEEK_SET);
	delta_in_fd(&in, fd);
	in.holes = true;
	assert_int_equal(delta_start(&in, &e), 0);
	next(&in, &en, 'f', "holes");
	assert_memory_equal(&en.mark, &mark, sizeof mark);
	for (;;) {
		assert_int_equal(delta_body(&in, &p, &n, &torn, &e), 0);
		if (!n)
			break;
		holes += p ? 0 : n;
		sum += n;
	}
	assert_int_equal(sum, 64 << 20);
	assert_true(holes > 60 << 20);
	next(&in, &en, '=', "again");
	assert_string_equal(en.link, "holes");
	next(&in, &en, '~', "known");
	assert_int_equal(en.size, 7);
	next(&in, &en, 'n', "not asked for");
	assert_int_equal(delta_next(&in, &en, &e), 0);
	delta_in_done(&in);
	close(fd);
	close(file);
}

static void test_ask(void **state)
{
	struct err e;
	struct delta_ask got;
	auto_buf struct buf b = BUF_INIT(1 << 20);
	char a[] = "a", c[] = "b/c", *paths[] = {a, c, NULL};
	struct delta_mark marks[] = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}};
	(void)state;
	delta_ask_print(&(struct delta_ask){1, 2, paths, marks, 2}, &b);
	assert_int_equal(delta_ask_read(b.p, b.n, &got, &e), 0);
	assert_true(got.file_max == 1 && got.total_max == 2 && got.n_known == 2 && !strcmp(got.paths[1], "b/c"));
	assert_memory_equal(got.known, marks, sizeof marks);
	delta_ask_done(&got);
	for (size_t n = 1; n < b.n; n++)
		assert_int_equal(delta_ask_read(b.p, n, &got, &e), -1);
	assert_int_equal(delta_ask_read(b.p, 0, &got, &e), 0); // nothing is said: all is wanted
	assert_true(!got.paths && got.file_max == UINT64_MAX);
	assert_true(delta_path_meets(paths, "a/x") && delta_path_meets(paths, "b") && delta_path_meets(paths, "b/c"));
	assert_false(delta_path_meets(paths, "ab") || delta_path_meets(paths, "b/cc") || delta_path_meets(paths, "b/d"));
	assert_true(delta_path_meets(NULL, "any"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_paths), cmocka_unit_test(test_round_trip),
					   cmocka_unit_test(test_marks_and_holes), cmocka_unit_test(test_ask)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Archives: what goes in comes out, compressed or not, and what is hostile is refused by its name.
#include "base/buf.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tar.h"
#include "base/tar_int.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
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
	if (fmt_to(top_path, sizeof top_path, "/tmp/skep-tar-XXXXXX") || !mkdtemp(top_path))
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

static int memory(const void *p, size_t n)
{
	int fd = memfd_create("tar", MFD_CLOEXEC);
	assert_int_equal(write(fd, p, n), n);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static int unpack(const struct buf *archive, struct err *e)
{
	auto_fd int in = memory(archive->p, archive->n), out = openat(top, "out", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return tar_read(in, out, e);
}

static void put_file(const char *path, const char *text, mode_t mode)
{
	auto_fd int fd = openat(top, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && !fchmod(fd, mode));
}

static void same(const char *path, const char *text)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	struct err e;
	auto_fd int fd = fs_open(top, path, O_RDONLY, 0, &e);
	assert_true(fd >= 0);
	assert_int_equal(fs_read_fd(fd, &b, &e), 0);
	assert_string_equal(buf_cstr(&b), text);
}

static void there_and_back(void **state)
{
	struct err e = {0};
	struct stat st;
	auto_buf struct buf archive = BUF_INIT(1 << 20), name = BUF_INIT(4096);
	char target[16] = "";
	(void)state;
	assert_int_equal(mkdirat(top, "in/d", 0750), 0);
	put_file("in/d/run", "#!/bin/sh\n", 0755);
	put_file("in/empty", "", 0644);
	buf_str(&name, "in/d/");
	for (int i = 0; i < 200; i++)
		buf_byte(&name, 'n'); // longer than a header holds
	put_file(buf_cstr(&name), "long", 0644);
	assert_int_equal(symlinkat("d/run", top, "in/link"), 0);
	auto_fd int out = memfd_create("out", MFD_CLOEXEC), in = openat(top, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(tar_write(out, in, ".", ".", &e), 0);
	assert_int_equal(lseek(out, 0, SEEK_SET), 0);
	assert_int_equal(fs_read_fd(out, &archive, &e), 0);
	assert_int_equal(archive.n % TAR_BLOCK, 0);
	assert_int_equal(unpack(&archive, &e), 0);
	same("out/d/run", "#!/bin/sh\n");
	same("out/empty", "");
	auto_free char *there = xasprintf("out/d/%s", buf_cstr(&name) + 5);
	same(there, "long");
	assert_int_equal(fstatat(top, "out/d/run", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(readlinkat(top, "out/link", target, sizeof target), 5);
	assert_memory_equal(target, "d/run", 5);
}

static void add_entry(struct buf *b, const char *name, char type, unsigned mode, const char *link)
{
	struct tar_header h = {.type = type};
	unsigned sum = 0;
	memcpy(h.name, name, strlen(name));
	memcpy(h.link, link, strlen(link));
	memcpy(h.magic, "ustar", 6);
	assert_true(!fmt_to(h.mode, sizeof h.mode, "%07o", mode) && !fmt_to(h.size, sizeof h.size, "%011o", 0) && !fmt_to(h.mtime, sizeof h.mtime, "%011o", 1));
	memset(h.sum, ' ', sizeof h.sum);
	for (size_t i = 0; i < sizeof h; i++)
		sum += ((const unsigned char *)&h)[i];
	assert_false(fmt_to(h.sum, sizeof h.sum, "%06o", sum));
	buf_add(b, &h, sizeof h);
}

static void finish(struct buf *b)
{
	static const char zeroes[2 * TAR_BLOCK];
	buf_add(b, zeroes, sizeof zeroes);
}

static void hostile(void **state)
{
	static const struct {
		const char *before, *link, *name;
		char type;
		unsigned mode;
		const char *target;
	} cases[] = {
		{NULL, NULL, "/evil", '0', 0644, ""},	      {NULL, NULL, "../evil", '0', 0644, ""},
		{NULL, NULL, "a/../../evil", '0', 0644, ""},  {"l", "/tmp", "l/evil", '0', 0644, ""},
		{"evil", "/tmp", "evil/", '5', 0755, ""},     {NULL, NULL, "evil", '3', 0644, ""},
		{NULL, NULL, "evil", '4', 0644, ""},	      {NULL, NULL, "evil", '6', 0644, ""},
		{NULL, NULL, "evil", '0', 04755, ""},	      {NULL, NULL, "evil", '0', 02755, ""},
		{NULL, NULL, "evil", 'S', 0644, ""},	      {NULL, NULL, "evil", '1', 0644, "../in/kept"},
		{NULL, NULL, "evil", '1', 0644, "/etc/hosts"}, {"l", "../in", "evil", '1', 0644, "l/kept"},
		{"l", "../in/kept", "evil", '1', 0644, "l"},  {NULL, NULL, "evil", 'Z', 0644, ""},
	};
	struct err e;
	struct stat st;
	(void)state;
	put_file("in/kept", "kept", 0600);
	for (size_t i = 0; i < countof(cases); i++) {
		auto_buf struct buf b = BUF_INIT(1 << 16);
		if (cases[i].before)
			add_entry(&b, cases[i].before, '2', 0777, cases[i].link);
		add_entry(&b, cases[i].name, cases[i].type, cases[i].mode, cases[i].target);
		add_entry(&b, "after", '0', 0644, "");
		finish(&b);
		e = (struct err){0};
		assert_int_equal(unpack(&b, &e), -1);
		assert_int_equal(e.kind, ERR_INVALID);
		assert_non_null(strstr(e.msg, "evil"));
		assert_int_equal(fstatat(top, "out/after", &st, 0), -1);
		auto_free char *link = xasprintf("out/%s", cases[i].before ? cases[i].before : "none");
		unlinkat(top, link, 0);
	}
	same("in/kept", "kept");
	assert_int_equal(fstatat(top, "in/kept", &st, 0), 0);
	assert_int_equal(st.st_nlink, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(there_and_back, setup, teardown),
		cmocka_unit_test_setup_teardown(hostile, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

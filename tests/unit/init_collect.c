// SPDX-License-Identifier: Apache-2.0
// The jobs collect and restore, on directories laid out as an overlay leaves them beside what is seen inside.
#include "base/delta.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "init/collect.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
// cmocka wants the headers above it
#include <cmocka.h>

static char top_path[40], ws_path[60];
static int top;

static int setup(void **state)
{
	struct err e;
	(void)state;
	if (fmt_to(top_path, sizeof top_path, "/tmp/skep-collect-XXXXXX") || !mkdtemp(top_path) ||
	    fmt_to(ws_path, sizeof ws_path, "%s/merged", top_path))
		return -1;
	top = open(top_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fs_mkdirs(top, "layer/ws", 0755, &e) || fs_mkdirs(top, "base", 0755, &e) || fs_mkdirs(top, "merged", 0755, &e);
}

static int teardown(void **state)
{
	struct err e;
	(void)state;
	close(top);
	return fs_remove_tree(AT_FDCWD, top_path, &e);
}

static void put(const char *path, const char *text, mode_t mode)
{
	struct err e;
	assert_int_equal(fs_write(top, path, text, strlen(text), mode, &e), 0);
}

// In the upper layer and, as an overlay would, in what is seen.
static void put_both(const char *path, const char *text, mode_t mode)
{
	auto_free char *up = xasprintf("layer/ws/%s", path), *seen = xasprintf("merged/%s", path);
	put(up, text, mode);
	put(seen, text, mode);
}

// As pid 1 runs it: in a child, whose descriptors but the kept ones are closed.
static void run_job(int in, int out, int (*job)(struct err *e), bool layers, const char *want_error)
{
	pid_t pid = fork();
	if (!pid) {
		struct err e = {0};
		dup2(in, 0);
		dup2(out, 1);
		close_range(layers ? (unsigned)collect_keep(3) : 3, ~0U, 0);
		_exit(job(&e) ? !want_error || !strstr(e.msg, want_error) : want_error != NULL);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	lseek(out, 0, SEEK_SET);
}

static void describe(int fd, struct buf *out)
{
	struct delta_in in;
	struct delta_entry en;
	struct err e = {0};
	delta_in_fd(&in, fd);
	assert_int_equal(delta_start(&in, &e), 0);
	while (delta_next(&in, &en, &e) > 0) {
		buf_fmt(out, "%c%s %s", en.kind, en.exec ? "x" : "", en.path);
		if (en.kind == 'l')
			buf_fmt(out, " -> %s", en.link);
		for (size_t n = en.kind == 'f'; n;) {
			const char *p;
			bool torn = false;
			assert_int_equal(delta_body(&in, &p, &n, &torn, &e), 0);
			assert_false(torn);
			buf_str(out, "=");
			buf_add(out, p, n);
		}
		buf_str(out, "\n");
	}
	assert_string_equal(e.msg, "");
	delta_in_done(&in);
}

static void test_collect(void **state)
{
	struct err e;
	(void)state;
	put("base/edited", "old", 0644);
	put_both("edited", "new", 0755);
	put("base/same", "1", 0644);
	put_both("same", "1", 0644);
	put("base/gone", "1", 0644);
	assert_int_equal(mknodat(top, "layer/ws/gone", S_IFCHR, makedev(0, 0)), 0);
	put("base/was-file", "1", 0644);
	assert_int_equal(fs_mkdirs(top, "layer/ws/was-file", 0755, &e) | fs_mkdirs(top, "merged/was-file", 0755, &e), 0);
	put_both("was-file/below", "b", 0644);
	assert_int_equal(fs_mkdirs(top, "layer/ws/hollow", 0755, &e) | fs_mkdirs(top, "merged/hollow", 0755, &e), 0);
	assert_int_equal(symlinkat("/etc/passwd", top, "layer/ws/link") | symlinkat("/etc/passwd", top, "merged/link"), 0);
	assert_int_equal(mkfifoat(top, "layer/ws/fifo", 0600) | mkfifoat(top, "merged/fifo", 0600), 0);
	auto_fd int layer = openat(top, "layer", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd int base = openat(top, "base", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct changes_of of = {.layer = layer, .base = base};
	collect_init(&of, ws_path);
	auto_fd int out = memfd_create("out", MFD_CLOEXEC);
	auto_fd int nothing = memfd_create("in", MFD_CLOEXEC);
	run_job(nothing, out, collect_run, true, NULL);
	auto_buf struct buf got = BUF_INIT(1 << 16);
	describe(out, &got);
	assert_string_equal(buf_cstr(&got), "fx edited=new=\ns fifo\nx gone\nd hollow\nl link -> /etc/passwd\nd was-file\nf was-file/below=b=\n");
}

static int restore_here(struct err *e)
{
	return restore_run(ws_path, e);
}

static const char *sha_of(const char *text, uint8_t out[32])
{
	struct sha256 h;
	sha256_init(&h);
	sha256_add(&h, text, strlen(text));
	sha256_end(&h, out);
	return text;
}

static void assert_text(const char *path, const char *want)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(4096);
	assert_int_equal(fs_read(top, path, &b, &e), 0);
	assert_string_equal(buf_cstr(&b), want);
}

static void test_restore_compares_first(void **state)
{
	struct err e = {0};
	struct delta_out o;
	uint8_t sha[32];
	struct stat st;
	(void)state;
	put("merged/a", "seen", 0644);
	put("merged/b", "written since", 0644);
	put("merged/added", "seen", 0755);
	int in = memfd_create("in", MFD_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC);
	delta_out_init(&o, in);
	sha_of("seen", sha);
	int rc = delta_put_expect(&o, "a", 'f', false, sha, &e) | delta_put_bytes(&o, "a", true, "base", 4, &e);
	rc |= delta_put_expect(&o, "b", 'f', false, sha, &e) | delta_put_bytes(&o, "b", false, "base", 4, &e);
	rc |= delta_put_expect(&o, "added", 'f', true, sha, &e) | delta_put(&o, 'x', false, "added", &e);
	rc |= delta_put_expect(&o, "deep/er/gone", 'x', false, NULL, &e) | delta_put_bytes(&o, "deep/er/gone", false, "back", 4, &e);
	rc |= delta_put_expect(&o, "l", 'x', false, NULL, &e) | delta_put_link(&o, "l", "a", &e) | delta_end(&o, &e);
	assert_int_equal(rc, 0);
	delta_out_done(&o);
	lseek(in, 0, SEEK_SET);
	run_job(in, out, restore_here, false, "1 paths changed meanwhile");
	assert_text("merged/a", "base");
	assert_text("merged/b", "written since");
	assert_text("merged/deep/er/gone", "back");
	assert_int_equal(fstatat(top, "merged/a", &st, 0), 0);
	assert_true(st.st_mode & 0100);
	assert_int_equal(fstatat(top, "merged/added", &st, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(fstatat(top, "merged/l", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISLNK(st.st_mode));
	close(in);
	close(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_collect, setup, teardown),
		cmocka_unit_test_setup_teardown(test_restore_compares_first, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

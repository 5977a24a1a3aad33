// SPDX-License-Identifier: Apache-2.0
// The files a setup depends on: found, read beneath the project, told apart from absent ones.
#include "base/fs.h"
#include "base/mem.h"
#include "workspace/locks.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
// cmocka wants the four above it
#include <cmocka.h>

static char dir[64];
static struct locks_cache *cache;

static int set_up(void **state)
{
	(void)state;
	memcpy(dir, "/tmp/skep-locks-XXXXXX", 23);
	cache = locks_cache_new();
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	struct err e;
	(void)state;
	locks_cache_free(cache);
	return fs_remove_tree(AT_FDCWD, dir, &e);
}

static void put(const char *name, const char *text)
{
	struct err e;
	auto_free char *path = xasprintf("%s/%s", dir, name);
	assert_int_equal(fs_write(AT_FDCWD, path, text, strlen(text), 0644, &e), 0);
}

static void at_the_top(void **state)
{
	(void)state;
	struct setup_file *f;
	struct err e;
	size_t n;
	char was[SHA256_HEX], want[SHA256_HEX];
	put("yarn.lock", "one");
	put("go.sum", "two");
	put("README", "three");
	assert_int_equal(locks_read(cache, dir, NULL, &f, &n, &e), 0);
	assert_int_equal(n, 2);
	assert_string_equal(f[0].path, "go.sum");
	sha256_hex("one", 3, want);
	assert_string_equal(f[1].sha256, want);
	memcpy(was, f[1].sha256, sizeof was);
	locks_done(f, n);
	put("yarn.lock", "another"); // what is remembered is not believed when the file changed
	assert_int_equal(locks_read(cache, dir, NULL, &f, &n, &e), 0);
	assert_string_not_equal(f[1].sha256, was);
	locks_done(f, n);
}

static void named_ones(void **state)
{
	(void)state;
	struct setup_file *f;
	struct err e;
	size_t n;
	char a[] = "sub/a", absent[] = "sub/none", link[] = "link", up[] = "../x", fifo[] = "fifo";
	auto_free char *sub = xasprintf("%s/sub", dir), *to = xasprintf("%s/link", dir), *pipe = xasprintf("%s/fifo", dir);
	assert_int_equal(mkdir(sub, 0755) | symlink("/etc/passwd", to) | mkfifo(pipe, 0600), 0);
	put("sub/a", "x");
	char *both[] = {a, absent, NULL}, *outside[] = {link, NULL}, *above[] = {up, NULL}, *odd[] = {fifo, NULL};
	assert_int_equal(locks_read(cache, dir, both, &f, &n, &e), 0);
	assert_int_equal(n, 2);
	assert_int_equal(strlen(f[0].sha256), 64);
	assert_string_equal(f[1].sha256, "");
	locks_done(f, n);
	assert_int_equal(locks_read(cache, dir, outside, &f, &n, &e), -1);
	assert_int_equal(locks_read(cache, dir, above, &f, &n, &e), -1);
	assert_int_equal(locks_read(cache, dir, odd, &f, &n, &e), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(at_the_top, set_up, tear_down),
		cmocka_unit_test_setup_teardown(named_ones, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

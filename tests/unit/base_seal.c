// SPDX-License-Identifier: Apache-2.0
#include "base/seal.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
// cmocka wants the headers above it
#include <cmocka.h>

static char top[64];
static int dir;

static int set_up(void **state)
{
	(void)state;
	if (fmt_to(top, sizeof top, "/tmp/skep-seal-XXXXXX") || !mkdtemp(top))
		return -1;
	dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	struct err e;
	(void)state;
	close(dir);
	return fs_remove_tree(AT_FDCWD, top, &e);
}

static struct seal *must_open(void)
{
	struct err e = {0};
	struct seal *s = seal_open(dir, "k", &e);
	if (!s)
		fail_msg("%s", e.msg);
	return s;
}

static void test_round_trip(void **state)
{
	struct err e;
	struct stat st;
	(void)state;
	struct seal *s = must_open();
	auto_buf struct buf box = BUF_INIT(4096), again = BUF_INIT(4096);
	auto_secret struct buf out = BUF_INIT(4096);
	seal_lock(s, "name", "value\0x", 7, &box);
	seal_lock(s, "name", "value\0x", 7, &again);
	assert_true(box.n == again.n && memcmp(box.p, again.p, box.n)); // a new nonce each time
	assert_null(memmem(box.p, box.n, "value", 5));
	assert_null(memmem(box.p, box.n, "name", 4));
	seal_close(s);
	s = must_open(); // the same key
	assert_int_equal(seal_unlock(s, "name", box.p, box.n, &out, &e), 0);
	assert_true(out.n == 7 && !memcmp(out.p, "value\0x", 7));
	assert_int_equal(fstatat(dir, "k", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(st.st_size, 32);
	seal_close(s);
}

static void test_an_empty_value(void **state)
{
	struct err e;
	(void)state;
	struct seal *s = must_open();
	auto_buf struct buf box = BUF_INIT(4096);
	auto_secret struct buf out = BUF_INIT(4096);
	seal_lock(s, "n", "", 0, &box);
	assert_int_equal(seal_unlock(s, "n", box.p, box.n, &out, &e), 0);
	assert_int_equal(out.n, 0);
	seal_close(s);
}

static void test_what_does_not_open(void **state)
{
	struct err e = {0};
	(void)state;
	struct seal *s = must_open();
	auto_buf struct buf box = BUF_INIT(4096);
	auto_secret struct buf out = BUF_INIT(4096);
	seal_lock(s, "one", "value", 5, &box);
	assert_int_equal(seal_unlock(s, "two", box.p, box.n, &out, &e), -1); // a row under another name
	assert_int_equal(e.kind, ERR_DENIED);
	assert_int_equal(seal_unlock(s, "on", box.p, box.n, &out, &e), -1);
	assert_int_equal(seal_unlock(s, "one", box.p, box.n - 1, &out, &e), -1);
	assert_int_equal(seal_unlock(s, "one", box.p, 3, &out, &e), -1);
	for (size_t i = 0; i < box.n; i++) {
		box.p[i] ^= 1;
		assert_int_equal(seal_unlock(s, "one", box.p, box.n, &out, &e), -1);
		box.p[i] ^= 1;
	}
	assert_int_equal(out.n, 0);
	seal_close(s);
	assert_int_equal(unlinkat(dir, "k", 0), 0);
	s = must_open(); // another key
	assert_int_equal(seal_unlock(s, "one", box.p, box.n, &out, &e), -1);
	seal_close(s);
}

static void refused(const char *why)
{
	struct err e = {0};
	struct seal *s = seal_open(dir, "k", &e);
	if (s)
		fail_msg("a key that is %s was taken", why);
	assert_true(e.kind == ERR_DENIED || e.kind == ERR_SYSTEM);
}

static void test_keys_that_are_not(void **state)
{
	struct err e;
	char key[33] = {0};
	(void)state;
	seal_close(must_open());
	assert_int_equal(fchmodat(dir, "k", 0640, 0), 0);
	refused("readable by others");
	assert_int_equal(unlinkat(dir, "k", 0), 0);
	assert_int_equal(fs_write(dir, "k", key, 31, 0600, &e), 0);
	refused("too short");
	assert_int_equal(fs_write(dir, "k", key, 33, 0600, &e), 0);
	refused("too long");
	assert_int_equal(renameat(dir, "k", dir, "other"), 0);
	assert_int_equal(symlinkat("other", dir, "k"), 0);
	refused("a link");
}

static void test_a_crash_while_it_was_made(void **state)
{
	struct err e;
	(void)state;
	assert_int_equal(fs_write(dir, "k.new", "half", 4, 0600, &e), 0);
	seal_close(must_open());
	assert_false(fs_exists(dir, "k.new"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_an_empty_value, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_does_not_open, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_keys_that_are_not, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_crash_while_it_was_made, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

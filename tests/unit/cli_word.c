// SPDX-License-Identifier: Apache-2.0
#include "cli/word.h"

#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
// cmocka wants the headers above it
#include <cmocka.h>

// What comes is said before; then its sender is gone, unless it stays.
static bool hear(const char *said, bool stays, uint64_t ms, struct buf *out, char *rest, size_t n_rest)
{
	int pair[2];
	assert_false(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	auto_fd int ours = pair[0], theirs = pair[1];
	assert_int_equal(write(theirs, said, strlen(said)), strlen(said));
	if (!stays)
		close_fd(&theirs);
	bool heard = word_wait(ours, ms, out);
	ssize_t n = n_rest ? read(ours, rest, n_rest - 1) : -1;
	if (n >= 0)
		rest[n] = 0;
	return heard;
}

static void test_ready(void **state)
{
	auto_buf struct buf b = BUF_INIT(64);
	char rest[32];
	(void)state;
	assert_true(hear("RHTTP/1.1 200", true, 10000, &b, rest, sizeof rest));
	assert_string_equal(buf_cstr(&b), "R");
	assert_string_equal(rest, "HTTP/1.1 200"); // is left for who reads on
}

static void test_what_went_wrong(void **state)
{
	auto_buf struct buf b = BUF_INIT(256);
	(void)state;
	assert_true(hear("Estate.db: disk is full\n", false, 10000, &b, NULL, 0));
	assert_string_equal(buf_cstr(&b), "Estate.db: disk is full\n");
}

static void test_more_than_there_is_room_for(void **state)
{
	auto_buf struct buf b = BUF_INIT(100);
	auto_free char *said = xcalloc(1, 301);
	(void)state;
	memset(said, 'E', 300);
	assert_true(hear(said, false, 10000, &b, NULL, 0));
	assert_in_range(b.n, 1, 100);
	assert_int_equal(strlen(buf_cstr(&b)), b.n);
}

static void test_no_word(void **state)
{
	auto_buf struct buf b = BUF_INIT(64);
	(void)state;
	assert_true(hear("", false, 10000, &b, NULL, 0)); // it ended
	assert_int_equal(b.n, 0);
	assert_false(hear("", true, 1, &b, NULL, 0)); // it is silent
	assert_false(hear("E", true, 1, &b, NULL, 0)); // it stopped in the middle
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ready),
		cmocka_unit_test(test_what_went_wrong),
		cmocka_unit_test(test_more_than_there_is_room_for),
		cmocka_unit_test(test_no_word),
	};
	return cmocka_run_group_tests_name("cli/word", tests, NULL, NULL);
}

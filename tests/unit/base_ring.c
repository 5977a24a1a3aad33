// SPDX-License-Identifier: Apache-2.0
#include "base/fs.h"
#include "base/mem.h"
#include "base/ring.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// cmocka wants the four above it
#include <cmocka.h>
#include "dir.h"

// Byte number n of the stream is always the same letter.
static char letter(uint64_t n)
{
	return (char)('a' + n % 23);
}

static void append(struct ring *r, size_t n)
{
	struct err e;
	auto_free char *p = xcalloc(n, 1);
	for (size_t i = 0; i < n; i++)
		p[i] = letter(r->total + i);
	assert_int_equal(ring_append(r, p, n, &e), 0);
}

static void check(struct ring *r)
{
	uint64_t n = ring_first(r);
	char p[7];
	long got;
	while ((got = ring_read(r, n, p, sizeof p)) > 0)
		for (long i = 0; i < got; i++)
			assert_int_equal(p[i], letter(n++));
	assert_int_equal(got, 0);
	assert_int_equal(n, r->total);
}

static void the_end_of_the_stream_is_kept(void **state)
{
	struct ring w, r;
	struct err e;
	uint64_t total = 0;
	assert_int_equal(ring_create(&w, dir_of(state), "out", 100, &e), 0);
	assert_int_equal(ring_open(&r, dir_of(state), "out", &e), 0);
	static const size_t pieces[] = {0, 1, 50, 49, 1, 99, 100, 101, 250, 3, 1000};
	for (size_t i = 0; i < countof(pieces); i++) {
		append(&w, pieces[i]);
		total += pieces[i];
		assert_int_equal(w.total, total);
		assert_int_equal(ring_first(&w), total > 100 ? total - 100 : 0);
		check(&w);
	}
	char c;
	assert_int_equal(ring_read(&w, 0, &c, 1), -1); // gone
	struct ring late;
	assert_int_equal(ring_open(&late, dir_of(state), "out", &e), 0);
	assert_int_equal(late.total, total);
	check(&late);
	ring_close(&late);
	ring_close(&r);
	ring_close(&w);
	ring_close(&w);
}

static void a_reader_sees_what_was_there_when_it_opened(void **state)
{
	struct ring w, r;
	struct err e;
	char c;
	assert_int_equal(ring_create(&w, dir_of(state), "out", 1000, &e), 0);
	assert_int_equal(ring_open(&r, dir_of(state), "out", &e), 0);
	assert_int_equal(ring_read(&r, 0, &c, 1), 0); // none yet
	append(&w, 5);
	ring_close(&r);
	assert_int_equal(ring_open(&r, dir_of(state), "out", &e), 0);
	assert_int_equal(ring_read(&r, 4, &c, 1), 1);
	assert_int_equal(c, letter(4));
	ring_close(&r);
	ring_close(&w);
}

static void what_is_not_a_ring(void **state)
{
	struct ring r;
	struct err e;
	assert_int_equal(ring_open(&r, dir_of(state), "absent", &e), -1);
	assert_int_equal(fs_write(dir_of(state), "short", "skepring", 8, 0600, &e), 0);
	assert_int_equal(ring_open(&r, dir_of(state), "short", &e), -1);
	char zero[4096] = "skepring"; // a cap of 0
	assert_int_equal(fs_write(dir_of(state), "zero", zero, sizeof zero, 0600, &e), 0);
	assert_int_equal(ring_open(&r, dir_of(state), "zero", &e), -1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {T(the_end_of_the_stream_is_kept),
					   T(a_reader_sees_what_was_there_when_it_opened), T(what_is_not_a_ring)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Records of what changes: as written, and damaged anywhere.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/live.h"
#include "base/mem.h"
#include <string.h>

static const struct live_state whole = {.type = 'C', .kind = 'M', .what = 'f', .exec = true, .whole = true, .has_before = true, .before = {1}, .size = 3,
					.path = "a/b", .p = "x\0y", .n = 3};

static void as_written(void **state)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	struct live_state s;
	(void)state;
	live_put_state(&b, &whole);
	struct wire w = {.p = (const uint8_t *)b.p, .n = b.n};
	uint32_t n = wire_get_u32(&w);
	assert_int_equal(b.n, n + LIVE_FRAME);
	assert_int_equal(wire_get_u8(&w), 'C');
	assert_int_equal(live_read_state(w.p, n, &s), 0);
	assert_true(s.kind == 'M' && s.what == 'f' && s.exec && s.whole && s.has_before && !s.has_after && s.before[0] == 1 && s.size == 3);
	assert_string_equal(s.path, "a/b");
	assert_int_equal(s.n, 3);
	assert_memory_equal(s.p, "x\0y", 3);
}

static void damaged_anywhere(void **state)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	struct live_state s;
	int read = 0;
	(void)state;
	live_put_state(&b, &whole);
	size_t n = b.n - LIVE_FRAME;
	for (size_t cut = 0; cut < n; cut++) {
		auto_free char *copy = xcalloc(1, cut + 1);
		memcpy(copy, b.p + 5, cut);
		read += !live_read_state(copy, cut, &s);
	}
	assert_int_equal(read, 4); // only behind the path
	for (size_t i = 0; i < n; i++)
		for (int v = 0; v < 256; v += 15) {
			auto_free char *copy = xcalloc(1, n);
			memcpy(copy, b.p + 5, n);
			copy[i] = (char)v;
			if (!live_read_state(copy, n, &s)) {
				assert_true(s.path >= copy && s.path + strlen(s.path) < copy + n);
				assert_true(!s.n || (s.p >= copy && s.p + s.n <= copy + n));
			}
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(as_written), cmocka_unit_test(damaged_anywhere)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

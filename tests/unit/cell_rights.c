// SPDX-License-Identifier: Apache-2.0
// What is read of /proc/PID/status, and the way it goes to pid 1.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cell/rights.h"
#include "isolate/userns.h"

#define HEAD "Name:\tx\nUid:\t1\t2\t3\t1004\nGid:\t5\t6\t7\t1008\n"

static void test_parse(void **state)
{
	struct rights r;
	(void)state;
	assert_int_equal(rights_parse(HEAD "Groups:\t4 24 1000 \nCapPrm:\tffff\nCapEff:\t00000000000001fb\n", &r), 0);
	assert_int_equal(r.uid, 1004);
	assert_int_equal(r.gid, 1008);
	assert_int_equal(r.n_groups, 3);
	assert_int_equal(r.groups[1], 24);
	assert_int_equal(r.caps, 0x1fb);
	assert_int_equal(rights_parse(HEAD "Groups:\t \nCapEff:\t0\n", &r), 0);
	assert_int_equal(r.n_groups, 0);
}

// What is not all there is not taken for less.
static void test_refused(void **state)
{
	struct rights r;
	auto_buf struct buf many = BUF_INIT(4096);
	(void)state;
	buf_str(&many, HEAD "CapEff:\t0\nGroups:\t");
	for (int i = 0; i < 65; i++)
		buf_str(&many, "7 ");
	assert_int_equal(rights_parse(buf_cstr(&many), &r), -1);
	assert_int_equal(rights_parse(HEAD "CapEff:\t0\n", &r), -1);
	assert_int_equal(rights_parse(HEAD "Groups:\t\n", &r), -1);
	assert_int_equal(rights_parse(HEAD "Groups:\tx\nCapEff:\t0\n", &r), -1);
	assert_int_equal(rights_parse(HEAD "Groups:\t\nCapEff:\t0x1\n", &r), -1);
	assert_int_equal(rights_parse("Uid:\t1\t2\t3\nGid:\t1\t1\t1\t1\nGroups:\t\nCapEff:\t0\n", &r), -1);
	assert_int_equal(rights_parse("", &r), -1);
}

static void test_wire(void **state)
{
	struct rights in = {.uid = 1, .gid = 2, .n_groups = 2, .groups = {3, 4}, .caps = 1ULL << 40}, out;
	auto_buf struct buf b = BUF_INIT(4096);
	(void)state;
	rights_write(&b, &in);
	struct wire w = {.p = (uint8_t *)b.p, .n = b.n};
	assert_int_equal(rights_read(&w, &out), 0);
	assert_memory_equal(&in, &out, sizeof in);
	w = (struct wire){.p = (uint8_t *)b.p, .n = b.n - 1};
	assert_int_equal(rights_read(&w, &out), -1);
	b.p[16] = 65; // groups
	w = (struct wire){.p = (uint8_t *)b.p, .n = b.n};
	assert_int_equal(rights_read(&w, &out), -1);
}

static void test_numbers_inside(void **state)
{
	struct userns_host root = {.root = true}, user = {.count = 100};
	uint32_t id = 5000 + 7;
	(void)state;
	assert_int_equal(userns_inside(&root, 5000, &id), 0);
	assert_int_equal(id, 7);
	assert_int_equal(userns_inside(&root, 5000, &id), -1);
	id = 5000 + 65536;
	assert_int_equal(userns_inside(&root, 5000, &id), -1);
	id = 100;
	assert_int_equal(userns_inside(&user, 5000, &id), 0);
	assert_int_equal(id, 100);
	id = 101;
	assert_int_equal(userns_inside(&user, 5000, &id), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_wire),
		cmocka_unit_test(test_numbers_inside),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

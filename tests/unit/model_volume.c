// SPDX-License-Identifier: Apache-2.0
#include "model/volume.h"

#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void names(void **state)
{
	static const char *const good[] = {"a", "Data_1", "x-y", "0", "vol", "_", NULL};
	static const char *const bad[] = {"", "-a", "a/b", "a b", "..", "a.b", "v0123456789abcde", "\xc3\xa9", "a:b", NULL};
	(void)state;
	for (const char *const *s = good; *s; s++)
		if (!volume_name_is(*s))
			fail_msg("%s", *s);
	for (const char *const *s = bad; *s; s++)
		if (volume_name_is(*s))
			fail_msg("%s", *s);
	char longest[VOLUME_NAME_MAX + 2];
	memset(longest, 'a', sizeof longest);
	longest[VOLUME_NAME_MAX + 1] = 0;
	assert_false(volume_name_is(longest));
	longest[VOLUME_NAME_MAX] = 0;
	assert_true(volume_name_is(longest));
}

static void paths(void **state)
{
	static const struct {
		const char *path, *clean;
	} rows[] = {
		{"/", ""},	    {"", ""},		{"/a/b", "a/b"}, {"a//b/", "a/b"}, {"./a/./b", "a/b"}, {"/..", NULL},
		{"/a/../b", NULL}, {"/a/..b", "a/..b"}, {"...", "..."},  {"a\nb", "a\nb"},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		auto_free char *clean = volume_path_clean(rows[i].path);
		if (!clean != !rows[i].clean || (clean && strcmp(clean, rows[i].clean)))
			fail_msg("%s: %s", rows[i].path, clean ? clean : "refused");
	}
	char longest[6000];
	memset(longest, 'a', sizeof longest - 1);
	longest[sizeof longest - 1] = 0;
	assert_null(volume_path_clean(longest)); // a name of so many bytes
	for (size_t i = 100; i < sizeof longest - 1; i += 100)
		longest[i] = '/';
	assert_null(volume_path_clean(longest)); // as a path
	longest[3900] = 0;
	auto_free char *fits = volume_path_clean(longest);
	assert_non_null(fits);
}

static void wishes(void **state)
{
	static const struct {
		const char *text, *name, *dst;
		bool writable;
	} rows[] = {
		{"v:/data", "v", "/data", true},	 {"v:/data:ro", "v", "/data", false}, {"v:/data:rw", "v", "/data", true}, {"v", NULL, NULL, false},
		{"v:data", NULL, NULL, false},		 {"v:/a:rx", NULL, NULL, false},	  {"v:/a:ro:x", NULL, NULL, false},    {":/a", NULL, NULL, false},
		{"v:", NULL, NULL, false},		 {"/etc:/a", NULL, NULL, false},	  {"./x:/a", NULL, NULL, false},	   {"", NULL, NULL, false},
		{"v0123456789abcde:/a", "v0123456789abcde", "/a", true},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		struct err e;
		struct volume_wish w = {0};
		int rc = volume_wish_parse(rows[i].text, &w, &e);
		if (!rc != !!rows[i].name)
			fail_msg("%s", rows[i].text);
		if (!rc) {
			assert_string_equal(w.name, rows[i].name);
			assert_string_equal(w.dst, rows[i].dst);
			assert_int_equal(w.writable, rows[i].writable);
		}
		volume_wish_done(&w);
	}
}

static int round_trip(const struct volume_op *op, struct volume_op *out)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(8192);
	volume_op_write(&b, op);
	struct wire w = {.p = (const uint8_t *)b.p, .n = b.n};
	return volume_op_read(&w, out, &e);
}

static void requests(void **state)
{
	char path[] = "/a/b/", above[] = "a/../b";
	struct volume_op op = {.verb = VOLUME_PUT, .volume = "v0123456789abcde", .path = path, .depth = 3, .uid = 1, .gid = 2, .mode = 0600, .force = true}, got;
	(void)state;
	assert_int_equal(round_trip(&op, &got), 0);
	assert_string_equal(got.path, "a/b");
	assert_int_equal(got.uid + got.gid + got.mode + got.force + got.depth, 1 + 2 + 0600 + 1 + 3);
	volume_op_done(&got);
	op.path = above;
	assert_int_equal(round_trip(&op, &got), -1);
	op.path = path;
	op.depth = VOLUME_DEPTH_MAX + 1;
	assert_int_equal(round_trip(&op, &got), -1);
	op.depth = 1;
	op.verb = VOLUME_VERBS;
	assert_int_equal(round_trip(&op, &got), -1);
	op.verb = VOLUME_STAT;
	for (const char *const *id = (const char *const[]){"", "../x", "l0123456789abcde", "v", NULL}; *id; id++) {
		memset(op.volume, 0, sizeof op.volume);
		memcpy(op.volume, *id, strlen(*id));
		assert_int_equal(round_trip(&op, &got), -1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(paths),
		cmocka_unit_test(wishes),
		cmocka_unit_test(requests),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

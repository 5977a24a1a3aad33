// SPDX-License-Identifier: Apache-2.0
// The report is complete, well formed, true where the test can know, and leaves nothing behind.
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "isolate/landlock.h"
#include "isolate/probe.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static char home[64];

static int setup(void **state)
{
	(void)state;
	return fmt_to(home, sizeof home, "/tmp/skep-probe-XXXXXX") || !mkdtemp(home);
}

static int teardown(void **state)
{
	struct err e;
	(void)state;
	return fs_remove_tree(AT_FDCWD, home, &e);
}

static json_t *run(const char *where)
{
	auto_buf struct buf b = BUF_INIT(64u << 10);
	struct err e = {0};
	assert_int_equal(probe_run(where, &b, &e), 0);
	json_t *j = json_read(buf_cstr(&b), b.n, &e);
	assert_non_null(j);
	return j;
}

static const json_t *find(const json_t *report, const char *name)
{
	const json_t *list = json_object_get(report, "checks"), *row;
	size_t i;
	json_array_foreach(list, i, row)
	{
		if (!strcmp(json_str(row, "name"), name))
			return row;
	}
	fail_msg("no check %s", name);
	return NULL;
}

static int count_entries(const char *path)
{
	int n = 0;
	DIR *d = opendir(path);
	assert_non_null(d);
	for (struct dirent *de; (de = readdir(d));)
		n += de->d_name[0] != '.';
	closedir(d);
	return n;
}

static void test_report(void **state)
{
	(void)state;
	auto_json json_t *j = run(home);
	static const char *const names[] = {"kernel", "userns", "apparmor", "overlay", "proc",  "seccomp",
					    "landlock", "cgroup", "subids",   "idmap",   "container", "disk"};
	for (size_t i = 0; i < countof(names); i++) {
		const json_t *row = find(j, names[i]);
		const char *s = json_str(row, "state");
		assert_true(!strcmp(s, "ok") || !strcmp(s, "gap") || !strcmp(s, "absent"));
		assert_true(*json_str(row, "detail"));
	}
	const json_t *force = json_object_get(j, "in_force");
	int abi = landlock_abi();
	assert_int_equal(json_u64(force, "landlock"), abi < LANDLOCK_MIN ? 0 : abi);
	assert_true(json_u64(force, "seccomp_allowed") > 200);
	if (!geteuid())
		assert_string_equal(json_str(force, "userns"), "own range");
	assert_int_equal(count_entries(home), 0);
}

static void test_no_home(void **state)
{
	(void)state;
	auto_json json_t *j = run("/proc/skep-can-not-be-here");
	assert_string_equal(json_str(find(j, "overlay"), "state"), "absent");
	assert_string_equal(json_str(find(j, "disk"), "state"), "absent");
	assert_true(*json_str(find(j, "disk"), "fix"));
}

static void test_too_small(void **state)
{
	auto_buf struct buf b = BUF_INIT(100);
	struct err e = {0};
	(void)state;
	assert_int_equal(probe_run(home, &b, &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
	assert_int_equal(count_entries(home), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_report),
		cmocka_unit_test(test_no_home),
		cmocka_unit_test(test_too_small),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

// SPDX-License-Identifier: Apache-2.0
// Which sandbox an omitted ID means.
#include "base/json.h"
#include "base/mem.h"
#include "cli/api.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the headers above it
#include <cmocka.h>

static void picks(const char *boxes, const char *cwd, const char *want)
{
	struct err e;
	auto_json json_t *j = json_read(boxes, strlen(boxes), &e);
	assert_non_null(j);
	const char *id = api_pick(j, cwd, false);
	if (want)
		assert_string_equal(id, want);
	else
		assert_null(id);
}

static void test_pick(void **state)
{
	(void)state;
	picks("[]", "/p", NULL);
	picks("[{\"id\":\"a\",\"repo\":\"/p\",\"pending\":0},{\"id\":\"b\",\"repo\":\"/p\",\"pending\":2}]", "/p", "b");
	picks("[{\"id\":\"a\",\"repo\":\"/p\",\"pending\":1},{\"id\":\"b\",\"repo\":\"/p\",\"pending\":2}]", "/p/sub", "a");
	// it runs: what is pending is not known, and may be something
	picks("[{\"id\":\"a\",\"repo\":\"/p\",\"pending\":null},{\"id\":\"b\",\"repo\":\"/p\",\"pending\":2}]", "/p", "a");
	picks("[{\"id\":\"a\",\"repo\":\"/pq\",\"pending\":1},{\"id\":\"b\",\"repo\":null,\"pending\":1}]", "/p", NULL);
	picks("[{\"id\":\"a\",\"repo\":\"/p/sub\",\"pending\":1}]", "/p", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_pick)};
	return cmocka_run_group_tests_name("cli/api", tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
#include "api/code.h"

#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static enum err_kind try_create(const char *text)
{
	struct create c = {0};
	struct err e = {0};
	auto_json json_t *o = json_read(text, strlen(text), &e);
	assert_non_null(o);
	int rc = decode_create(o, &c, &e);
	create_done(&c);
	return rc ? e.kind : ERR_NONE;
}

static void refuses(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		enum err_kind kind;
	} rows[] = {
		{"{\"bogus\":1}", ERR_INVALID},
		{"{\"name\":1}", ERR_INVALID},
		{"{\"name\":\"\"}", ERR_INVALID},
		{"{\"exec\":{\"argv\":[\"a\"],\"user\":\"\"}}", ERR_INVALID},
		{"{\"caller_path\":\"\"}", ERR_NONE},
		{"{\"profile\":\"admin\"}", ERR_INVALID},
		{"{\"min_isolation\":\"weak\"}", ERR_INVALID},
		{"{\"limits\":{\"memory\":-1}}", ERR_INVALID},
		{"{\"limits\":{\"ram\":1}}", ERR_INVALID},
		{"{\"umask\":512}", ERR_INVALID},
		{"{\"ttl_ms\":400000000000}", ERR_INVALID},
		{"{\"labels\":{\"a\":1}}", ERR_INVALID},
		{"{\"labels\":{\"a=b\":\"c\"}}", ERR_INVALID},
		{"{\"mounts\":[{\"dst\":\"/x\"}]}", ERR_INVALID},
		{"{\"exec\":{}}", ERR_INVALID},
		{"{\"exec\":{\"argv\":[]}}", ERR_INVALID},
		{"{\"exec\":{\"argv\":[\"\"]}}", ERR_INVALID},
		{"{\"exec\":{\"argv\":[\"a\"],\"x\":1}}", ERR_INVALID},
		{"{\"exec\":{\"argv_b64\":[\"AA==\"]}}", ERR_INVALID}, // a NUL
		{"{\"exec\":{\"argv_b64\":[\"!\"]}}", ERR_INVALID},
		{"{\"net\":7}", ERR_INVALID},
		{"{\"allow\":\"a.test\"}", ERR_INVALID},
		{"{\"secrets\":[1]}", ERR_INVALID},
		{"{\"remove\":[]}", ERR_INVALID}, // only where there is something to remove
		{"{\"net\":\"open\",\"allow\":[\"a.test\"],\"secrets\":[\"A\"],\"ask\":true}", ERR_NONE},
		{"{\"context\":\"k\"}", ERR_NONE},
		{"{\"context\":\"\"}", ERR_INVALID},
		{"{\"on_expiry\":\"explode\"}", ERR_INVALID},
		{"{\"ttl_ms\":1000,\"on_expiry\":\"delete\",\"pinned\":true}", ERR_NONE},
		{"{\"lease_ms\":1000}", ERR_NONE},
		{"{\"lease_ms\":1000,\"ttl_ms\":1000}", ERR_INVALID},
		{"{\"net\":\"none\"}", ERR_NONE},
		{"{}", ERR_NONE},
	};
	for (size_t i = 0; i < countof(rows); i++)
		if (try_create(rows[i].text) != rows[i].kind)
			fail_msg("%s", rows[i].text);
}

static void reads_a_create(void **state)
{
	(void)state;
	static const char text[] =
		"{\"name\":\"n\",\"cwd\":\"/p\",\"profile\":\"root\",\"trace\":false,\"env\":[\"A=1\"],\"limits\":{\"pids\":9},"
		"\"mounts\":[{\"src\":\"/s\"}],\"labels\":{\"k\":\"v\"},\"run\":true,\"min_isolation\":\"strict\",\"umask\":63,"
		"\"caller_env\":[\"LANG=C\"],\"exec\":{\"argv_b64\":[\"c2g=\",\"/w==\"],\"tty\":true,\"rows\":5,\"timeout_ms\":0}}";
	struct create c = {0};
	struct err e = {0};
	auto_json json_t *o = json_read(text, strlen(text), &e);
	assert_int_equal(decode_create(o, &c, &e), 0);
	assert_string_equal(c.name, "n");
	assert_true(c.profile == PROFILE_ROOT && c.trace_off && c.run && c.strict && c.has_exec && c.umask_bits == 63);
	assert_true(c.limits.pids == 9 && c.limits.memory == LIMITS_DEFAULT.memory);
	assert_true(c.n_mounts == 1 && !strcmp(c.mounts[0].dst, "/s") && !c.mounts[0].writable);
	assert_string_equal(c.labels[0], "k=v");
	assert_string_equal(c.exec.argv[0], "sh");
	assert_string_equal(c.exec.argv[1], "\xff");
	assert_string_equal(c.exec.caller_env[0], "LANG=C"); // from the request around it
	assert_true(c.exec.tty && c.exec.rows == 5 && c.exec.has_timeout && !c.exec.has_umask);
	create_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses),
		cmocka_unit_test(reads_a_create),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

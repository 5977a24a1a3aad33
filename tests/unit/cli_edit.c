// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "cli/edit.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const entry[] = {"mcpServers", "skep", NULL};
#define VALUE "{ \"command\": \"skep\" }"

static void set(const char *before, const char *after)
{
	struct err e;
	auto_buf struct buf t = BUF_INIT(1 << 16);
	buf_str(&t, before);
	assert_int_equal(jsonc_set(&t, entry, VALUE, &e), EDIT_DONE);
	assert_string_equal(buf_cstr(&t), after);
	assert_int_equal(jsonc_set(&t, entry, VALUE, &e), EDIT_SAME);
	assert_string_equal(buf_cstr(&t), after);
	assert_true(jsonc_has(&t, entry));
}

static void puts_in(void **state)
{
	(void)state;
	set("", "{\n  \"mcpServers\": {\n    \"skep\": " VALUE "\n  }\n}\n");
	set("{}", "{\n  \"mcpServers\": {\n    \"skep\": " VALUE "\n  }\n}");
	set("{\n\t\"a\": [1, {\"b\": \"}\"}]\n}\n", "{\n\t\"a\": [1, {\"b\": \"}\"}],\n\t\"mcpServers\": {\n\t\t\"skep\": " VALUE "\n\t}\n}\n");
	set("{ // c, }\n  \"a\": 1, /* , */\n}", "{ // c, }\n  \"a\": 1,\n  \"mcpServers\": {\n    \"skep\": " VALUE "\n  } /* , */\n}");
	set("{\"mcpServers\":{\"x\":{}}}", "{\"mcpServers\":{\"x\":{}, \"skep\": " VALUE "}}");
	set("{\"mcp\\u0053ervers\": {}}", "{\"mcp\\u0053ervers\": {\n  \"skep\": " VALUE "\n}}");
	set("{\"mcpServers\": {\"skep\": 5, \"b\": 1}}", "{\"mcpServers\": {\"skep\": " VALUE ", \"b\": 1}}");
}

static void refuses(void **state)
{
	static const char *const bad[] = {"[]", "x", "{", "{\"mcpServers\": 5}", "{\"a\":1} {}", "{\"mcpServers\": {\"skep\": {}", "\"s\""};
	struct err e;
	(void)state;
	for (size_t i = 0; i < countof(bad); i++) {
		auto_buf struct buf t = BUF_INIT(1 << 16);
		buf_str(&t, bad[i]);
		assert_int_equal(jsonc_set(&t, entry, VALUE, &e), EDIT_FAILED);
		assert_string_equal(buf_cstr(&t), bad[i]);
	}
}

static void takes_out(void **state)
{
	static const char *const cases[][2] = {
		{"{\"mcpServers\": {\"a\": 1, \"skep\": 5}}", "{\"mcpServers\": {\"a\": 1 }}"},
		{"{\"mcpServers\": {\"skep\": 5, \"a\": 1}}", "{\"mcpServers\": { \"a\": 1}}"},
		{"{\n  \"mcpServers\": {\n    \"a\": 1, // mine\n    \"skep\": {\n      \"x\": []\n    }\n  }\n}\n", "{\n  \"mcpServers\": {\n    \"a\": 1 // mine\n  }\n}\n"},
		{"{\n  \"mcpServers\": {\n    \"skep\": 1\n  }\n}\n", "{\n  \"mcpServers\": {\n  }\n}\n"},
	};
	struct err e;
	(void)state;
	for (size_t i = 0; i < countof(cases); i++) {
		auto_buf struct buf t = BUF_INIT(1 << 16);
		buf_str(&t, cases[i][0]);
		assert_int_equal(jsonc_remove(&t, entry, &e), EDIT_DONE);
		assert_string_equal(buf_cstr(&t), cases[i][1]);
		assert_int_equal(jsonc_remove(&t, entry, &e), EDIT_SAME);
		assert_int_equal(jsonc_is_empty(&t), i == 3);
	}
}

static const struct toml_key keys[] = {{"command", "\"skep\""}, {"args", "[\"mcp\"]"}, {0}};
#define TABLE "[mcp_servers.skep]\ncommand = \"skep\"\nargs = [\"mcp\"]\n"

static void toml(void **state)
{
	static const char *const cases[][2] = {
		{"", TABLE},
		{"a = 1\n", "a = 1\n\n" TABLE},
		{"a = 1", "a = 1\n\n" TABLE},
		{"s = \"\"\"\n[mcp_servers.skep]\n\"\"\"\n", "s = \"\"\"\n[mcp_servers.skep]\n\"\"\"\n\n" TABLE},
		{"[ mcp_servers . \"skep\" ]\nenabled = false\ncommand='x'\nargs = [\n \"a\",\n]\n[z]\n",
		 "[ mcp_servers . \"skep\" ]\nenabled = false\ncommand = \"skep\"\nargs = [\"mcp\"]\n[z]\n"},
	};
	struct err e;
	(void)state;
	for (size_t i = 0; i < countof(cases); i++) {
		auto_buf struct buf t = BUF_INIT(1 << 16);
		buf_str(&t, cases[i][0]);
		assert_int_equal(toml_set(&t, "mcp_servers.skep", keys, &e), EDIT_DONE);
		assert_string_equal(buf_cstr(&t), cases[i][1]);
		assert_int_equal(toml_set(&t, "mcp_servers.skep", keys, &e), EDIT_SAME);
	}
}

static void toml_out(void **state)
{
	struct err e;
	auto_buf struct buf t = BUF_INIT(1 << 16), other = BUF_INIT(1 << 16);
	(void)state;
	buf_str(&t, "a = 1\n\n" TABLE "[mcp_servers.skep.env]\nX = \"1\"\n\n[mcp_servers.skeptic]\ncommand = \"y\"\n");
	assert_int_equal(toml_remove(&t, "mcp_servers.skep", &e), EDIT_DONE);
	assert_string_equal(buf_cstr(&t), "a = 1\n\n[mcp_servers.skeptic]\ncommand = \"y\"\n");
	assert_int_equal(toml_remove(&t, "mcp_servers.skep", &e), EDIT_SAME);
	static const char *const forms[] = {"mcp_servers = { skep = {} }\n", "mcp_servers.skep = {}\n", "[mcp_servers]\nskep = {}\n"};
	for (size_t i = 0; i < countof(forms); i++) {
		buf_clear(&other);
		buf_str(&other, forms[i]);
		assert_int_equal(toml_set(&other, "mcp_servers.skep", keys, &e), EDIT_FAILED);
		assert_int_equal(e.kind, ERR_CONFLICT);
		assert_string_equal(buf_cstr(&other), forms[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(puts_in), cmocka_unit_test(refuses), cmocka_unit_test(takes_out), cmocka_unit_test(toml), cmocka_unit_test(toml_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Text for terminals, numbers for people, and the JSON that requests are made of.
#include "base/json.h"
#include "base/mem.h"
#include "cli/out.h"
#include "cli/request.h"
#include <stdlib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the headers above it
#include <cmocka.h>

static void test_text(void **state)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{"plain name.c", "plain name.c"},
		{"h\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x90\x9d", "h\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x90\x9d"},
		{"\x1b[31mred\x07\r\n\t\x7f", "\\x1b[31mred\\x07\\x0d\\n\\t\\x7f"},
		{"c1 \xc2\x9b", "c1 \\x9b"},
		{"bidi \xe2\x80\xae", "bidi \\u{202e}"},
		{"zero \xe2\x80\x8b width", "zero \\u{200b} width"},
		{"tag \xf3\xa0\x80\xa1", "tag \\u{e0021}"},
		{"filler \u3164\u115f", "filler \\u{3164}\\u{115f}"},
		{"variants a\ufe01\ufe0e \u2764\ufe0f", "variants a\\u{fe01}\\u{fe0e} \u2764\ufe0f"},
		{"raw \xff\xc3", "raw \\xff\\xc3"},
		{"over \xc0\xaf", "over \\xc0\\xaf"},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		auto_buf struct buf b = BUF_INIT(1024);
		out_text(&b, rows[i].in);
		assert_string_equal(buf_cstr(&b), rows[i].out);
	}
}

static void size_is(uint64_t v, const char *text)
{
	auto_buf struct buf b = BUF_INIT(64);
	out_size(&b, v);
	assert_string_equal(buf_cstr(&b), text);
}

static void age_is(uint64_t ms, const char *text)
{
	auto_buf struct buf b = BUF_INIT(64);
	out_age(&b, ms);
	assert_string_equal(buf_cstr(&b), text);
}

static void cpus_are(uint64_t milli, const char *text)
{
	auto_buf struct buf b = BUF_INIT(64);
	out_cpus(&b, milli);
	assert_string_equal(buf_cstr(&b), text);
}

static void test_numbers(void **state)
{
	uint64_t ms;
	(void)state;
	size_is(0, "0 B");
	size_is(1023, "1023 B");
	size_is(1536, "1.5 KiB");
	size_is(4ULL << 30, "4 GiB");
	size_is(UINT64_MAX, "15.9 EiB");
	cpus_are(0, "cpus not limited");
	cpus_are(1500, "cpus 1.5");
	cpus_are(2000, "cpus 2");
	cpus_are(10, "cpus 0.01");
	age_is(999, "0s");
	age_is(99000, "99s");
	age_is(100000, "1m");
	age_is(3 * 3600000, "3h");
	age_is(72 * 3600000ULL, "3d");
	assert_int_equal(out_iso_ms("1970-01-01T00:00:00.000Z", &ms), 0);
	assert_int_equal(ms, 0);
	assert_int_equal(out_iso_ms("2024-02-29T12:34:56.789Z", &ms), 0);
	assert_int_equal(ms, 1709210096789ULL);
	assert_int_equal(out_iso_ms("2000-03-01T00:00:00Z", &ms), 0);
	assert_int_equal(ms, 951868800000ULL);
	assert_int_equal(out_iso_ms("yesterday", &ms), -1);
	assert_int_equal(out_iso_ms("2024-13-29T12:34:56.789Z", &ms), -1);
}

// Two rows of three columns, in a terminal of so many.
static void narrow(uint32_t room, const char *want)
{
	struct table t = {.n_cols = 3, .room = room, .spare = "1"};
	auto_buf struct buf b = BUF_INIT(1000);
	static const char *const cells[] = {"ID", "AGE", "WORKSPACE", "one", "3m", "/h\xc3\xb6me/somebody/project"};
	for (size_t i = 0; i < countof(cells); i++)
		table_add(&t, cells[i]);
	table_print(&t, &b);
	assert_string_equal(buf_cstr(&b), want);
}

static void test_narrow_table(void **state)
{
	(void)state;
	narrow(0, "ID   AGE  WORKSPACE\none  3m   /h\xc3\xb6me/somebody/project\n");
	narrow(32, "ID   AGE  WORKSPACE\none  3m   /h\xc3\xb6me/somebody/project\n");
	narrow(31, "ID   WORKSPACE\none  /h\xc3\xb6me/somebody/project\n");
	narrow(25, "ID   WORKSPACE\none  \xe2\x80\xa6me/somebody/project\n");
	narrow(1, "ID   WORKSPACE\none  \xe2\x80\xa6ody/project\n");
}

static void test_table(void **state)
{
	struct table t = {.n_cols = 2};
	auto_buf struct buf b = BUF_INIT(1024);
	(void)state;
	table_add(&t, "A");
	table_add(&t, "B");
	table_add(&t, "h\xc3\xa9llo");
	table_add_u64(&t, 7);
	table_add(&t, "");
	table_add(&t, "\x1b");
	table_print(&t, &b);
	assert_string_equal(buf_cstr(&b), "A      B\nh\xc3\xa9llo  7\n       \\x1b\n");
}

static void base64_is(const char *in, const char *out)
{
	auto_buf struct buf b = BUF_INIT(64);
	request_base64(&b, in, strlen(in));
	assert_string_equal(buf_cstr(&b), out);
}

static void test_base64(void **state)
{
	(void)state;
	base64_is("", "\"\"");
	base64_is("f", "\"Zg==\"");
	base64_is("fo", "\"Zm8=\"");
	base64_is("foo\xff", "\"Zm9v/w==\"");
}

#define UNSET                                                                                               \
	.cpus = OPT_UNSET, .memory = OPT_UNSET, .disk = OPT_UNSET, .pids = OPT_UNSET, .timeout = OPT_UNSET, \
	.ttl = OPT_UNSET, .idle = OPT_UNSET

static void test_create(void **state)
{
	struct err e;
	char mount[] = "/tmp:/data:rw", label[] = "k=v=w", env[] = "A=b c", cmd[] = "make", bad[] = "caf\xe9";
	char *mounts[] = {mount, NULL}, *labels[] = {label, NULL}, *envs[] = {env, NULL}, *argv[] = {cmd, bad, NULL};
	struct create_opts o = {
		UNSET, .name = "n", .root = true, .no_trace = true, .mounts = mounts, .labels = labels, .env = envs};
	struct exec_request x = {.argv = argv, .want_stdin = true, .timeout = 500};
	auto_buf struct buf b = BUF_INIT(1 << 20);
	(void)state;
	o.memory = 0; // asked for: not limited
	assert_int_equal(request_check(&o, &e), 0);
	assert_int_equal(request_create(&b, &o, &x, false, &e), 0);
	auto_json json_t *j = json_read(b.p, b.n, &e);
	assert_non_null(j);
	assert_string_equal(json_str(j, "profile"), "root");
	assert_true(json_is_false(json_object_get(j, "trace")) && json_is_true(json_object_get(j, "run")));
	assert_string_equal(json_str(json_object_get(j, "labels"), "k"), "v=w");
	assert_true(json_is_integer(json_object_get(json_object_get(j, "limits"), "memory")));
	assert_null(json_object_get(json_object_get(j, "limits"), "pids"));
	const json_t *m = json_array_get(json_object_get(j, "mounts"), 0), *ex = json_object_get(j, "exec");
	assert_string_equal(json_str(m, "dst"), "/data");
	assert_true(json_is_true(json_object_get(m, "writable")));
	assert_null(json_object_get(ex, "argv"));
	assert_string_equal(json_string_value(json_array_get(json_object_get(ex, "argv_b64"), 1)), "Y2Fm6Q==");
	assert_int_equal(json_u64(ex, "timeout_ms"), 500);
}

static void refused(struct create_opts o)
{
	struct err e;
	assert_int_equal(request_check(&o, &e), -1);
	assert_int_equal(e.kind, ERR_INVALID);
}

static void test_create_refused(void **state)
{
	struct err e;
	char no_value[] = "SKEP_TEST_NOT_SET", no_name[] = "=x", raw[] = "A=\xff", gone[] = "/no/such/dir",
	     rel[] = "/tmp:rel";
	auto_buf struct buf b = BUF_INIT(1 << 20);
	(void)state;
	refused((struct create_opts){UNSET, .env = (char *[]){no_value, NULL}});
	refused((struct create_opts){UNSET, .env = (char *[]){no_name, NULL}});
	refused((struct create_opts){UNSET, .env = (char *[]){raw, NULL}});
	refused((struct create_opts){UNSET, .labels = (char *[]){no_name, NULL}});
	refused((struct create_opts){UNSET, .workspace_path = "rel"});
	refused((struct create_opts){UNSET, .empty = true, .repo = "/tmp"});
	struct create_opts o = {UNSET, .mounts = (char *[]){gone, NULL}};
	assert_int_equal(request_create(&b, &o, NULL, false, &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	o = (struct create_opts){UNSET, .repo = gone};
	assert_int_equal(request_create(&b, &o, NULL, false, &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	o = (struct create_opts){UNSET, .mounts = (char *[]){rel, NULL}};
	assert_int_equal(request_create(&b, &o, NULL, false, &e), -1);
}

static void repo_is_sent_as(const char *given, const char *sent)
{
	struct err e;
	struct create_opts o = {UNSET, .repo = given};
	auto_buf struct buf b = BUF_INIT(1 << 20);
	assert_int_equal(request_create(&b, &o, NULL, false, &e), 0);
	auto_json json_t *j = json_read(b.p, b.n, &e);
	assert_string_equal(json_str(j, "repo"), sent);
}

// Whether a URL can be used is for skepd to say.
static void test_repo(void **state)
{
	(void)state;
	repo_is_sent_as("/tmp/.", "/tmp");
	repo_is_sent_as("https://example.org/a.git", "https://example.org/a.git");
	repo_is_sent_as("git@example.org:a/b.git", "git@example.org:a/b.git");
}

static void test_exit_codes(void **state)
{
	static const int codes[] = {0, 2, 3, 4, 5, 6, 7, 8, 9, 1, 1};
	(void)state;
	for (int k = 0; k < ERR_KINDS; k++)
		assert_int_equal(out_exit_of(k), codes[k]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),	   cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_table), cmocka_unit_test(test_narrow_table),	   cmocka_unit_test(test_base64),
		cmocka_unit_test(test_create),	   cmocka_unit_test(test_create_refused),
		cmocka_unit_test(test_repo),
		cmocka_unit_test(test_exit_codes),
	};
	return cmocka_run_group_tests_name("cli/out", tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Addresses and ranges: every one has one text or none (T-043), and what it is depends on all of it.
#include "base/mem.h"
#include "base/str.h"
#include "model/range.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static struct range get(const char *s)
{
	struct range r;
	struct err e = {0};
	if (range_parse(s, strlen(s), &r, &e))
		fail_msg("refused: %s: %s", s, e.msg);
	return r;
}

static void same(const char *s, const char *want)
{
	auto_buf struct buf b = BUF_INIT(RANGE_TEXT);
	struct range r = get(s);
	range_print(&b, &r);
	assert_string_equal(buf_cstr(&b), want);
}

static void one_text(void **state)
{
	(void)state;
	same("1.2.3.4", "1.2.3.4");
	same("1.2.3.4/32", "1.2.3.4");
	same("1.2.3.0/24", "1.2.3.0/24");
	same("0.0.0.0/0", "0.0.0.0/0");
	same("128.0.0.0/1", "128.0.0.0/1");
	same("2001:DB8:0::/32", "2001:db8::/32");
	same("2001:db8::1/128", "2001:db8::1");
	same("::/0", "::/0");
	same("fc00::/7", "fc00::/7");
}

static void what_is_no_range(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"",	      "1.2.3",	     "1.2.3.4.5",  "01.2.3.4",	   "1.2.3.4/",	     "1.2.3.4/33", "1.2.3.4/-1",
		"1.2.3.4/08", "1.2.3.4/24",  "10.1.2.3/8", "1.2.3.0/24/1", "0x7f000001",     "2130706433", "127.1",
		"1.2.3.4 ",   " 1.2.3.4",    "::1%lo",	   "fe80::1%1",	   "::ffff:1.2.3.4", "2001:db8::1/32",
		"::1/129",    "[2001:db8::]", "1.2.3.4:80", "a.test",	   "2001:db8",	     ":",	   "/24",
	};
	for (size_t i = 0; i < countof(bad); i++) {
		struct range r;
		struct err e = {0};
		if (!range_parse(bad[i], strlen(bad[i]), &r, &e))
			fail_msg("taken: %s", bad[i]);
		assert_int_equal(e.kind, ERR_INVALID);
	}
	struct range r;
	struct err e;
	assert_int_equal(range_parse("1.2.3.4\0", 8, &r, &e), -1);
	assert_int_equal(range_parse("10.1.2.3/8", 10, &r, &e), -1);
	assert_non_null(strstr(e.msg, "10.0.0.0/8")); // says both things that it could mean
}

static void splits(const char *s, const char *range, const char *port)
{
	auto_buf struct buf b = BUF_INIT(RANGE_TEXT);
	struct range r;
	struct str text;
	struct err e = {0};
	int rc = range_split(s, strlen(s), &r, &text, &e);
	if (!range) {
		assert_int_equal(rc, -1);
		return;
	}
	if (rc)
		fail_msg("refused: %s: %s", s, e.msg);
	range_print(&b, &r);
	assert_string_equal(buf_cstr(&b), range);
	assert_true(port ? str_is(text, port) : !text.p);
}

static void with_a_port(void **state)
{
	(void)state;
	splits("1.2.3.4", "1.2.3.4", NULL);
	splits("1.2.3.4:80", "1.2.3.4", "80");
	splits("1.2.3.0/24:*", "1.2.3.0/24", "*");
	splits("1.2.3.4:", "1.2.3.4", "");
	splits("2001:db8::/32", "2001:db8::/32", NULL);
	splits("[2001:db8::/32]", "2001:db8::/32", NULL);
	splits("[2001:db8::1]:443", "2001:db8::1", "443");
	splits("[2001:db8::1", NULL, NULL);
	splits("[2001:db8::1]443", NULL, NULL);
	splits("[1.2.3.4]:80", NULL, NULL);
	splits("[]:80", NULL, NULL);
	splits("", NULL, NULL);
	splits("a.test:80", NULL, NULL);
}

static void inside(void **state)
{
	static const char *const pairs[][2] = {{"10.0.0.0/8", "10.255.0.1"}, {"0.0.0.0/0", "255.1.2.3"}, {"1.2.3.0/25", "1.2.3.127"},
					       {"2001:db8::/33", "2001:db8:7fff::1"}, {"1.2.3.4", "1.2.3.4"}, {"10.0.0.0/8", "10.1.0.0/16"}};
	static const char *const apart[][2] = {{"10.0.0.0/8", "11.0.0.0"}, {"1.2.3.0/25", "1.2.3.128"}, {"0.0.0.0/0", "::1"},
					       {"::/0", "1.2.3.4"}, {"10.1.0.0/16", "10.0.0.0/8"}, {"2001:db8::/33", "2001:db8:8000::"}};
	(void)state;
	for (size_t i = 0; i < countof(pairs); i++) {
		struct range r = get(pairs[i][0]), a = get(pairs[i][1]);
		assert_true(range_has(&r, &a));
	}
	for (size_t i = 0; i < countof(apart); i++) {
		struct range r = get(apart[i][0]), a = get(apart[i][1]);
		assert_false(range_has(&r, &a));
	}
	struct range none = {0}, a = get("0.0.0.0");
	assert_false(range_has(&none, &a) || range_has(&none, &none));
}

static void is_kind(const char *s, const char *want)
{
	struct range r = get(s);
	const char *kind = range_kind(&r);
	if (want ? !kind || strcmp(kind, want) : kind != NULL)
		fail_msg("%s is %s", s, kind ? kind : "anybody's");
}

static void kinds(void **state)
{
	(void)state;
	is_kind("8.8.8.8", NULL);
	is_kind("0.0.0.0/0", NULL);
	is_kind("8.0.0.0/5", NULL); // has 10/8 in it, and more
	is_kind("10.0.0.0/7", NULL);
	is_kind("10.0.0.0/8", "private");
	is_kind("10.1.0.0/16", "private");
	is_kind("169.254.0.0/16", "link-local");
	is_kind("169.254.169.254", "metadata");
	is_kind("100.100.100.200", "metadata");
	is_kind("127.0.0.0/9", "loopback");
	is_kind("::/0", NULL);
	is_kind("2000::/3", NULL);
	is_kind("2600::/12", NULL);
	is_kind("fd00::/8", "private");
	is_kind("fd00:ec2::254", "metadata");
	is_kind("64:ff9b::808:808", NULL);	// NAT64 of 8.8.8.8
	is_kind("64:ff9b::a00:1", "private"); // of 10.0.0.1
	is_kind("64:ff9b::/96", "NAT64");     // never the kind of what it carries
}

static void what_is_carried(void **state)
{
	static const struct {
		const char *address, *inner;
	} cases[] = {
		{"64:ff9b::808:808", "8.8.8.8"},   {"2002:808:808::1", "8.8.8.8"}, {"2600::5efe:808:808", "8.8.8.8"},
		{"2600::200:5efe:a00:1", "10.0.0.1"}, {"2600::1", NULL},		   {"64:ff9b:1::808:808", NULL},
		{"8.8.8.8", NULL},		   {"64:ff9b::/96", NULL},	   {"::808:808", NULL},
	};
	static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, [12] = 8, [13] = 8, [14] = 4, [15] = 4};
	(void)state;
	for (size_t i = 0; i < countof(cases); i++) {
		struct range r = get(cases[i].address), inner = {0}, want = {0};
		if (cases[i].inner)
			want = get(cases[i].inner);
		if (range_carries(&r, &inner) != !!cases[i].inner || memcmp(&inner, &want, sizeof inner))
			fail_msg("%s", cases[i].address);
	}
	struct range a = range_of(6, mapped), b = get("8.8.4.4");
	assert_memory_equal(&a, &b, sizeof a);
}

static void where_a_name_may_stand(void **state)
{
	struct host_name h;
	struct range r = get("2001:db8::1");
	(void)state;
	host_of_range(&r, &h);
	assert_string_equal(h.s, "2001:db8::1");
	assert_true(host_is_address(&h) && range_of_host(&h, &r));
	assert_false(host_is_address(&(struct host_name){"a.test"}) || host_is_address(&(struct host_name){""}));
	assert_false(range_of_host(&(struct host_name){"1.2.3.0/24"}, &r) || range_of_host(&(struct host_name){"1a.test"}, &r));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_text), cmocka_unit_test(what_is_no_range), cmocka_unit_test(with_a_port),
		cmocka_unit_test(inside),   cmocka_unit_test(kinds),		cmocka_unit_test(what_is_carried),
		cmocka_unit_test(where_a_name_may_stand),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

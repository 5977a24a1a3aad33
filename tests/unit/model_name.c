// SPDX-License-Identifier: Apache-2.0
// Names and ports: every spelling has one form or none (T-041, T-042, T-043).
#include "base/mem.h"
#include "base/str.h"
#include "model/name.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static int parse(const char *s, struct host_name *h)
{
	struct err e = {0};
	int rc = host_parse(s, strlen(s), h, &e);
	assert_int_equal(rc ? ERR_INVALID : ERR_NONE, e.kind);
	return rc;
}

static void same(const char *s, const char *want)
{
	struct host_name h;
	if (parse(s, &h))
		fail_msg("refused: %s", s);
	assert_string_equal(h.s, want);
}

static void spellings_of_one_name(void **state)
{
	(void)state;
	same("allowed.test", "allowed.test");
	same("ALLOWED.Test", "allowed.test");
	same("allowed.test.", "allowed.test");
	same("XN--BCHER-KVA.test", "xn--bcher-kva.test");
	same("localhost", "localhost");
	same("a", "a");
	same("_dmarc.x.test", "_dmarc.x.test");
	same("r3---sn-abc.test", "r3---sn-abc.test");
	same("1.2.3.4.test", "1.2.3.4.test");
	same("0xg", "0xg");
	same("1a", "1a");
	same("3com.com", "3com.com");
}

static void refused(const char *s)
{
	struct host_name h = {"untouched"};
	if (!parse(s, &h))
		fail_msg("taken: %s", s);
	assert_string_equal(h.s, "untouched");
}

static void what_is_no_name(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"",
		".",
		"..",
		"a..b",
		".a",
		"a..",
		"-a.test",
		"a-.test",
		"a.-b",
		"a_b.test",
		"a.b_",
		"__a.test",
		" a.test",
		"a.test ",
		"a b.test",
		"a\tb",
		"a\nb",
		"a\rb",
		"a\x01",
		"a\x7f.test",
		"b\xc3\xbc"
		"cher.test",
		"a\xe3\x80\x82test",
		"\xef\xbb\xbf"
		"a.test",
		"\xff",
		"%61.test",
		"a%2etest",
		"a%00.test",
		"user@a.test",
		"a/b",
		"a\\b",
		"a.test/",
		"*.a.test",
		"*",
		"a.test:443",
		"a,b",
		"a;b",
		"a'b",
		"a\"b",
		"a+b",
		"a=b",
		"a?b",
		"a#b",
		"a!b",
		"a$b",
		"a(b)",
		"a<b>",
		"a|b",
		"a^b",
		"a`b",
		"a{b}",
		"a~b",
		"xn--",
	};
	for (size_t i = 0; i < countof(bad); i++)
		refused(bad[i]);
}

static void addresses_are_no_names(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"127.0.0.1",
		"127.0.0.1.",
		"127.1",
		"127.0.1",
		"2130706433",
		"017700000001",
		"0177.0.0.1",
		"0x7f.0.0.1",
		"0x7f000001",
		"0X7F000001",
		"0x7f.1",
		"0x",
		"1.2.3.0x",
		"0",
		"00",
		"08",
		"1.2.3.4.5",
		"256.1.1.1",
		"99999999999999",
		"a.1",
		"a.test.1",
		"169.254.169.254",
		"::1",
		"::",
		"[::1]",
		"[::ffff:127.0.0.1]",
		"::ffff:127.0.0.1",
		"fe80::1%lo",
		"fe80::1%25lo",
		"[::1",
		"::1]",
		"fd00:ec2::254",
	};
	for (size_t i = 0; i < countof(bad); i++)
		refused(bad[i]);
}

static void bytes_with_a_length(void **state)
{
	(void)state;
	struct host_name h;
	struct err e = {0};
	assert_int_equal(host_parse("good.test\0.evil.test", 20, &h, &e), -1);
	assert_non_null(strstr(e.msg, "NUL"));
	assert_int_equal(host_parse("good.test\0", 10, &h, &e), -1);
	assert_int_equal(host_parse("\0", 1, &h, &e), -1);
	assert_int_equal(host_parse("good.test.evil", 9, &h, &e), 0);
	assert_string_equal(h.s, "good.test");
	assert_int_equal(host_parse(NULL, 0, &h, &e), -1);
}

static void labels_and_lengths(void **state)
{
	(void)state;
	char text[300];
	struct host_name h;
	memset(text, 'a', sizeof text);
	text[63] = 0;
	same(text, text);
	text[63] = 'a';
	text[64] = 0;
	refused(text);
	memset(text, 'a', sizeof text);
	for (int i = 63; i < 256; i += 64)
		text[i] = '.';
	text[253] = 0; // 63.63.63.61
	same(text, text);
	text[253] = '.';
	text[254] = 0; // the trailing dot does not count
	assert_int_equal(parse(text, &h), 0);
	text[253] = 'a';
	refused(text);
	memset(text, 'a', sizeof text);
	text[299] = 0;
	refused(text);
}

static void reasons_hold_no_input(void **state)
{
	(void)state;
	struct host_name h;
	struct err e = {0};
	assert_int_equal(host_parse("zq\x1b[31m", 7, &h, &e), -1);
	assert_null(strstr(e.msg, "zq"));
	assert_int_equal(host_parse("b\xc3\xbc.test", 8, &h, &e), -1);
	assert_non_null(strstr(e.msg, "xn--"));
}

static void ports(void **state)
{
	(void)state;
	static const char *const bad[] = {"",	  "0",	   "0443",  "+443",	  "443 ",
					  " 443", "-1",	   "65536", "4294967739", "99999999999999999999",
					  "443a", "0x1bb", "44.3",  "4e2",	  "443\n"};
	struct err e = {0};
	uint16_t port = 7;
	for (size_t i = 0; i < countof(bad); i++)
		if (!port_parse(bad[i], strlen(bad[i]), &port, &e))
			fail_msg("taken: \"%s\"", bad[i]);
	assert_int_equal(port, 7);
	assert_int_equal(port_parse("443\0", 4, &port, &e), -1);
	assert_int_equal(port_parse("1", 1, &port, &e), 0);
	assert_int_equal(port, 1);
	assert_int_equal(port_parse("65535", 5, &port, &e), 0);
	assert_int_equal(port, 65535);
}

static void hosts_with_ports(void **state)
{
	(void)state;
	static const char *const bad[] = {"",
					  ":",
					  ":443",
					  "a.test:",
					  "a.test:0",
					  "a.test:0443",
					  "a.test:443:443",
					  "a.test::443",
					  "[::1]:443",
					  "::1",
					  "127.0.0.1:80",
					  "a.test:443 ",
					  "a.test :443",
					  "a.test:443/x",
					  "[a.test]:443"};
	struct err e = {0};
	struct host_name h = {"untouched"};
	uint16_t port = 9;
	for (size_t i = 0; i < countof(bad); i++)
		if (!host_port_parse(bad[i], strlen(bad[i]), &h, &port, &e))
			fail_msg("taken: \"%s\"", bad[i]);
	assert_string_equal(h.s, "untouched");
	assert_int_equal(port, 9);
	assert_int_equal(host_port_parse("A.test.", 7, &h, &port, &e), 0);
	assert_string_equal(h.s, "a.test");
	assert_int_equal(port, 0);
	assert_int_equal(host_port_parse("A.test.:8443", 12, &h, &port, &e), 0);
	assert_string_equal(h.s, "a.test");
	assert_int_equal(port, 8443);
	assert_int_equal(host_port_parse("[::1]:443", 9, &h, &port, &e), -1);
	assert_non_null(strstr(e.msg, "IPv6"));
}

static bool below(const char *name, const char *zone)
{
	struct host_name h, z;
	assert_int_equal(parse(name, &h), 0);
	assert_int_equal(parse(zone, &z), 0);
	return host_is_below(&h, &z);
}

static void below_means_whole_labels(void **state)
{
	(void)state;
	assert_true(below("a.allowed.test", "allowed.test"));
	assert_true(below("a.b.c.allowed.test", "allowed.test"));
	assert_true(below("A.Allowed.TEST.", "allowed.test."));
	assert_false(below("allowed.test", "allowed.test"));
	assert_false(below("evilallowed.test", "allowed.test"));
	assert_false(below("xallowed.test", "allowed.test"));
	assert_false(below("allowed.test.evil.test", "allowed.test"));
	assert_false(below("test", "allowed.test"));
	struct host_name a = {"a.test"}, b = {"a.test"}, c = {"b.test"}, none = {""};
	assert_true(host_equal(&a, &b));
	assert_false(host_equal(&a, &c));
	assert_false(host_is_below(&a, &none));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spellings_of_one_name),
		cmocka_unit_test(what_is_no_name),
		cmocka_unit_test(addresses_are_no_names),
		cmocka_unit_test(bytes_with_a_length),
		cmocka_unit_test(labels_and_lengths),
		cmocka_unit_test(reasons_hold_no_input),
		cmocka_unit_test(ports),
		cmocka_unit_test(hosts_with_ports),
		cmocka_unit_test(below_means_whole_labels),
	};
	return cmocka_run_group_tests_name("model/name", tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Which addresses are public: the edges of every range, and the IPv6 forms that carry an IPv4 address.
#include "base/mem.h"
#include "gate/addr.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the headers above it
#include <cmocka.h>

static const char *judge(const char *text)
{
	struct err e;
	union addr a;
	if (addr_parse(text, 443, &a, &e))
		fail_msg("not read: %s", text);
	return addr_not_public(&a);
}

static void test_refused(void **state)
{
	static const struct {
		const char *address, *what;
	} cases[] = {
		{"0.0.0.0", "this network"},
		{"0.255.255.255", "this network"},
		{"10.0.0.0", "private"},
		{"10.255.255.255", "private"},
		{"100.64.0.0", "carrier-shared"},
		{"100.127.255.255", "carrier-shared"},
		{"100.100.100.200", "metadata"},
		{"127.0.0.1", "loopback"},
		{"127.255.255.255", "loopback"},
		{"169.254.0.1", "link-local"},
		{"169.254.169.254", "metadata"},
		{"172.16.0.0", "private"},
		{"172.31.255.255", "private"},
		{"192.0.0.8", "reserved"},
		{"192.0.2.1", "documentation"},
		{"192.168.0.0", "private"},
		{"192.168.255.255", "private"},
		{"198.18.0.0", "synthetic"},
		{"198.19.255.255", "synthetic"},
		{"198.51.100.9", "documentation"},
		{"203.0.113.9", "documentation"},
		{"224.0.0.1", "multicast"},
		{"239.255.255.255", "multicast"},
		{"240.0.0.0", "reserved"},
		{"255.255.255.255", "reserved"},
		{"::", "unspecified"},
		{"::1", "loopback"},
		{"::ffff:127.0.0.1", "loopback"},
		{"::ffff:10.1.2.3", "private"},
		{"::ffff:169.254.169.254", "metadata"},
		{"::7f00:1", "compatible"},
		{"::ffff:0:127.0.0.1", "translated"},
		{"64:ff9b::7f00:1", "loopback"},
		{"64:ff9b::a9fe:a9fe", "metadata"},
		{"64:ff9b:1::1", "local NAT64"},
		{"100::1", "discard"},
		{"2001::1", "Teredo"},
		{"2001:db8::1", "documentation"},
		{"2002:7f00:1::", "loopback"},
		{"2002:a00:1::1", "private"},
		{"fc00::1", "private"},
		{"fdff:ffff::1", "private"},
		{"fd00:ec2::254", "metadata"},
		{"fe80::1", "link-local"},
		{"febf::1", "link-local"},
		{"fec0::1", "site-local"},
		{"ff02::1", "multicast"},
		{"4000::1", "reserved"},
		{"2600::5efe:10.0.0.1", "private"},
	};
	(void)state;
	for (size_t i = 0; i < countof(cases); i++) {
		const char *what = judge(cases[i].address);
		if (!what || strcmp(what, cases[i].what))
			fail_msg("%s is %s", cases[i].address, what ? what : "public");
	}
}

static void test_public(void **state)
{
	static const char *const cases[] = {
		"1.0.0.0",	   "9.255.255.255",   "11.0.0.0",      "100.63.255.255", "100.128.0.0",
		"126.255.255.255", "128.0.0.1",	      "169.253.255.1", "169.255.0.1",	 "172.15.255.9",
		"172.32.0.0",	   "192.167.1.1",     "192.169.0.0",   "198.17.255.255", "198.20.0.0",
		"223.255.255.1",   "2600::1",	      "2a00:1450::1",  "::ffff:8.8.8.8", "64:ff9b::808:808",
		"2003::1",	   "2002:808:808::1",
	};
	(void)state;
	for (size_t i = 0; i < countof(cases); i++)
		if (judge(cases[i]))
			fail_msg("%s is %s", cases[i], judge(cases[i]));
}

// Where a mirror may be, and where never.
static void test_inside(void **state)
{
	static const char *const inside[] = {"10.1.2.3", "192.168.1.1", "100.64.0.1", "203.0.113.9", "fd12::1", "::ffff:10.0.0.1"};
	static const char *const not[] = {"127.0.0.1", "169.254.169.254", "100.100.100.200", "fe80::1", "fd00:ec2::254", "198.18.0.1",
					  "0.0.0.0",   "::1",		  "224.0.0.1",	     "1.1.1.1", "::ffff:127.0.0.1"};
	struct err e;
	union addr a;
	(void)state;
	for (size_t i = 0; i < countof(inside); i++)
		if (addr_parse(inside[i], 443, &a, &e) || !addr_is_inside(&a))
			fail_msg("not inside: %s", inside[i]);
	for (size_t i = 0; i < countof(not); i++)
		if (addr_parse(not[i], 443, &a, &e) || addr_is_inside(&a))
			fail_msg("inside: %s", not[i]);
}

static void test_text(void **state)
{
	static const char *const bad[] = {"",	       "1",    "1.2.3",	 "0x7f.0.0.1", "1.2.3.4.5",
					  "[1.2.3.4]", "[::1", "::1%lo", "host",       " 1.2.3.4"};
	char text[INET6_ADDRSTRLEN];
	struct err e;
	union addr a, b;
	(void)state;
	for (size_t i = 0; i < countof(bad); i++)
		if (!addr_parse(bad[i], 1, &a, &e))
			fail_msg("read: %s", bad[i]);
	assert_int_equal(addr_parse("[2600::A]", 443, &a, &e), 0);
	assert_int_equal(addr_parse("2600:0:0::a", 80, &b, &e), 0);
	assert_true(addr_equal(&a, &b)); // ports do not count
	addr_print(&a, text);
	assert_string_equal(text, "2600::a");
	assert_int_equal(addr_parse("127.0.0.1", 443, &b, &e), 0);
	assert_false(addr_equal(&a, &b));
	assert_true(addr_is_own(&b));
	assert_string_equal(addr_not_public(&(union addr){.sa.sa_family = AF_UNIX}), "not an internet address");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_inside),
		cmocka_unit_test(test_public),
		cmocka_unit_test(test_text),
	};
	return cmocka_run_group_tests_name("gate/addr", tests, NULL, NULL);
}

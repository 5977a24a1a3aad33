// SPDX-License-Identifier: Apache-2.0
// DNS messages byte by byte, and the table of synthetic addresses at its bounds.
#include "base/mem.h"
#include "base/str.h"
#include "gate/dns.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the headers above it
#include <cmocka.h>

#define HEAD "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
#define HEAD_EDNS "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01"
#define NAME   \
	"\x03" \
	"API"  \
	"\x04" \
	"test" \
	"\x00"
#define A_IN "\x00\x01\x00\x01"
#define OPT "\x00\x00\x29\x10\x00\x00\x00\x00\x00\x00\x00"
#define BYTES(s) (const uint8_t *)(s), sizeof(s) - 1

static void test_question(void **state)
{
	static const char msg[] = HEAD NAME A_IN;
	struct dns_query q;
	(void)state;
	assert_true(dns_parse(BYTES(msg), &q));
	assert_int_equal(q.rcode, DNS_NOERROR);
	assert_true(q.id == 0x1234 && q.type == DNS_A && q.recurse && q.is_name && !q.edns);
	assert_string_equal(q.name.s, "api.test");
	for (size_t n = 0; n < sizeof msg - 1; n++)
		assert_true(!dns_parse((const uint8_t *)msg, n, &q) || q.rcode == DNS_FORMERR);
	assert_true(dns_parse(BYTES(HEAD_EDNS NAME A_IN OPT), &q));
	assert_true(!q.rcode && q.edns);
	assert_true(dns_parse(BYTES(HEAD_EDNS NAME A_IN "\x00\x00\x29\x10\x00\x00\x01\x00\x00\x00\x00"), &q));
	assert_true(q.rcode == DNS_BADVERS && q.edns);
}

static void test_refused(void **state)
{
	static const struct {
		const char *p;
		size_t n;
		enum dns_rcode rcode;
	} cases[] = {
		{HEAD "\xc0\x0c" A_IN, 18, DNS_FORMERR}, // compressed
		{HEAD "\x03"
		      "api"
		      "\xc0\x0c" A_IN,
		 22, DNS_FORMERR}, // at its end
		{HEAD "\x41"
		      "a",
		 14, DNS_FORMERR},						   // unknown label type
		{"\0\1\0\0\0\2\0\0\0\0\0\0" NAME A_IN NAME A_IN, 40, DNS_FORMERR}, // two questions
		{"\0\1\0\0\0\0\0\0\0\0\0\0", 12, DNS_FORMERR},			   // none
		{"\0\1\0\0\0\1\0\1\0\0\0\0" NAME A_IN, 26, DNS_FORMERR},	   // an answer in it
		{"\0\1\0\0\0\1\0\0\0\1\0\0" NAME A_IN, 26, DNS_FORMERR},	   // an authority
		{HEAD NAME A_IN "x", 27, DNS_FORMERR},				   // bytes behind
		{HEAD_EDNS NAME A_IN OPT "x", 38, DNS_FORMERR},
		{HEAD_EDNS NAME A_IN "\x00\x00\xfa\x00\xff\x00\x00\x00\x00\x00\x00", 37, DNS_FORMERR}, // a TSIG
		{"\0\1\x28\0\0\1\0\0\0\0\0\0" NAME A_IN, 26, DNS_NOTIMP},			       // an update
		{HEAD NAME "\x00\x01\x00\x03", 26, DNS_REFUSED},				       // CHAOS
	};
	struct dns_query q;
	(void)state;
	for (size_t i = 0; i < countof(cases); i++)
		if (!dns_parse((const uint8_t *)cases[i].p, cases[i].n, &q) || q.rcode != cases[i].rcode)
			fail_msg("case %zu: %d", i, q.rcode);
	assert_false(dns_parse(BYTES("\0\1\x80\0\0\1\0\0\0\0\0\0" NAME A_IN), &q)); // an answer is not answered
	uint8_t big[DNS_MESSAGE + 1] = HEAD;
	assert_true(dns_parse(big, sizeof big, &q) && q.rcode == DNS_FORMERR);
}

// Bytes that no name has do not become one: not even a dot inside a label.
static void test_names(void **state)
{
	struct dns_query q;
	(void)state;
	assert_true(dns_parse(BYTES(HEAD "\x08"
					 "api.test"
					 "\x00" A_IN),
			      &q) &&
		    !q.rcode && !q.is_name);
	assert_true(dns_parse(BYTES(HEAD "\x04"
					 "a\0bc"
					 "\x00" A_IN),
			      &q) &&
		    !q.rcode && !q.is_name);
	assert_true(dns_parse(BYTES(HEAD "\x02"
					 "\xc3\xa4"
					 "\x00" A_IN),
			      &q) &&
		    !q.rcode && !q.is_name);
	assert_true(dns_parse(BYTES(HEAD "\x00" A_IN), &q) && !q.rcode && !q.is_name);
	assert_true(dns_parse(BYTES(HEAD "\x03"
					 "127"
					 "\x01"
					 "1"
					 "\x00" A_IN),
			      &q) &&
		    !q.rcode && !q.is_name);
	auto_buf struct buf b = BUF_INIT(1024);
	buf_add(&b, HEAD, sizeof HEAD - 1);
	for (int i = 0; i < 128; i++)
		buf_add(&b,
			"\x01"
			"a",
			2);
	buf_add(&b, "\x00" A_IN, 5);
	assert_true(dns_parse((uint8_t *)b.p, b.n, &q) && q.rcode == DNS_FORMERR); // 257 bytes
}

static void test_answer(void **state)
{
	static const char want[] = "\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x01" NAME A_IN
				   "\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc6\x12\x00\x05"
				   "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00";
	static const char gone[] = "\x12\x34\x81\x83\x00\x01\x00\x00\x00\x00\x00\x00" NAME A_IN;
	auto_buf struct buf out = BUF_INIT(DNS_MESSAGE);
	struct dns_query q;
	(void)state;
	assert_true(dns_parse(BYTES(HEAD_EDNS NAME A_IN OPT), &q));
	dns_answer(&out, &q, DNS_NOERROR, 0xc6120005);
	assert_int_equal(out.n, sizeof want - 1);
	assert_memory_equal(out.p, want, sizeof want - 1);
	buf_clear(&out);
	assert_true(dns_parse(BYTES(HEAD NAME A_IN), &q));
	dns_answer(&out, &q, DNS_NXDOMAIN, 0);
	assert_int_equal(out.n, sizeof gone - 1);
	assert_memory_equal(out.p, gone, sizeof gone - 1);
	buf_clear(&out);
	assert_true(dns_parse(BYTES(HEAD "\xc0\x0c" A_IN), &q));
	dns_answer(&out, &q, q.rcode, 0);
	assert_int_equal(out.n, 12); // nothing of a question that could not be read is repeated
}

static struct host_name name_of(const char *fmt, int i)
{
	struct host_name n;
	(void)!fmt_to(n.s, sizeof n.s, "%s%d.test", fmt, i);
	return n;
}

static void test_table(void **state)
{
	struct dns_names *t = dns_names_new(), *again = dns_names_new();
	struct host_name first = name_of("n", 0), other = name_of("other", 0);
	(void)state;
	uint32_t a = dns_names_give(t, &first);
	assert_int_equal(a >> DNS_NET_BITS, DNS_NET >> DNS_NET_BITS);
	assert_int_equal(dns_names_give(t, &first), a);
	dns_names_give(again, &other);
	assert_int_equal(dns_names_give(again, &first), a); // the name alone decides
	assert_string_equal(dns_names_find(t, a)->s, first.s);
	assert_null(dns_names_find(t, a ^ 1));
	assert_null(dns_names_find(t, 0));
	dns_names_free(t);
	dns_names_free(again);
}

static void test_table_bounds(void **state)
{
	struct dns_names *t = dns_names_new();
	struct host_name first = name_of("n", 0);
	(void)state;
	uint32_t held = dns_names_give(t, &first);
	dns_names_hold(t, held);
	for (int i = 1; i < 3 * DNS_NAMES; i++) {
		struct host_name n = name_of("n", i);
		uint32_t a = dns_names_give(t, &n);
		assert_true(a && a != held && (a & 0xff) && (a & 0xff) != 0xff);
		assert_string_equal(dns_names_find(t, a)->s, n.s);
	}
	assert_string_equal(dns_names_find(t, held)->s, first.s);
	int alive = 0;
	for (uint32_t a = 0; a < 1u << DNS_NET_BITS; a++)
		alive += dns_names_find(t, DNS_NET | a) != NULL;
	assert_int_equal(alive, DNS_NAMES);
	dns_names_release(t, held);
	dns_names_free(t);
}

static void test_table_full(void **state)
{
	struct dns_names *t = dns_names_new();
	struct host_name one_more = name_of("one-more", 0);
	uint32_t last = 0;
	(void)state;
	for (int i = 0; i < DNS_NAMES; i++) {
		struct host_name n = name_of("n", i);
		last = dns_names_give(t, &n);
		dns_names_hold(t, last);
	}
	assert_int_equal(dns_names_give(t, &one_more), 0);
	dns_names_release(t, last);
	assert_true(dns_names_give(t, &one_more));
	dns_names_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_question),   cmocka_unit_test(test_refused), cmocka_unit_test(test_names),
		cmocka_unit_test(test_answer),	   cmocka_unit_test(test_table),   cmocka_unit_test(test_table_bounds),
		cmocka_unit_test(test_table_full),
	};
	return cmocka_run_group_tests_name("gate/dns", tests, NULL, NULL);
}

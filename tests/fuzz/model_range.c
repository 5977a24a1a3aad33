// SPDX-License-Identifier: Apache-2.0
// Ranges: what is taken has one text, is itself when read again, and is what inet_pton says; a rule with it comes back too.
#include "model/policy.h"
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct range *r)
{
	auto_buf struct buf b = BUF_INIT(RANGE_TEXT);
	struct range again, first = range_of(r->family, r->net);
	struct err e;
	range_print(&b, r);
	if (b.overflow || range_parse(b.p, b.n, &again, &e) || memcmp(r, &again, sizeof again))
		abort();
	if (!range_has(r, &first) || !range_has(r, r) || (r->family != 4 && r->family != 6))
		abort();
	const char *kind = range_kind(r);
	if (kind && !range_kind(&first) && strcmp(kind, "NAT64") && strcmp(kind, "6to4") && strcmp(kind, "mapped"))
		abort(); // a range of some kind begins with an address that is not everybody's, unless it carries others
	struct host_name h;
	host_of_range(&first, &h);
	if (!range_of_host(&h, &again) || memcmp(&first, &again, sizeof again))
		abort();
}

static void check_rule(const char *text)
{
	struct rule r, again;
	struct err e;
	if (rule_parse(text, "fuzz", &r, &e))
		return;
	auto_buf struct buf b = BUF_INIT(RULE_TEXT + 1);
	rule_print(&b, &r);
	if (rule_parse(buf_cstr(&b), "fuzz", &again, &e) || memcmp(&r.range, &again.range, sizeof r.range) || r.any_port != again.any_port)
		abort();
	rule_done(&r);
	rule_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct range r;
	struct str port;
	struct err e;
	char text[200] = "";
	if (!range_parse((const char *)data, size, &r, &e))
		check(&r);
	if (!range_split((const char *)data, size, &r, &port, &e))
		check(&r);
	if (size < sizeof text && !memchr(data, 0, size)) {
		memcpy(text, data, size);
		check_rule(text);
	}
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Policies: first byte 0 = binary form, else a list of rules, one a line. What is read must be written and read again to
// the same bytes; a deny rule for everything of a host can not be passed by any other rule.
#include "base/mem.h"
#include "base/str.h"
#include "model/policy.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void comes_back(const struct policy *p)
{
	struct policy q;
	struct err e;
	auto_buf struct buf one = BUF_INIT(POLICY_WIRE), two = BUF_INIT(POLICY_WIRE);
	policy_write(&one, p);
	struct wire w = {(const uint8_t *)one.p, one.n, false};
	if (one.overflow || policy_read(&w, &q, &e) || w.n)
		abort();
	policy_write(&two, &q);
	if (one.n != two.n || memcmp(one.p, two.p, one.n))
		abort();
	policy_done(&q);
}

static void judge(const struct policy *p)
{
	auto_buf struct buf text = BUF_INIT(8 << 20);
	policy_json(&text, p);
	for (size_t i = 0; i < p->n && i < 16; i++) {
		const struct rule *r = &p->rules[i], *why;
		struct host_name address;
		if (r->range.family) { // its first address, whatever else is there
			struct range first = range_of(r->range.family, r->range.net);
			host_of_range(&first, &address);
			struct request dialled = {&address, r->port ? r->port : 443, NULL, NULL};
			if (r->deny && policy_judge(p, &dialled, NULL) != VERDICT_DENY)
				abort();
			continue;
		}
		struct request conn = {&r->host, r->port ? r->port : 443, NULL, NULL};
		struct request q = {&r->host, conn.port, r->method ? r->method : "GET", r->path ? r->path : "/"};
		enum verdict v = policy_judge(p, &conn, &why);
		bool all = r->deny && !r->wildcard && !r->method && !r->path;
		if (all && (v != VERDICT_DENY || policy_judge(p, &q, NULL) != VERDICT_DENY || !why->deny))
			abort();
		if (all && !r->port && policy_names(p, &r->host))
			abort();
		if (v == VERDICT_ALLOW && !policy_names(p, &r->host))
			abort();
		policy_judge(p, &q, NULL);
		policy_opens(p, &r->host, conn.port);
		policy_address(p, &r->host, conn.port);
	}
}

static int from_lines(const uint8_t *data, size_t size, struct policy *p)
{
	struct str rest = {(const char *)data, size}, line;
	struct err e;
	while (str_next(&rest, '\n', &line)) {
		auto_free char *text = xstrndup(line.p, line.n);
		if (policy_add_text(p, text, "fuzz", &e) && e.kind == ERR_LIMIT && p->n == POLICY_RULES)
			break;
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct policy p = {0};
	struct err e;
	if (!size)
		return 0;
	struct wire w = {data + 1, size - 1, false};
	if (data[0] ? from_lines(data + 1, size - 1, &p) : policy_read(&w, &p, &e))
		return 0;
	comes_back(&p);
	judge(&p);
	policy_done(&p);
	return 0;
}

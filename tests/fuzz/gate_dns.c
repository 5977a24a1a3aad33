// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a DNS message. What is answered must be a message that is itself not answered, repeat the id, fit,
// and a name taken as one must be canonical.
#include "gate/dns.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dns_query q, again;
	struct host_name name;
	struct err e;
	auto_buf struct buf out = BUF_INIT(DNS_MESSAGE);
	if (!dns_parse(data, size, &q))
		return 0;
	if (q.question_n > size || (!q.rcode && !q.question))
		abort();
	if (q.is_name && (host_parse(q.name.s, strlen(q.name.s), &name, &e) || !host_equal(&name, &q.name)))
		abort();
	dns_answer(&out, &q, q.rcode, !q.rcode && q.type == DNS_A ? DNS_NET + 1 : 0);
	if (out.overflow || out.n < 12 || memcmp(out.p, data, 2) || dns_parse((uint8_t *)out.p, out.n, &again))
		abort();
	return 0;
}

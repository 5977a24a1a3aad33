// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as the first of a connection. A verdict never changes when more bytes come: what is refused or whole
// stays so, and each shorter prefix asks for more or was refused the same way.
#include "gate/hello.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const struct hello *h)
{
	struct host_name name;
	struct err e;
	if (h->has_sni && (host_parse(h->sni.s, strlen(h->sni.s), &name, &e) || !host_equal(&name, &h->sni)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hello h, part;
	enum sniff whole = hello_sniff(data, size), early = hello_sniff(data, size / 2);
	if (early != SNIFF_MORE && early != whole && size / 2 < HELLO_LINE)
		abort();
	struct request_scan once = {0}, twice = {0};
	request_scan_feed(&once, data, size);
	request_scan_feed(&twice, data, size / 2);
	request_scan_feed(&twice, data + size / 2, size - size / 2);
	if (once.state != twice.state)
		abort();
	enum hello_state s = hello_parse(data, size, &h), half = hello_parse(data, size / 2, &part);
	if (s == HELLO_BAD && !h.why)
		abort();
	if (s == HELLO_OK) {
		check_name(&h);
		if (h.n > size || h.n > HELLO_MAX || whole != SNIFF_TLS)
			abort();
		if (hello_parse(data, h.n, &part) != HELLO_OK || part.has_sni != h.has_sni || part.ech != h.ech)
			abort();
		if (h.n && hello_parse(data, h.n - 1, &part) != HELLO_MORE)
			abort();
	} else if (half != HELLO_MORE && half != s) {
		abort();
	}
	return 0;
}

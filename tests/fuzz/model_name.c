// SPDX-License-Identifier: Apache-2.0
// Names: what is taken is canonical, is itself when read again, and is never what inet_aton takes for an address.
#include "model/name.h"
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct host_name *h)
{
	static const char may[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
	struct host_name again;
	struct in_addr v4;
	struct in6_addr v6;
	struct err e;
	size_t n = strlen(h->s);
	if (!n || n > 253 || strspn(h->s, may) != n || h->s[n - 1] == '.')
		abort();
	if (host_parse(h->s, n, &again, &e) || memcmp(h, &again, sizeof again))
		abort();
	if (inet_aton(h->s, &v4) || inet_pton(AF_INET6, h->s, &v6) == 1)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct host_name h, g;
	uint16_t port;
	struct err e;
	if (!host_parse((const char *)data, size, &h, &e))
		check(&h);
	if (!host_port_parse((const char *)data, size, &g, &port, &e))
		check(&g);
	if (!port_parse((const char *)data, size, &port, &e) && !port)
		abort();
	return 0;
}

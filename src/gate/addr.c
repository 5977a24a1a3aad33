// SPDX-License-Identifier: Apache-2.0
#include "gate/addr.h"

#include "base/mem.h"
#include "base/str.h"
#include <arpa/inet.h>
#include <string.h>
#include <unistd.h>

struct range addr_range(const union addr *a)
{
	if (a->sa.sa_family == AF_INET)
		return range_of(4, &a->v4.sin_addr);
	if (a->sa.sa_family == AF_INET6)
		return range_of(6, &a->v6.sin6_addr);
	return (struct range){0};
}

const char *addr_not_public(const union addr *a)
{
	struct range r = addr_range(a);
	return r.family ? range_kind(&r) : "not an internet address";
}

bool addr_is_inside(const union addr *a)
{
	static const char *const inside[] = {"private", "carrier-shared", "documentation"};
	const char *what = addr_not_public(a);
	for (size_t i = 0; what && i < countof(inside); i++)
		if (!strcmp(what, inside[i]))
			return true;
	return false;
}

socklen_t addr_len(const union addr *a)
{
	return a->sa.sa_family == AF_INET6 ? sizeof a->v6 : sizeof a->v4;
}

void addr_set_port(union addr *a, uint16_t port)
{
	if (a->sa.sa_family == AF_INET6)
		a->v6.sin6_port = htons(port);
	else
		a->v4.sin_port = htons(port);
}

uint16_t addr_port(const union addr *a)
{
	return a->sa.sa_family == AF_INET6 ? ntohs(a->v6.sin6_port) : a->sa.sa_family == AF_INET ? ntohs(a->v4.sin_port) : 0;
}

bool addr_equal(const union addr *a, const union addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET6)
		return !memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr);
	return a->sa.sa_family == AF_INET && a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
}

// The kernel gives a packet to one of its own addresses that same address as its source.
bool addr_is_own(const union addr *a)
{
	union addr to = *a, from = {0};
	socklen_t n = sizeof from;
	auto_fd int fd = socket(a->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	addr_set_port(&to, 9);
	return fd >= 0 && !connect(fd, &to.sa, addr_len(&to)) && !getsockname(fd, &from.sa, &n) && addr_equal(&from, a);
}

int addr_parse(const char *s, uint16_t port, union addr *out, struct err *e)
{
	char text[INET6_ADDRSTRLEN];
	size_t n = strlen(s);
	bool brackets = n > 2 && s[0] == '[' && s[n - 1] == ']';
	union addr a = {0};
	if (fmt_to(text, sizeof text, "%.*s", (int)(brackets ? n - 2 : n), s + brackets))
		return err_set(e, ERR_INVALID, "not an address");
	if (!brackets && inet_pton(AF_INET, text, &a.v4.sin_addr) == 1)
		a.sa.sa_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &a.v6.sin6_addr) == 1)
		a.sa.sa_family = AF_INET6;
	else
		return err_set(e, ERR_INVALID, "not an address");
	addr_set_port(&a, port);
	*out = a;
	return 0;
}

void addr_print(const union addr *a, char out[INET6_ADDRSTRLEN])
{
	const void *p = a->sa.sa_family == AF_INET6 ? (const void *)&a->v6.sin6_addr : (const void *)&a->v4.sin_addr;
	if (!inet_ntop(a->sa.sa_family, p, out, INET6_ADDRSTRLEN))
		out[0] = 0;
}

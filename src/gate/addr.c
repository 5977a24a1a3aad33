// SPDX-License-Identifier: Apache-2.0
#include "gate/addr.h"

#include "base/mem.h"
#include "base/str.h"
#include <arpa/inet.h>
#include <string.h>
#include <unistd.h>

struct range4 {
	uint32_t net;
	int bits;
	const char *what;
};

// IANA's special-purpose registry: everything that is not globally reachable, and what clouds put beside it.
static const struct range4 ranges4[] = {
	{0x00000000, 8, "this network"},    {0x0a000000, 8, "private"},
	{0x646464c8, 32, "metadata"}, // 100.100.100.200, inside the shared range
	{0x64400000, 10, "carrier-shared"}, {0x7f000000, 8, "loopback"},
	{0xa9fea9fe, 32, "metadata"},	    {0xa9fe0000, 16, "link-local"},
	{0xac100000, 12, "private"},	    {0xc0000000, 24, "reserved"},
	{0xc0000200, 24, "documentation"},  {0xc01fc400, 24, "reserved"}, // AS112
	{0xc034c100, 24, "reserved"},					  // AMT
	{0xc0586300, 24, "reserved"},					  // 6to4 relays
	{0xc0a80000, 16, "private"},	    {0xc0af3000, 24, "reserved"}, // AS112
	{0xc6120000, 15, "synthetic"},	    {0xc6336400, 24, "documentation"},
	{0xcb007100, 24, "documentation"},  {0xa83f8110, 32, "metadata"}, // 168.63.129.16, a cloud's agent service
	{0xe0000000, 4, "multicast"},	    {0xf0000000, 4, "reserved"},
};

struct range6 {
	uint8_t net[16];
	int bits;
	const char *what;
	int carries; // byte at which an IPv4 address stands that decides instead, or 0
};

static const struct range6 ranges6[] = {
	{{[15] = 1}, 128, "loopback", 0},
	{{0}, 128, "unspecified", 0},
	{{[10] = 0xff, [11] = 0xff}, 96, "mapped", 12},
	{{[8] = 0xff, [9] = 0xff}, 96, "translated", 0}, // ::ffff:0:0:0/96
	{{0}, 96, "compatible", 0},
	{{0, 0x64, 0xff, 0x9b}, 96, "NAT64", 12},
	{{0, 0x64, 0xff, 0x9b, 0, 1}, 48, "local NAT64", 0},
	{{1}, 64, "discard", 0},
	{{0x20, 0x01, 0, 0}, 32, "Teredo", 0},
	{{0x20, 0x01}, 23, "reserved", 0},
	{{0x20, 0x01, 0x0d, 0xb8}, 32, "documentation", 0},
	{{0x20, 0x02}, 16, "6to4", 2},
	{{0x3f, 0xff}, 20, "documentation", 0},
	{{0x5f}, 16, "segment routing", 0},
	{{0xfd, 0, 0x0e, 0xc2, [14] = 2, [15] = 0x54}, 128, "metadata", 0}, // fd00:ec2::254
	{{0xfd, 0x20, 0, 0xce, [14] = 2, [15] = 0x54}, 128, "metadata", 0}, // fd20:ce::254
	{{0xfc}, 7, "private", 0},
	{{0xfe, 0x80}, 10, "link-local", 0},
	{{0xfe, 0xc0}, 10, "site-local", 0},
	{{0xff}, 8, "multicast", 0},
};

static const char *judge4(uint32_t a)
{
	for (size_t i = 0; i < countof(ranges4); i++)
		if (((a ^ ranges4[i].net) >> (32 - ranges4[i].bits)) == 0)
			return ranges4[i].what;
	return NULL;
}

static bool in_range(const uint8_t *a, const struct range6 *r)
{
	int whole = r->bits / 8, rest = r->bits % 8;
	return !memcmp(a, r->net, (size_t)whole) && (!rest || ((a[whole] ^ r->net[whole]) >> (8 - rest)) == 0);
}

static uint32_t get4(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static const char *judge6(const uint8_t *a)
{
	for (size_t i = 0; i < countof(ranges6); i++)
		if (in_range(a, &ranges6[i]))
			return ranges6[i].carries ? judge4(get4(a + ranges6[i].carries)) : ranges6[i].what;
	// ISATAP: an interface id of 0:5efe or 200:5efe, then an IPv4 address.
	if ((a[8] & 0xfd) == 0 && a[9] == 0 && a[10] == 0x5e && a[11] == 0xfe)
		return judge4(get4(a + 12));
	return (a[0] & 0xe0) == 0x20 ? NULL : "reserved"; // only 2000::/3 is given out
}

const char *addr_not_public(const union addr *a)
{
	if (a->sa.sa_family == AF_INET)
		return judge4(ntohl(a->v4.sin_addr.s_addr));
	if (a->sa.sa_family == AF_INET6)
		return judge6(a->v6.sin6_addr.s6_addr);
	return "not an internet address";
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

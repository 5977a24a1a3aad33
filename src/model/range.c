// SPDX-License-Identifier: Apache-2.0
#include "model/range.h"

#include "base/mem.h"
#include "base/str.h"
#include <arpa/inet.h>
#include <string.h>

struct block4 {
	uint32_t net;
	uint8_t bits;
	const char *what;
};

// IANA's special-purpose registry: everything that is not globally reachable, and what clouds put beside it. What lies in
// another block stands before it.
static const struct block4 blocks4[] = {
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

struct block6 {
	uint8_t net[16];
	uint8_t bits;
	const char *what;
	int carries; // byte at which an IPv4 address stands that decides instead, or 0
};

static const struct block6 blocks6[] = {
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

static uint8_t whole(const struct range *r)
{
	return r->family == 4 ? 32 : 128;
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned bytes = bits / 8, rest = bits % 8;
	return !memcmp(a, b, bytes) && (!rest || (a[bytes] ^ b[bytes]) >> (8 - rest) == 0);
}

bool range_is_one(const struct range *r)
{
	return r->family && r->bits == whole(r);
}

bool range_has(const struct range *r, const struct range *inner)
{
	return r->family && r->family == inner->family && r->bits <= inner->bits && same_bits(r->net, inner->net, r->bits);
}

static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff};

struct range range_of(uint8_t family, const void *address)
{
	const uint8_t *p = address;
	if (family == 6 && same_bits(p, mapped, 96)) // the kernel dials the IPv4 one
		return range_of(4, p + 12);
	struct range r = {.family = family, .bits = family == 4 ? 32 : 128};
	memcpy(r.net, p, family == 4 ? 4 : 16);
	return r;
}

// --- what it is ---

static uint32_t get4(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static const char *kind4(uint32_t a, uint8_t bits)
{
	for (size_t i = 0; i < countof(blocks4); i++)
		if (bits >= blocks4[i].bits && (a ^ blocks4[i].net) >> (32 - blocks4[i].bits) == 0)
			return blocks4[i].what;
	return NULL;
}

static const struct block6 *block6_of(const uint8_t *a, uint8_t bits)
{
	for (size_t i = 0; i < countof(blocks6); i++)
		if (bits >= blocks6[i].bits && same_bits(a, blocks6[i].net, blocks6[i].bits))
			return &blocks6[i];
	return NULL;
}

// The byte at which an IPv4 address stands in an IPv6 one, 0 when there is none.
static int carried_at(const uint8_t *a)
{
	const struct block6 *b = block6_of(a, 128);
	if (b)
		return b->carries;
	// ISATAP: an interface id of 0:5efe or 200:5efe, then an IPv4 address.
	return (a[8] & 0xfd) == 0 && a[9] == 0 && a[10] == 0x5e && a[11] == 0xfe ? 12 : 0;
}

bool range_carries(const struct range *one, struct range *out)
{
	int at = one->family == 6 && range_is_one(one) ? carried_at(one->net) : 0;
	if (at)
		*out = range_of(4, one->net + at);
	return at;
}

static const char *kind6(const uint8_t *a, uint8_t bits)
{
	const struct block6 *b = block6_of(a, bits);
	int at = bits == 128 ? carried_at(a) : 0;
	if (at)
		return kind4(get4(a + at), 32);
	if (b)
		return b->what;
	return bits < 3 || (a[0] & 0xe0) == 0x20 ? NULL : "reserved"; // only 2000::/3 is given out
}

const char *range_kind(const struct range *r)
{
	return r->family == 4 ? kind4(get4(r->net), r->bits) : kind6(r->net, r->bits);
}

// --- text ---

static int parse_address(const char *text, struct range *r, struct err *e)
{
	if (strchr(text, ':')) {
		r->family = 6;
		if (inet_pton(AF_INET6, text, r->net) != 1)
			return err_set(e, ERR_INVALID, "not an IPv6 address");
		if (same_bits(r->net, mapped, 96))
			return err_set(e, ERR_INVALID, "write an IPv4 address as 1.2.3.4");
		return 0;
	}
	r->family = 4;
	return inet_pton(AF_INET, text, r->net) == 1 ? 0 : err_set(e, ERR_INVALID, "not an address, such as 1.2.3.4 or 2001:db8::1");
}

static void clear_behind(struct range *r)
{
	for (unsigned i = 0; i < sizeof r->net; i++)
		if (i * 8 >= r->bits)
			r->net[i] = 0;
		else if (i * 8 + 8 > r->bits)
			r->net[i] &= (uint8_t)(0xff << (8 - r->bits % 8));
}

static int parse_bits(struct str text, struct range *r, struct err *e)
{
	uint64_t bits;
	struct range cut = *r;
	if (str_to_u64(text, 0, whole(r), &bits))
		return err_set(e, ERR_INVALID, "behind the '/' stands how many bits count, 0 to %u", whole(r));
	r->bits = cut.bits = (uint8_t)bits;
	clear_behind(&cut);
	if (!memcmp(cut.net, r->net, sizeof cut.net))
		return 0;
	auto_buf struct buf range = BUF_INIT(RANGE_TEXT), one = BUF_INIT(RANGE_TEXT);
	r->bits = whole(r);
	range_print(&range, &cut);
	range_print(&one, r);
	return err_set(e, ERR_INVALID, "a range names its first address: %s for all of it, %s for the one", buf_cstr(&range), buf_cstr(&one));
}

int range_parse(const char *p, size_t n, struct range *out, struct err *e)
{
	struct range r = {0};
	struct str bits = {p, n}, address = {p, 0};
	if (!n || n > RANGE_TEXT || memchr(p, 0, n))
		return err_set(e, ERR_INVALID, "not an address");
	str_next(&bits, '/', &address);
	auto_free char *text = xstrndup(address.p, address.n);
	if (parse_address(text, &r, e))
		return -1;
	r.bits = whole(&r);
	if (bits.p && parse_bits(bits, &r, e))
		return -1;
	*out = r;
	return 0;
}

int range_split(const char *p, size_t n, struct range *out, struct str *port_text, struct err *e)
{
	const char *end = p + n, *close = n && p[0] == '[' ? memchr(p, ']', n) : NULL;
	const char *colon = close ? (close + 1 < end ? close + 1 : NULL) : n ? memchr(p, ':', n) : NULL;
	if (!close && colon && memchr(colon + 1, ':', (size_t)(end - colon - 1))) // IPv6 without brackets
		colon = NULL;
	if ((n && p[0] == '[' && !close) || (close && colon && *colon != ':'))
		return err_set(e, ERR_INVALID, "an IPv6 address with a port is written as [2001:db8::1]:443");
	const char *from = close ? p + 1 : p, *to = close ? close : colon ? colon : end;
	struct range r;
	if (range_parse(from, (size_t)(to - from), &r, e))
		return -1;
	if (close && r.family != 6)
		return err_set(e, ERR_INVALID, "only IPv6 stands in brackets");
	*port_text = colon ? (struct str){colon + 1, (size_t)(end - colon - 1)} : (struct str){NULL, 0};
	*out = r;
	return 0;
}

void range_print(struct buf *b, const struct range *r)
{
	char text[INET6_ADDRSTRLEN];
	if (!inet_ntop(r->family == 4 ? AF_INET : AF_INET6, r->net, text, sizeof text))
		return;
	buf_str(b, text);
	if (!range_is_one(r))
		buf_fmt(b, "/%u", r->bits);
}

// --- where a name may stand ---

bool host_is_address(const struct host_name *h)
{
	return strchr(h->s, ':') || (h->s[0] && strspn(h->s, "0123456789.") == strlen(h->s));
}

void host_of_range(const struct range *one, struct host_name *out)
{
	auto_buf struct buf b = BUF_INIT(RANGE_TEXT);
	range_print(&b, one);
	*out = (struct host_name){0};
	memcpy(out->s, buf_cstr(&b), b.n);
}

bool range_of_host(const struct host_name *h, struct range *out)
{
	struct err e;
	return host_is_address(h) && !range_parse(h->s, strlen(h->s), out, &e) && range_is_one(out);
}

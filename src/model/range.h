// SPDX-License-Identifier: Apache-2.0
// Addresses and ranges of them, IPv4 and IPv6. The one parser: what it gives is the only form that is compared, printed or
// written to the journal. An address is a range of one.
//
// Strict as model/name.h: four plain decimal parts, no leading zeros, no missing ones; IPv6 as RFC 4291 has it, without a
// zone; an IPv4 address in IPv6 clothes (::ffff:1.2.3.4) is refused, for the kernel makes it the IPv4 one. A range names its
// first address: 10.1.2.3/8 could be meant either way, and is refused with both.
#pragma once
#include "base/buf.h"
#include "base/str.h"
#include "model/name.h"

#define RANGE_TEXT 64 // bytes of a range with brackets and a port

struct range {
	uint8_t family; // 4 or 6; 0 = none
	uint8_t bits;	// that count
	uint8_t net[16]; // the first address, in network order; zero behind it
};

// "1.2.3.4", "1.2.3.0/24", "2001:db8::1", "2001:db8::/32". INVALID with the reason.
int range_parse(const char *p, size_t n, struct range *out, struct err *e) MUST_USE;
// The same with IPv6 in brackets: "1.2.3.0/24:443", "[2001:db8::/32]:443", "[::1]". port_text is what stands behind the
// last ':', {NULL, 0} when there is none. Without a port IPv6 needs no brackets.
int range_split(const char *p, size_t n, struct range *out, struct str *port_text, struct err *e) MUST_USE;
void range_print(struct buf *b, const struct range *r);		    // without brackets; an address without its bits
bool range_is_one(const struct range *r);			    // an address
bool range_has(const struct range *r, const struct range *inner);   // all of inner lies in r
struct range range_of(uint8_t family, const void *address); // one address, in network order; ::ffff:1.2.3.4 is 1.2.3.4
// The IPv4 address that somebody on the way makes of an IPv6 one (NAT64, 6to4, ISATAP). False: it carries none.
bool range_carries(const struct range *one, struct range *out);

// What all of it is ("loopback", "private", "metadata", …) when it lies in one block that is not for everybody on the
// internet; NULL when some of it may be anybody's. Addresses that carry an IPv4 one (NAT64, 6to4, ISATAP) are what they carry.
const char *range_kind(const struct range *r);

// Where a name is expected an address may stand, as its text: no name is ever spelled as one.
bool host_is_address(const struct host_name *h);
void host_of_range(const struct range *one, struct host_name *out);
bool range_of_host(const struct host_name *h, struct range *out); // false: it is a name

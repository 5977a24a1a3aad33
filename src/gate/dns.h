// SPDX-License-Identifier: Apache-2.0
// The resolver of a cell. It knows what the policy names and nothing else: a question never leaves the machine. An A
// question for a name that is allowed (or may be asked about) is answered with an address out of 198.18.0.0/15 that
// stands for the name in this cell only; every other type of such a name is empty; every other name does not exist.
//
// An address depends on its name alone unless two names meet, so that it is the same again after the gate died.
#pragma once
#include "base/buf.h"
#include "model/name.h"

struct frame;
struct gate;

#define DNS_MESSAGE 1232 // bytes of a question that are looked at, and of an answer
#define DNS_NAMES 4096	 // names with an address; one more takes the place of the longest unused
#define DNS_STREAMS 16	 // TCP connections to the resolver
#define DNS_STREAM_MS 10000
#define DNS_TTL 60
#define DNS_NET 0xc6120000u // 198.18.0.0/15
#define DNS_NET_BITS 17

enum dns_rcode { DNS_NOERROR, DNS_FORMERR, DNS_SERVFAIL, DNS_NXDOMAIN, DNS_NOTIMP, DNS_REFUSED, DNS_BADVERS = 16 };
enum dns_type { DNS_A = 1, DNS_OPT = 41 };

// A question as it came. name is meaningful where is_name says that it is one.
struct dns_query {
	uint16_t id, type;
	bool recurse, edns, is_name;
	struct host_name name;
	const uint8_t *question; // borrowed: name, type and class, repeated in the answer
	size_t question_n;
	enum dns_rcode rcode; // NOERROR, or what is to be answered without looking further
};

// False: not to be answered at all (too short to have an id, or itself an answer). Compressed names, more than one
// question, records before the question's end, bytes after it: FORMERR. Anything but EDNS 0 behind it: FORMERR.
bool dns_parse(const uint8_t *p, size_t n, struct dns_query *out);
// address: host byte order, 0 = no record.
void dns_answer(struct buf *out, const struct dns_query *q, enum dns_rcode rcode, uint32_t address);

// The table of synthetic addresses. Addresses are in host byte order.
struct dns_names;
struct dns_names *dns_names_new(void);
void dns_names_free(struct dns_names *t);
uint32_t dns_names_give(struct dns_names *t, const struct host_name *name);    // 0 = every entry is in use
const struct host_name *dns_names_find(struct dns_names *t, uint32_t address); // borrowed; NULL = nobody's
// A held address keeps its name until it is released as often.
void dns_names_hold(struct dns_names *t, uint32_t address);
void dns_names_release(struct dns_names *t, uint32_t address);

// Serving. Takes the descriptors, -1 = absent.
int dns_serve(struct gate *g, int udp, int tcp, struct err *e) MUST_USE;
struct dns_names *dns_table(struct gate *g);
void dns_who(struct gate *g, const struct frame *f); // M_WHO's answer, perhaps to the resolver
void dns_end(struct gate *g);			     // the cell ends: what waits is told

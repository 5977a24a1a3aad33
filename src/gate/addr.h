// SPDX-License-Identifier: Apache-2.0
// Addresses: which of them a cell may be connected to. Pure but for addr_is_own.
#pragma once
#include "base/err.h"
#include "model/range.h"
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

union addr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct range addr_range(const union addr *a); // family 0: not an internet address
// NULL when anybody on the internet could have this address; else what it is ("loopback", "private", …). Forms that
// carry an IPv4 address in an IPv6 one (mapped, NAT64, 6to4, ISATAP) are judged by what they carry.
// Another family than IPv4 and IPv6 is never public.
const char *addr_not_public(const union addr *a);
// Of those that are not public: what networks of companies and machines use inside (private, carrier-shared,
// documentation). Never loopback, link-local or metadata.
bool addr_is_inside(const union addr *a);
// True when packets to it would stay on this machine, whatever the address. Asks the routing table, sends nothing.
bool addr_is_own(const union addr *a);

int addr_parse(const char *s, uint16_t port, union addr *out, struct err *e) MUST_USE; // brackets allowed
void addr_print(const union addr *a, char out[INET6_ADDRSTRLEN]); // without the port; "" when not IP
bool addr_equal(const union addr *a, const union addr *b);	  // without the port
void addr_set_port(union addr *a, uint16_t port);
uint16_t addr_port(const union addr *a); // 0 when not IP
socklen_t addr_len(const union addr *a);

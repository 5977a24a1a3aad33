// SPDX-License-Identifier: Apache-2.0
// Packets that the cell's filter refused, as the kernel logs them: `denied` events {what: "net", proto, address, port}.
#pragma once
#include "base/loop.h"
#include <stddef.h>
#include <stdint.h>

struct cell;

#define REFUSED_RATE 50 // told one by one each second, the rest as a number

struct refused {
	struct cell *cell;
	struct watch w; // fd: a NETLINK_NETFILTER socket bound to the log group; not ours to close
	struct timer say;
	uint64_t second_ms, more;
	uint32_t said;
};

struct refused_packet {
	uint8_t proto;
	char address[46]; // of the destination, as text
	uint16_t port;	  // 0 = it has none, or it was cut off
};
// An IPv4 or IPv6 packet, perhaps cut.
bool refused_read(const void *p, size_t n, struct refused_packet *out);

int refused_init(struct refused *r, struct cell *c, int nflog, struct err *e) MUST_USE;
void refused_end(struct refused *r); // says what was only counted

// SPDX-License-Identifier: Apache-2.0
// The cell's own network namespace: nothing but a loopback device.
//
// With a gate every destination is local: 127/8 and ::1 belong to the cell, TCP to 198.18.0.0/15 ends at a listener
// that is served outside, and so does TCP to any other address while the wide listeners listen; anything else is refused
// at once and reported. What is set here needs CAP_NET_ADMIN, which
// nothing in a cell has in any profile.
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct net_sockets {
	int tcp; // listener for all of 198.18.0.0/15, every port; an accepted socket's own address is what was dialled
	int dns_udp; // 127.0.0.1:53
	int dns_tcp; // a listener
	int nflog;   // packets that were refused
	int route;   // stays where it was made: the kernel counts a netlink socket for a while after its end
	int diag;    // for net_inode from outside; -1 where the kernel has no such thing
	int wide4, wide6; // bound, not listening: see net_wide. wide6 is -1 where there is no IPv6
};
#define NET_SOCKETS_NONE ((struct net_sockets){-1, -1, -1, -1, -1, -1, -1, -1})

int net_lo_up(struct err *e) MUST_USE; // needs CAP_NET_ADMIN over the network namespace
// In a new namespace with CAP_NET_ADMIN and CAP_NET_BIND_SERVICE over it. UNSUPPORTED where the kernel does not have
// what it takes; then nothing was changed (net_lo_up is still to be called), and *out is all -1.
int net_setup(struct net_sockets *out, struct err *e) MUST_USE;
void net_sockets_close(struct net_sockets *s);
// From anywhere: connections to addresses come to this wide socket, or are refused again. Those that were accepted live on.
int net_wide(int fd, bool on, struct err *e) MUST_USE;

// After the capabilities are gone: there is no way out. gated: net_setup was done.
int net_self_test(bool gated, struct err *e) MUST_USE;

// A connection in the cell by its own end and the other one: addresses in network order, ports in the host's.
struct net_ends {
	uint8_t address[16], peer[16];
	uint16_t port, peer_port;
	bool six, udp;
};
uint64_t net_inode(int diag, const struct net_ends *t); // of the socket at its own end; 0 = not known

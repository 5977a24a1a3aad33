// SPDX-License-Identifier: Apache-2.0
// Whether a network namespace is still as it was made, for a mold that wants to serve another cell.
//
// What a cell without rights over the namespace can leave behind when its last process has ended is not listed here: the
// kernel's own description of the namespace, the files of /proc/net, is kept as it was and compared byte by byte. A file that
// this code does not know is compared too. Left out by name are files that tell of the whole host, and lists of what is
// counted in another file that is compared. What has no file there (rules, packet filter, xfrm, settings, metrics of
// connections) takes a capability over the namespace, which nothing in a cell has, or packets, which are counted.
#pragma once
#include "base/buf.h"

struct net_state {
	int dir; // /proc/net of the namespace, -1 = not open
	struct buf was;
};
#define NET_STATE_NONE ((struct net_state){.dir = -1})

// In the namespace, where the host's /proc can be seen and nobody else is yet.
int net_state_open(struct net_state *s, struct err *e) MUST_USE;
bool net_state_same(const struct net_state *s); // false also when that can not be told
void net_state_done(struct net_state *s);

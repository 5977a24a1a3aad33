// SPDX-License-Identifier: Apache-2.0
// Netlink messages by hand: skep-cell links no library. One buffer holds everything that goes to the kernel with one
// call; attributes go to the message begun last.
#pragma once
#include "base/err.h"
#include <stddef.h>
#include <stdint.h>

struct nl {
	uint32_t n, msg;	  // bytes used, start of the message begun last
	_Alignas(4) char p[4096]; // what we send is a fixed list; past it is a bug
};

int nl_open(int protocol, struct err *e) MUST_USE; // NETLINK_*: close-on-exec, non-blocking
void nl_begin(struct nl *b, uint16_t type, uint16_t flags, const void *head, size_t n); // head: the family's own
void nl_put(struct nl *b, uint16_t type, const void *p, size_t n);
void nl_put_str(struct nl *b, uint16_t type, const char *s); // with its NUL
void nl_put_be32(struct nl *b, uint16_t type, uint32_t v);
uint32_t nl_nest(struct nl *b, uint16_t type); // what follows lies inside, until nl_unnest of what it returned
void nl_unnest(struct nl *b, uint32_t nest);

// Sends all messages. The kernel works on them before it returns and answers what failed, also where no answer was
// asked for: so none is. First failure: its errno, and the number of its message in *out_at; 0 = all done; -1 and *e:
// could not be asked at all.
int nl_talk(int fd, const struct nl *b, uint32_t *out_at, struct err *e) MUST_USE;

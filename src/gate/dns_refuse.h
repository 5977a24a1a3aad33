// SPDX-License-Identifier: Apache-2.0
// Names that the resolver refused, told to the journal: each once in a while, by which rule, and with the command that
// asked. That is found by its socket, so the answer to a datagram waits until it is known, GATE_WHO_MS at most.
#pragma once
#include "gate/addr.h"
#include "gate/dns.h"

struct frame;
struct refused_names;

struct refused_names *refused_names_new(struct gate *g);
// Tells of it. from: who sent the datagram, NULL = a stream, which is told at once. True: answer (copied) goes to fd when
// the command is known; false: the caller sends it.
bool refused_name(struct refused_names *r, const struct dns_query *q, const union addr *from, int fd, const struct buf *answer);
void refused_names_who(struct refused_names *r, const struct frame *f); // M_WHO's answer; an unknown id is somebody else's
void refused_names_end(struct refused_names *r);			 // what waits is told now

// SPDX-License-Identifier: Apache-2.0
// Connections from the cell, from accept to end.
//
//   accept -> judged (ask: held) -> head: first bytes awaited -> passed through | opened
//                   \-> refused: waits for M_WHO's answer, GATE_WHO_MS at most; then the event, then a reset
//
// Ports 80 and 443, and every port where a rule wants the connection opened, wait for the first bytes before anything
// is dialled. On other ports the server may speak first: it is dialled at once, and the client's first bytes are looked
// at before they are let through. TLS is let through nowhere unless it names the host that the client had resolved;
// to an address that was dialled as it is, only if it names none.
#pragma once
#include "base/chan.h"

struct gate;

// Takes the listeners: for names, for IPv4 and for IPv6 addresses; -1 = absent.
int conn_serve(struct gate *g, const int fds[3], struct err *e) MUST_USE;
void conn_who(struct gate *g, const struct frame *f);		// M_WHO's answer
void conn_policy(struct gate *g);  // judges every connection again, ends those no longer allowed
void conn_end_all(struct gate *g); // the gate ends: tells of every connection still open

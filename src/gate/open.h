// SPDX-License-Identifier: Apache-2.0
// Connections the gate looks into: plain HTTP, and TLS to hosts for which policy_opens() is true. Terminated here
// towards the cell, dialled anew towards the host; every request is judged by itself, secrets go in, echoes are
// masked.
#pragma once
#include "gate/gate.h"

// Before the gate seals itself: opens the files of trusted CAs (the system's, and SKEP_CA_FILE beside it), starts
// OpenSSL.
int opened_init(struct gate *g, struct err *e) MUST_USE;
// g->secrets or g->ca_cert is new. Connections that used a secret which is gone or has another value now are ended.
int opened_secrets(struct gate *g, struct err *e) MUST_USE;
void opened_policy(struct conn *c); // c may go on, but requests on it may not: those end
// Takes client_fd (non-blocking). first is what was read from it already. c->opened and c->stop are set;
// conn_closed(c) follows from the loop.
void opened_start(struct gate *g, int client_fd, const void *first, size_t n, const struct host_name *host,
		  uint16_t port, bool tls, struct conn *c);
void opened_done(struct gate *g); // the gate ends: frees what is shared. No connection may be open.

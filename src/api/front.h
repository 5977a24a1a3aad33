// SPDX-License-Identifier: Apache-2.0
// The door to TCP: accepts, counts, waits for a whole head without reading it, and hands the connection on.
//
// A connection is `new` until its first head is there, at most FRONT_HEAD_MS. The head is looked at with MSG_PEEK, so who
// gets the connection reads it from its first byte: a taker that wants it, else the HTTP server. The number of connections
// is bounded, in all and per address; who is over the bound is told 503 and closed. Nothing here authenticates.
#pragma once
#include "base/loop.h"
#include "http/head.h"
#include <netinet/in.h>

struct front;

#define FRONT_HEAD_MAX (32u << 10) // bytes of a head
#define FRONT_HEAD_MS 10000	   // until a new connection's head is there
#define FRONT_IDLE_MS 75000	   // between two requests of a connection
#define FRONT_CONNS 4096	   // in all
#define FRONT_CONNS_PEER 1024	   // of one address that is not loopback

// One accepted connection, counted until front_close.
struct front_conn {
	struct front *front;
	int fd; // non-blocking, close-on-exec
	struct sockaddr_storage peer;
	bool behind_proxy; // its head carries X-Forwarded-For: a reverse proxy may mix hosts on one connection

	// the front's
	struct watch w;
	struct timer late;
	struct front_conn *prev, *next;
	enum { FRONT_NEW, FRONT_SERVED, FRONT_TAKEN, FRONT_REFUSED } state;
};

// Who takes connections off the HTTP server's hands: the preview of ports. Asked once per connection (and again after
// front_again), with its head.
struct front_taker {
	bool (*wants)(void *ctx, const struct http_head *h);
	// From here on the connection is the taker's: it reads c->fd from the head's first byte and ends with front_close.
	// Deadlines are its own. It is told before the front goes (stop): then it closes at once what it has.
	void (*take)(void *ctx, struct front_conn *c, const struct http_head *h);
	void (*stop)(void *ctx);
	void *ctx;
};

// One taker; borrowed. Before the first listener.
void front_set_taker(struct front *f, const struct front_taker *t);
void front_close(struct front_conn *c); // closes the descriptor too; the struct lives until the end of the round
// After a whole exchange of which nothing is left unread or unwritten: waits for the next head, FRONT_IDLE_MS at most.
void front_again(struct front_conn *c);

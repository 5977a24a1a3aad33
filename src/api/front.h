// SPDX-License-Identifier: Apache-2.0
// The door to TCP: accepts, counts, waits for a whole head without reading it, and hands the connection on.
//
// A connection is `new` until its first head is there, at most FRONT_HEAD_MS. The head is looked at with MSG_PEEK, so who
// gets the connection reads it from its first byte: a taker that wants it, else the HTTP server. The number of connections
// is bounded, in all and per address: at the bound those that only wait make room, the longest first; where none does, the
// newcomer is told 503. Nothing here authenticates.
#pragma once
#include "base/id.h"
#include "base/loop.h"
#include "http/head.h"
#include <netinet/in.h>

struct front;
struct request;

#define FRONT_HEAD_MAX (32u << 10) // bytes of a head
#define FRONT_HEAD_MS 10000	   // until a connection's head is there
#define FRONT_IDLE_MS 30000	   // between two requests of a connection
#define FRONT_BODY_MS 30000	   // a body may stand still so long; and it has to come with 1 KiB/s
#define FRONT_REFUSED_MS 5000	   // for the rest of the body of a request that was refused by its head
#define FRONT_END_MS 10000	   // what is under way when its listener is closed has so long to end
#define FRONT_CONNS 4096	   // in all
#define FRONT_CONNS_PEER 1024	   // of one address that is not loopback
#define FRONT_LISTENERS 16

// An address skepd listens on.
struct listener {
	char id[ID_SIZE]; // l…
	char *address;	  // "127.0.0.1:8080", as it was bound
	char **hosts;	  // names it is known under outside (of --public-url); never NULL
	char *url;	  // how to reach it
	bool insecure;	  // loopback only: who comes without a token may what an admin token may

	// the front's
	struct front *front;
	struct watch w;
	struct timer calm; // no descriptors are left: a pause
	int n_conns;
	bool closed;
	struct listener *next;
};

// One accepted connection, counted until front_close.
struct front_conn {
	struct front *front;
	struct listener *listener;
	int fd; // non-blocking, close-on-exec
	struct sockaddr_storage peer;
	bool behind_proxy; // its head carries X-Forwarded-For: a reverse proxy may mix hosts on one connection

	// the front's
	struct watch w;
	uint64_t deadline; // 0 = none
	uint64_t until;	   // Unix ms; 0 = none
	struct front_conn *prev, *next;
	enum { FRONT_NEW, FRONT_SERVED, FRONT_TAKEN } state;
	bool closing;		 // its listener is closed: no further request
	struct request *request; // that is under way; the server's
};

// Who takes connections off the HTTP server's hands: the preview of ports. Asked once per connection (and again after
// front_again), with its head.
struct front_taker {
	bool (*wants)(void *ctx, const struct http_head *h);
	// From here on the connection is the taker's: it reads c->fd from the head's first byte and ends with front_close.
	// Deadlines are its own. It is told before the front goes (stop): then it closes at once what it has.
	void (*take)(void *ctx, struct front_conn *c, const struct http_head *h);
	void (*stop)(void *ctx);
	bool (*is_void)(void *ctx, const struct front_conn *c); // what let its request in does not any more
	void *ctx;
};

// serve takes the descriptor; front_gone is called when it is closed.
struct front *front_new(struct loop *l, void (*serve)(void *ctx, struct front_conn *c), void *ctx);
void front_free(struct front *f); // closes what is new or taken; the HTTP server has ended the others before

// One taker; borrowed. Before the first listener.
void front_set_taker(struct front *f, const struct front_taker *t);
const struct front_taker *front_get_taker(const struct front *f); // NULL = none
void front_close(struct front_conn *c); // closes the descriptor too; the struct lives until the end of the round
// After a whole exchange of which nothing is left unread or unwritten: waits for the next head, FRONT_IDLE_MS at most.
void front_again(struct front_conn *c);

// address: ADDR:PORT or [ADDR]:PORT, numeric or localhost; port 0 = any. public_url: http(s)://HOST[:PORT][/], or NULL.
struct listener *front_listen(struct front *f, const char *address, bool insecure, char *const *public_urls,
			      struct err *e) MUST_USE; // borrowed
// No new connections; those that wait are closed, the others may end.
void front_unlisten(struct listener *l);
void front_listeners(struct front *f, void (*each)(void *ctx, const struct listener *l), void *ctx);
struct listener *front_listener(struct front *f, const char *id); // NULL = none
// Is this a name or address the connection may be asked under? DNS rebinding shows as one that is not.
bool front_knows_host(const struct front_conn *c, struct str host);
// Is it what the names of previews end in here: one of --public-url, or localhost where there is none?
bool front_ends_previews(const struct front_conn *c, struct str rest);

// For the HTTP server.
struct front_conn *front_by_fd(struct front *f, int fd); // served ones; NULL = none
void front_gone(struct front_conn *c);			  // the server is closing its descriptor
void front_wait(struct front_conn *c, uint64_t ms);	  // it is cut then; 0 = never

// What let the request in that is under way ends then (Unix ms, 0 = never): it is cut.
void front_until(struct front_conn *c, uint64_t unix_ms);
// Cuts those whose request nobody would let in now.
void front_recheck(struct front *f, bool (*is_void)(void *ctx, const struct front_conn *c), void *ctx);

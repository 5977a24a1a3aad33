// SPDX-License-Identifier: Apache-2.0
// The gate of one cell: what its parts share, and the services an opened connection (gate/open.h) is built on.
//
// One thread, one loop; nothing here blocks. Life of a connection: conn.c accepts it, finds the name behind its
// synthetic address, asks M_WHO, judges it, reads the first bytes, and then either passes it through or hands it to
// opened_start(), which from then on owns the client's socket and ends with conn_closed(). Every way out of the gate
// is gate_judge() for the question "may it" and gate_connect() for the way "where to": nobody else resolves or dials.
#pragma once
#include "base/buf.h"
#include "base/chan.h"
#include "base/loop.h"
#include "gate/addr.h"
#include "model/policy.h"

#define GATE_CONNS 4096		   // live connections, those in head state included; fewer where descriptors are few
#define GATE_CONN_FDS 6		   // descriptors of one that moves bytes both ways: its sockets and two pipes
#define GATE_HEADS 1024		   // connections whose first bytes are still awaited or that wait for an answer
#define GATE_OPENED 512		   // opened connections: each has two TLS states of its own
#define GATE_CROWDED_MS 500	   // for the first bytes when others wait for a place
#define GATE_FIRST_MS 10	   // then the host may speak first, where nothing needs to be seen before
#define GATE_HEAD_MS 10000	   // for the first bytes; an opened connection: for a TLS handshake or a request head
#define GATE_IDLE_MS (3600 * 1000) // no byte either way
#define GATE_BUFFER (64u << 10)	   // bytes held in our memory per direction of a connection
#define GATE_PIPES 4		   // kept when empty
#define GATE_CONNECT_MS 10000	   // one address
#define GATE_ADDRESSES 3	   // addresses tried for one connection
#define GATE_ASK_MS 60000	   // no answer by then is No
#define GATE_ASKS 32		   // questions open at once; one more is No
#define GATE_WHO_MS 50		   // a refusal waits this long for the name of the command that caused it
#define GATE_EVENTS 200		   // events of a kind a second; the rest is counted in one summary
#define GATE_SHARES 4		   // kinds with a share of their own (event.c)

struct conn;
struct dns;
struct resolver;
struct asks;
struct agent;

struct gate {
	struct loop loop;
	struct chan cell;		       // channel G
	char *sandbox, *resolver_at, *ca_cert; // resolver_at "" = the system's; ca_cert: PEM, "" = none
	struct policy policy;
	uint32_t policies; // grows with every new one
	struct secrets secrets;	     // replaced as a whole by M_SECRETS
	uint32_t secrets_generation; // grows with every replacement
	struct listener {
		struct watch w; // fd -1 while it is not waited for
		struct gate *g;
		int fd; // -1 = there is none
	} listeners[3]; // of the names, and the wide ones for addresses, which count only while `wide`
	bool listening, wide;
	int pipes[GATE_PIPES][2]; // empty ones, kept for the next bytes to move
	size_t n_pipes;
	struct timer relisten, crowded;
	struct conn *conns;
	size_t n_conns, max_conns, n_heads, n_opened;
	uint32_t last_id; // of connections and questions
	struct dns *dns;
	struct resolver *resolver;
	struct asks *asks;
	struct agent *agent; // NULL: no ssh key was ever given
	struct { // event rate
		uint64_t second;
		uint32_t sent[GATE_SHARES], names, dropped;
		struct timer summary;
	} events;
	void *opened; // gate/open.h's own: CA, TLS contexts
};

// One connection from the cell. Owned by conn.c; an opened one is freed by conn_closed().
struct conn {
	struct gate *g;
	struct conn *next, **link;
	uint32_t id;
	struct host_name host;	      // what the client asked the resolver for: canonical, the only name that counts
	bool literal;		      // it dialled an address: host is its text, and there is no name
	uint16_t port;		      // what the client dialled
	uint16_t source_port;	      // inside the cell
	uint64_t started_ms;	      // clock_ms
	uint64_t bytes_in, bytes_out; // upstream -> client, client -> upstream; whoever moves them counts them
	uint32_t requests;   // net.request events sent for it: an opened connection that sent some needs no other
	bool tls, answered;  // answered: somebody said yes to this very connection
	char *sni;	     // owned; NULL = none seen
	char *rule;	     // owned text of the rule that let it through, NULL = none
	union addr upstream; // family 0 until dialled
	char address[INET6_ADDRSTRLEN]; // the same as text, "" until dialled
	char *exec, *command;		// owned; NULL until M_WHO was answered
	uint32_t pid;

	// Opened connections: set by opened_start before it returns.
	void *opened;
	// The policy no longer allows it, or the gate ends: close both sides at once, then conn_closed(c).
	void (*stop)(struct conn *c, const char *why);
	struct conn_own *own; // conn.c's
};

// --- may it ---

// Embedded in whatever waits. While it waits it must stay where it is; judging_done before it goes.
struct judging {
	void (*fn)(struct judging *j, enum verdict v); // ALLOW or DENY; set by the caller
	struct conn *c;
	char *rule;	 // the deciding rule's text, owned here until judging_done; NULL = none
	const char *why; // of a DENY: constant text
	bool quiet;	 // set by the caller: it tells of a DENY itself
	struct judging *next;
	struct ask *ask; // NULL when not waiting
};
// Judges one request (method and path NULL: the connection itself). ALLOW or DENY at once, or ASK: somebody is being
// asked and j->fn is called later from the loop, exactly once. A DENY has already sent its `denied` event.
enum verdict gate_judge(struct conn *c, struct judging *j, const char *method, const char *path);
void judging_done(struct judging *j); // cancels if waiting (fn is not called any more), frees the text; safe on zeroes

// --- where to ---

struct dialing {
	// fd: connected, non-blocking, the callee's now; or -1 with the reason. Never called from inside gate_connect.
	void (*fn)(struct dialing *d, int fd, const struct err *e); // set by the caller
	struct conn *c;
	struct dial *dial; // NULL when not under way
};
// Resolves c->host outside the cell, judges every address, connects to one of the judged ones (c->port), and notes it
// in c->upstream and address. A refused address sends its `denied` event, ERR_DENIED then; else UNAVAILABLE, TIMEOUT,
// LIMIT or NOT_FOUND. May be used again on the same connection for a further upstream connection.
void gate_connect(struct conn *c, struct dialing *d);
// NULL when c may be connected to a; else what is wrong with it.
const char *gate_address_fault(const struct conn *c, const union addr *a);
void dialing_cancel(struct dialing *d); // safe when not under way

// --- what happened ---

// Sends an event. members: JSON members without braces, may be NULL. With c the common ones are put before them: name,
// port, conn, address, exec, pid, command. Rate-limited: it may be counted instead of sent.
void gate_event(struct gate *g, struct conn *c, const char *type, const struct buf *members);
// denied {what, name, port, why, rule, ...}: what is "dns", "connect", "sni", "address", "request", "secret", "policy".
void gate_denied(struct gate *g, struct conn *c, const char *what, const char *why, const char *rule);

// --- the rest ---

const struct secrets *gate_secrets(const struct gate *g); // borrowed until the next event from the loop
void gate_tune(int fd);	 // small pieces leave at once, a peer that is gone is noticed
void gate_reset(int fd); // takes fd: the peer sees a reset at once instead of an orderly end
// The connection is over and its sockets are closed: sends net.request unless per-request ones were sent, frees c after
// the event batch. Outstanding judgings and dialings must be done with. error: why it came to nothing, NULL = it did not.
void conn_closed(struct conn *c, const char *error);

// --- life (gate.c, for bin/skep-gate.c) ---

int gate_run(int chan_fd, struct err *e) MUST_USE; // reads the start frames, seals, serves until the channel ends

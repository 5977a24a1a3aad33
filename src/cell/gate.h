// SPDX-License-Identifier: Apache-2.0
// The supervisor's side of the gate. It holds the sockets that were made in the cell's network; when one of them has
// something waiting it starts skep-gate, hands them over and from then on only carries messages: events to the journal,
// questions to whoever can answer. The gate sees hostile bytes, so nothing it says is believed further than that.
//
// If it dies it is started again by the next thing that waits; one that keeps dying stays closed. Nothing but a running
// gate ever reads from those sockets: without it nothing leaves.
#pragma once
#include "base/chan.h"
#include "cell/refused.h"
#include "isolate/net.h"
#include "model/msg.h"
#include "model/policy.h"
#include "model/spec.h"

#define GATE_STARTS 5 // in GATE_STARTS_MS; one more and it stays closed
#define GATE_STARTS_MS 60000
#define GATE_READY_MS 5000 // from start to serving
#define GATE_ASKS 32	   // open at once; one more is No
#define GATE_ASK_MS 65000  // the gate itself gives up before that
#define GATE_END_MS 200	   // for its last events
#define GATE_EVENTS 2000	   // a second; it rations itself to fewer, by kinds

struct cell;
struct client;

struct gate_listener {
	struct watch w;
	struct gate *gate;
	int fd;
};

struct gate_ask {
	uint32_t id;
	uint64_t until_ms;
	struct buf frame; // as it came, for who comes later
};

struct gate {
	struct cell *cell;   // NULL: this cell has none
	const char *program; // NULL = skep-gate beside our own program; tests have another
	struct gate_listener listen[GATE_SOCKETS];
	struct net_sockets sockets;
	struct refused refused;
	struct chan chan; // fd -1 when none runs
	struct gate_process *process; // NULL = none
	bool serving, shut;
	bool wide; // addresses may be dialled: the wide listeners listen
	struct timer late, ask_late;
	uint64_t starts[GATE_STARTS];
	unsigned n_starts;
	char last_words[160]; // why it ended, if it said
	// What it is told: empty policy = allows nothing.
	struct buf policy;
	char *resolver, *ca_cert, *ca_file;
	int secrets; // sealed memory, or -1
	bool agent_asked; // init was asked for the ssh agent's socket
	struct gate_ask asks[GATE_ASKS];
	unsigned n_asks;
	uint64_t second_ms;
	uint32_t events, dropped;
};

// Takes the sockets. From here on what was refused is recorded, and the gate starts when something waits.
int gate_init(struct gate *g, struct cell *c, struct net_sockets *s, struct err *e) MUST_USE;
// What it may do, replaced as a whole; a running gate is told at once. Of n counts what is not the cell's own: its
// files and secrets do not. secrets: sealed memory, -1 = none, taken.
void gate_set(struct gate *g, const struct cell_net *n, int secrets);
// The same from a K M_POLICY frame. INVALID: nothing was changed.
int gate_policy(struct gate *g, struct frame *f, struct err *e) MUST_USE;
// Ends it, after its last events; before the journal is closed. Safe twice and on a zeroed gate. The sockets of one that
// never had to start go back.
void gate_end(struct gate *g, struct net_sockets *back);

// Carried for others: each safe when there is no gate.
void gate_who(struct gate *g, const struct frame *f);				    // I M_WHO: init's answer
void gate_agent(struct gate *g, struct frame *f); // I M_AGENT: the listener inside
void gate_answer(struct gate *g, const struct frame *f, const struct client *from); // C and K M_ANSWER
void gate_client_gone(struct gate *g); // somebody who might have answered left: after it is off the list
void gate_replay(struct gate *g);      // a new skepd: what is still asked

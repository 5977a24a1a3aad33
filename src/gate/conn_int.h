// SPDX-License-Identifier: Apache-2.0
// conn.c and head.c: what the gate knows of a connection that opened ones do not.
#pragma once
#include "gate/gate_int.h"
#include "gate/hello.h"
#include "gate/ssh_seen.h"

// An event that waits for the name of its command.
struct held_event {
	struct held_event *next;
	char *type;
	struct buf members;
};

struct conn_own {
	struct conn *c;
	struct pass *pass; // NULL once opened or over
	struct judging judging;
	struct dialing dialing;
	struct buf head;
	struct request_scan scan; // of a client that speaks neither TLS nor HTTP
	struct ssh_seen *ssh; // NULL: no key is bound to its host
	struct timer timer;	 // for the head, or until the host may speak first; then for M_WHO's answer
	struct held_event *held; // the oldest first
	size_t n_held;
	struct timer who_late;
	uint32_t synthetic; // address held in the resolver's table, 0 = none
	union addr source, dialled; // both ends inside
	enum verdict verdict;
	bool in_head, who_asked, who_pending, head_seen, opened, over;
	const char *what; // being refused: as in the event
	char *why, *error;
};

// conn.c
void conn_ask_who(struct conn *c);			// which command it is, once
void conn_set_head(struct conn *c, bool in_head);	// counts it among those whose first bytes are awaited
void conn_set_opened(struct conn *c);			// it is handed over
void conn_end_error(struct conn *c, const char *error); // NULL: an ordinary end
// Tells of it, resets it; both at once, or when M_WHO is answered: c may be gone afterwards.
void conn_refuse(struct conn *c, const char *what, const char *why);

// event.c
void events_release(struct conn *c); // the command is known, or will not be: what was held is sent

// head.c
void head_start(struct conn *c);  // it is allowed: waits for its first bytes
void head_read(struct conn *c);	  // there are some
void head_silent(struct conn *c); // there are none so far, and it need not send any

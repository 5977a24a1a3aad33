// SPDX-License-Identifier: Apache-2.0
// An opened connection from the inside: open.c joins the two streams, a driver (h1.c, h2.c) speaks the protocol, and
// exchange.c does for one request what does not depend on the protocol.
#pragma once
#include "gate/fields.h"
#include "gate/gate.h"
#include "gate/mask.h"
#include "gate/override.h"
#include "gate/swap.h"
#include "gate/tls.h"

#define OPENED_IDLE_MS (300 * 1000) // a kept connection on which no request is under way

// Why a request is answered by the gate itself.
enum refusal {
	REFUSE_NONE,
	REFUSE_BAD,  // not a request we pass on
	REFUSE_HOST, // for another host than the connection
	REFUSE_POLICY,
	REFUSE_SECRET, // a placeholder where it may not be
	REFUSE_REACH,  // the host can not be reached
	REFUSE_ADDRESS, // it has one that no rule allows
	REFUSE_CERT,   // its certificate is not valid
	REFUSE_ANSWER, // its answer is malformed
	REFUSE_CODING, // its answer can not be searched for secrets
	REFUSALS,
};
int refusal_status(enum refusal r);
const char *refusal_reason(enum refusal r); // "Forbidden"
// The body: constant text, and for POLICY the rule. Never anything of the request or the answer.
void refusal_text(enum refusal r, const char *rule, struct buf *out);

struct opened;

// One request and its answer.
struct exchange {
	struct opened *o;
	void (*judged)(struct exchange *x, enum refusal why); // set by the driver. NONE: req may go out as it is now
	// Set by the driver after exchange_init: bytes of the answer that were held back and go on now.
	void (*late_bytes)(struct exchange *x, const struct buf *clean);
	struct timer late;
	struct head req;
	struct judging judging; // its rule is the one that decided
	char *method, *path;	// as the client sent them, for the journal
	struct mask mask;
	struct swap_search search;
	struct form_scan form;
	bool begun, masked, searching;
	unsigned interim; // answers before the answer
	char **secrets; // names of those that went in
	int status;
	enum refusal refused;
	uint64_t began_ms, up, down; // body bytes as the host sees them
};
void exchange_init(struct exchange *x, struct opened *o, void (*judged)(struct exchange *x, enum refusal why));
// x->req is complete; authority is what the client calls the host (NULL: nothing or twice). judged() follows, at once
// or later.
void exchange_begin(struct exchange *x, const char *authority);
// The policy is new. False: it no longer allows what is under way (the event is sent), and the driver ends it.
bool exchange_is_allowed(struct exchange *x);
// A piece of the request's body. False: it has a placeholder or says another method, and must not go out (the event is sent;
// x->refused says which).
bool exchange_up(struct exchange *x, const char *p, size_t n);
bool exchange_up_trailer(struct exchange *x, struct head *trailer); // likewise; credentials are taken from it
// The answer's head (also interim ones and trailers), masked in place. Not NONE: nothing of the answer may go on.
enum refusal exchange_answer(struct exchange *x, struct head *answer);
// A piece of the answer's body, masked, appended to out.
void exchange_down(struct exchange *x, const char *p, size_t n, bool end, struct buf *out);
void exchange_done(struct exchange *x); // sends net.request; safe on zeroes

struct driver {
	void *(*start)(struct opened *o);
	void (*client_data)(void *d, const char *p, size_t n);
	void (*server_data)(void *d, const char *p, size_t n);
	void (*client_drain)(void *d);
	void (*server_drain)(void *d);
	void (*client_end)(void *d, bool clean);
	void (*server_end)(void *d, bool clean);
	void (*dialled)(void *d); // after opened_dial: the host is there, or o->failed says why not
	bool (*is_idle)(void *d); // no request under way
	void (*policy)(void *d);  // it is new: what it does not allow any more ends
	void (*stop)(void *d);	  // ends its exchanges; no callback comes any more
	void (*free)(void *d);
};
extern const struct driver h1_driver, h2_driver;

struct used_secret {
	char *name;
	uint8_t digest[32];
};

struct opened {
	struct gate *g;
	struct conn *c;
	struct opened *next, **link;
	struct tls client, server;
	struct dialing dialing;
	const struct driver *driver;
	void *d;
	struct timer timer;
	uint64_t last_ms, limit_ms; // the connection is late limit_ms after last_ms
	bool fixed;		    // ... and bytes do not put it off
	bool tls, verified, over;
	enum refusal failed; // the host was not reached
	char *error;	     // owned: why not, for the journal
	struct used_secret *used;
	size_t n_used;
};

struct opened_all { // gate.opened
	struct tls_ctx ctx;
	struct ca *ca; // NULL: nothing can be opened
	struct opened *list;
	struct mask_set *masks; // of the present secrets; made when first needed
	bool masks_made;
};

void opened_dial(struct opened *o);			     // plain connections only: dialled() follows
void opened_late(struct opened *o, uint64_t ms, bool fixed); // from now on; fixed: whatever comes
void opened_finish(struct opened *o, bool broken); // what the client has been given is sent, then both ends close
void opened_used(struct opened *o, const struct swap_used *u);
struct swap opened_swap(const struct opened *o);
struct mask_set *opened_masks(struct opened *o); // one use, taken by the caller; may be NULL

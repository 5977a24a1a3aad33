// SPDX-License-Identifier: Apache-2.0
// From a name to addresses, outside the cell (c-ares). Answers are kept for their TTL, at most RESOLVE_TTL_MS. Nothing
// is judged here: gate_connect does that with what it is given, each time.
#pragma once
#include "base/err.h"
#include "base/loop.h"
#include "gate/addr.h"
#include "model/name.h"
#include <stddef.h>

#define RESOLVE_NAMES 256    // answers kept
#define RESOLVE_PENDING 64   // questions under way
#define RESOLVE_ADDRESSES 16 // of one answer
#define RESOLVE_TTL_MS 60000
#define RESOLVE_FAILED_MS 2000	   // a failure is kept this long
#define RESOLVE_HOSTS (256u << 10) // bytes of /etc/hosts

struct answer {
	union addr a[RESOLVE_ADDRESSES];
	size_t n;
};

// Embedded in whoever waits; must stay where it is until fn was called or resolving_cancel.
struct resolving {
	void (*fn)(struct resolving *r, const struct answer *a, const struct err *e); // a NULL: failed
	struct resolving *next;
	struct lookup *lookup; // NULL when not waiting
};

struct resolver;
// at: "" or NULL = as this machine is set up (resolv.conf and the hosts file, read now); else ADDR:PORT alone.
// Reads every file it will ever need.
struct resolver *resolver_new(struct loop *l, const char *at, struct err *e) MUST_USE;
void resolver_free(struct resolver *r);
// fn is called from the loop, or before this returns when the answer is known.
void resolver_ask(struct resolver *r, const struct host_name *name, struct resolving *w);
void resolving_cancel(struct resolving *w);

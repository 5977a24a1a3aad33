// SPDX-License-Identifier: Apache-2.0
// Heavy or dangerous work is done by sister programs (skep-image, skep-gate, skep-repo), never by skepd itself: a child
// whose stdout is collected and whose end is told from the loop.
#pragma once
#include "base/json.h"
#include "engine/engine_int.h"

struct child_spec {
	const char *program; // its name: it stands beside skep-image
	char *const *argv;   // argv[0] too
	char *const *env;    // NULL = a plain PATH
	size_t out_max;	     // bytes of stdout
	uint64_t timeout_ms; // 0 = none
	bool secret;	     // what it says is wiped
	const struct buf *in; // its stdin; NULL = none
	bool group;	     // a process group of its own: child_kill ends what it started, too
	bool want_err;	     // its stderr is collected too, not logged
	bool waits;	     // its stdin comes later, by child_feed, or not at all
	void (*said)(void *ctx, struct buf *out); // after each piece of stdout; may cut off what it has understood. NULL = none
};
struct child_end {
	int status; // as of waitpid; -1 unknown
	const struct buf *out;
	const struct buf *err; // with want_err
};

// ended is called once, from the loop, unless child_free_all comes first. NULL when it could not be started.
struct child *child_start(struct engine *g, const struct child_spec *s, void (*ended)(void *ctx, const struct child_end *end), void *ctx,
			  struct err *e);
// The last line as JSON, owned; the child's own error becomes *e.
json_t *child_json(const struct child_end *end, const char *program, struct err *e) MUST_USE;
// What one that waits has to do, and who is told of its end instead. -1: it can not be told any more; another one must be
// started.
int child_feed(struct child *c, const struct buf *in, void (*ended)(void *ctx, const struct child_end *end), void *ctx) MUST_USE;
bool child_waits(const struct child *c);
void child_dismiss(struct child *c); // one that waits: there is nothing to do for it
void child_kill(struct child *c); // it is told to end; ended() follows
void child_term(struct child *c); // the same by SIGTERM, which it may put off
void child_free_all(struct engine *g); // they are left to themselves

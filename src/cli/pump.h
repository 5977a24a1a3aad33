// SPDX-License-Identifier: Apache-2.0
// Moves the bytes of one exec between a cell's socket (channel C of model/msg.h) and our descriptors, to
// the end of the exec. On this machine skepd is not in the path and may die meanwhile; from another one the line may break,
// and is made anew (cli/line.h).
#pragma once
#include "model/pending.h"
#include "model/spec.h"

struct pump_spec {
	const char *socket, *ticket;
	const char *exec; // its id, for the way back from another machine; NULL = not known
	int in, out, err;	     // -1 = not wanted
	bool tty;		     // the exec has a pty: our terminal is raw, and its size is followed
	bool forward;		     // our signals go to the exec
	bool join;		     // others may have been attached before
	bool to_end;		     // the cell ends with the exec: wait for its last words, what changed
	bool plain;		     // on a terminal, what steers it is shown and not obeyed (cli/plain.h)
	bool hits;		     // limits that were hit are told on stderr, each message once
	uint64_t out_from, err_from; // first byte wanted
};

struct pump_result {
	struct exec_result exit;
	bool out_closed;    // nobody reads our output any more; the exec goes on without us
	uint32_t n_changes; // with has_changes: the cell ended with the exec; may be CHANGES_UNKNOWN
	char **changes;	    // "M path"; not all when there are many
	struct changes_sum sum; // what is pending beside files
	bool has_changes, removed;
	char **hits; // messages told
};
void pump_result_done(struct pump_result *r);
bool pump_has_told(const struct pump_result *r, const char *msg); // as a hit

// 0 when the exec ended or our reader did. UNAVAILABLE when the cell died under it. Does not return when a
// signal ends us.
int pump_run(const struct pump_spec *s, struct pump_result *out, struct err *e) MUST_USE;

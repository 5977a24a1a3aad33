// SPDX-License-Identifier: Apache-2.0
// The verbs that change something: apply, undo, dismiss. Each is one transaction of review_txn.h.
#pragma once
#include "base/delta.h"
#include "workspace/review.h"
#include "workspace/review_txn.h"

enum conflicts { CONFLICTS_STOP, CONFLICTS_SKIP, CONFLICTS_MARKERS };

// A part of the pending set. Paths name themselves and all below them.
struct selection {
	bool all;
	char **paths, **hunks; // borrowed, NULL-terminated, may be NULL
};

struct apply_spec {
	struct selection set;
	const char *digest; // what was reviewed; NULL = not checked (the caller shows and sends it)
	char **edits;	    // pairs: id of a taken hunk, lines that land instead of the sandbox's; borrowed, may be NULL
	bool accept_risk;
	char **accept; // paths whose risks were seen; borrowed
	enum conflicts conflicts;
	const char *to; // another directory than the sandbox's own; NULL = its own
	bool from_base; // only P + set is wanted: how the host stands does not count
	uint32_t umask;
};

struct apply_result {
	struct txn txn; // what was done
	char **skipped; // conflicting paths left out
	char *left;	// path left as the host has it, after a revert
};

// Why an apply or undo was refused, path by path; for the report.
struct refusal {
	struct {
		char *path, *why;
	} *v;
	size_t n;
};
void refusal_add(struct refusal *r, const char *path, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void refusal_done(struct refusal *r);
void apply_result_done(struct apply_result *r);

// Marks what the set names. NOT_FOUND for a path or hunk that is not pending.
int review_select(struct review *r, const struct selection *set, struct err *e) MUST_USE;
bool change_is_taken(const struct change *c);

// CONFLICT: the digest, a conflicting path (with CONFLICTS_STOP), or the host changed meanwhile. DENIED: risks not accepted.
// Then nothing was written.
int review_apply(const struct review_spec *spec, int log, const struct apply_spec *a, struct apply_result *out,
		 struct refusal *why, struct err *e) MUST_USE;
// NOT_FOUND when the stack is empty; CONFLICT where the host differs from what was applied.
int review_undo(const char *shadow, int log, uint32_t umask, struct apply_result *out, struct refusal *why,
		struct err *e) MUST_USE;
// Two streams, one after the other. The first marks what the set names, and writes what brings the sandbox's files back after
// a dismissal; the second what they must become so that only the rest is pending. Each content stands behind what must be
// there then.
int review_dismiss_back(struct review *r, const struct selection *set, struct delta_out *out, struct err *e) MUST_USE;
int review_dismiss(struct review *r, struct delta_out *out, uint64_t *out_paths, struct err *e) MUST_USE;

// For this room: the steps of the marked changes.
int review_steps(struct review *r, const struct apply_spec *a, struct txn *t, struct apply_result *out,
		 struct refusal *why, struct err *e) MUST_USE;

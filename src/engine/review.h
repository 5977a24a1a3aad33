// SPDX-License-Identifier: Apache-2.0
// How changes reach the real repository: each verb is a run of skep-review, whose words are given on as they are.
#pragma once
#include "engine/engine.h"

enum review_verb { REVIEW_DIFF, REVIEW_APPLY, REVIEW_DISMISS, REVIEW_UNDO, REVIEW_EXPORT, REVIEW_VERBS };
struct review_want {
	enum review_verb verb;
	bool all, accept_risk, no_text;
	bool ignored; // what git ignores on the host counts too
	char **paths, **paths_b64, **hunks; // which part of the pending set; none = all of it for diff and export
	char **accept, **accept_b64;	    // paths whose risks were seen
	char **edits;			    // apply: pairs of a hunk's id and the lines that land instead
	char *format, *conflicts, *digest, *to, *author, *email, *subject, *message;
	char *branch; // export: commits, as a branch of the directory
	bool bundle;  // export: commits, as a bundle
	uint64_t context;
	uint32_t umask_bits;
};
void review_want_done(struct review_want *w);
struct review_done {
	void (*fn)(void *ctx, const struct err *e, const struct buf *out); // out: what skep-review said (docs/review.md)
	void *ctx;
};
// Empties *w. The number is that of the review while it goes on, 0 when it has ended already.
uint64_t engine_review(struct engine *g, const char *id, struct review_want *w, struct review_done d);
// Its client has gone: it ends, unless it is just changing names on the host. Its answer still comes.
void engine_review_cancel(struct engine *g, uint64_t number);

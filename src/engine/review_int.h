// SPDX-License-Identifier: Apache-2.0
// Inside the engine: review. Everything that looks at what a sandbox made is done by skep-review; here it is asked, in
// steps: the base is pinned, the changes are copied out of the sandbox (a job of its init, read by skep-review itself),
// and then the copy is judged, landed or put back.
#pragma once
#include "engine/base_int.h"
#include "engine/review.h"

// pin.c: calls then(ctx, error or NULL) when what the base was is recorded; at once if it is.
void pin_wait(struct box *b, void (*then)(void *ctx, const struct err *e), void *ctx);

// export.c: what writes a bundle inside the cell
char *export_ref(void); // a name for the ref in it, owned
void export_command(struct exec_request *x, const char *ref, const char *head, const char *base, const char *message, bool all);

struct review_limits {
	uint64_t bytes, seconds, free; // contents that are copied; time; disk that is left free
};

// Something that goes on when a sandbox has no review any more.
struct review_wait {
	char box[ID_SIZE];
	void (*then)(void *ctx);
	void *ctx;
	struct review_wait *next;
};

// One of them, from the request to its answer.
struct review {
	struct engine *g;
	char box[ID_SIZE];
	struct review_want want;
	struct review_done done;
	uint64_t number;
	bool running;
	bool all; // a part was asked for, but could not be judged alone
	bool cancelled; // it ends with why
	bool changed;	// what is pending is to be counted anew
	struct err why;
	char job[ID_SIZE];   // the last exec that was begun for it
	struct child *child; // what runs for it now, or NULL
	struct timer late;
	struct review_limits limits;
	void (*settled)(struct review *r);
	struct actor actor;
	struct buf out;
	char *ref; // of an export of commits
	struct review *next;
};

// review_words.c
char *review_path(const struct review *r, const char *what); // in its sandbox's directory; owned
void review_request(const struct review *r, const struct sandbox *s, const char *ticket, struct buf *out); // ticket: of the job, or NULL
void review_note(struct review *r, struct box *b, const json_t *last); // last: the last line of the answer, or NULL

void review_scope_note(struct review *r, const json_t *last); // after a diff of some paths
void review_scopes_free(struct engine *g);

// review.c
void review_recover(struct engine *g); // what a power cut left half done
void review_free(struct engine *g);
void review_cancel(struct review *r, const struct err *e);
void review_cancel_all(struct engine *g, const char *box, bool force); // not forced: only those that only read
// Before a removal: reviews that only read are ended, with force all of them, and what an apply left half done is settled.
// False: there is nothing to wait for. True: then(ctx) follows from the loop.
bool review_end(struct box *b, bool force, void (*then)(void *ctx), void *ctx) MUST_USE;

// A sandbox was removed: true where its intent log outlives it. inherited: its shadow stays with the journal.
bool review_outlives(struct box *b, bool inherited);

// trust.c
int config_review(struct engine *g, struct review_limits *out, struct err *e) MUST_USE;

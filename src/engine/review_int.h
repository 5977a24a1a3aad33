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

// One of them, from the request to its answer.
struct review {
	struct engine *g;
	char box[ID_SIZE];
	struct review_want want;
	struct review_done done;
	bool running;
	struct actor actor;
	struct buf out;
	char *ref; // of an export of commits
	struct review *next;
};

// review_words.c
char *review_path(const struct review *r, const char *what); // in its sandbox's directory; owned
void review_request(const struct review *r, const struct sandbox *s, struct buf *out);
void review_note(struct review *r, struct box *b, const json_t *last); // last: the last line of the answer, or NULL

// review.c
void review_recover(struct engine *g); // what a power cut left half done
void review_free(struct engine *g);

// SPDX-License-Identifier: Apache-2.0
// Inside the engine: what a sandbox stands on.
//
//   base.c   from a request to a base: a live directory with its private .git, a checkout of a commit
//   made.c   derived things that a child makes, once for however many ask at the same time
//   setup.c  the layer that a project's setup commands make, once for however many ask
//   pin.c    what a live base was when the sandbox was made, recorded behind its creation
#pragma once
#include "base/json.h"
#include "engine/snap_int.h"

// made.c
#define MADE_LEFT_OUT '!' // in front of an info that tells what was left out, and why
struct made_want {
	enum derived_kind kind;
	const char *key;
	char letter;	    // of the directory's id below trees/
	char *const *argv;  // of skep-repo; "{}" stands for the directory
	char *const *env;   // NULL = plain
	const char *member; // of the child's answer: strings that are kept as info; NULL = none
};
// Calls then(t, error or NULL, what) at once when it is there, else from the loop when its child ended.
typedef void (*made_then)(struct task *t, const struct err *e, struct derived *d);
void made_get(struct task *t, const struct made_want *w, made_then then);
bool made_is_busy(const struct engine *g, const char *path); // a child works on it: gc leaves it alone
void made_free(struct engine *g);

// base.c
// What the create that t stands for needs, into its box's row; then(t, error or NULL).
void base_prepare(struct task *t, void (*then)(struct task *t, const struct err *e));
void base_free(struct engine *g);

// setup.c
// The layer that the setup of t's project makes, into its box's row, made first if there is none; then(t, error or NULL).
// A create that only wants to be told is answered here, and undone.
void setup_prepare(struct task *t, void (*then)(struct task *t, const struct err *e));
void setup_exited(struct box *b, const char *exec, const struct exec_result *r);
void setup_cell_gone(struct box *b); // its cell ended
void setup_box_gone(struct box *b);
void setup_sweep(struct engine *g); // what a daemon that died left half made
void setup_free(struct engine *g);

// create.c
void create_go(struct task *t, const struct err *e); // its row is whole: into the store, and its cell if it wants one

// pin.c
uint64_t base_time(const struct sandbox *s); // Unix ns: what the host changed later is not of its base
void pin_begin(struct box *b); // a while after its creation; a box that is gone by then was not worth it
void pin_stop(struct box *b); // its sandbox goes: the child that records its base ends
void pin_forget(struct box *b, bool quiet); // quiet: nobody is told

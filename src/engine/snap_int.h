// SPDX-License-Identifier: Apache-2.0
// Inside the engine: stacks of layers.
//
//   layers.c    who uses which layer, compaction     seal.c  one moment of a sandbox becomes sealed layers
//   snapshot.c  snapshots, rollback                  fork.c  new sandboxes on a snapshot
//   step.c      snapshots that can be made again
#pragma once
#include "engine/engine_int.h"

struct derived {
	struct derived_row row;
	struct derived *next;
	bool goes; // while those are chosen that make room
	bool asked; // to be synced, by this daemon
};

struct snap {
	struct snapshot row;
	bool kept; // its record lies in snapshots/
	struct snap *next; // of g->snaps: newest first
};

// The sealed layers of a long stack on their way to become one.
struct compaction {
	struct engine *g;
	char sandbox[ID_SIZE], to[ID_SIZE];
	char **from;
	struct compaction *next;
};

// A snapshot on its way to the disk: its layers one after the other, then the rows that name them.
struct sync {
	struct engine *g;
	char snapshot[ID_SIZE];
	char **layers;
	size_t at;
	struct sync *next;
};

#define STACK_MAX 32	 // layers one overlay takes
#define STACK_COMPACT 16 // from here on they are merged in the background
#define AUTO_KEPT 50	 // automatic snapshots kept for each sandbox

// layers.c
bool layer_is_touched(struct engine *g, const char *layer); // false: nothing was ever written to it
// Those of these that nothing refers to any more are removed, in the background.
void layers_release(struct engine *g, char *const *names);
bool layer_is_used(struct engine *g, const char *name); // "layers/ID"
bool layer_is_awaited(struct engine *g, const char *id); // a copy or a merge under way will have this name
void layer_discard(struct engine *g, const char *id); // one that was to be made, and what there is of it
void layers_compact(struct box *b); // if its stack has grown; when it is done the row says so
// Every layer of it is there. NOT_FOUND names the first that is not.
int stack_check(struct engine *g, char *const *lowers, struct err *e) MUST_USE;
bool stack_equal(char *const *a, char *const *b);
// "layers/LAYER" on top of lowers, owned.
char **stack_push(const char *layer, char *const *lowers);

// seal.c
// Makes a snapshot of the box that t holds and calls then(t, error or NULL) with t->made set: from the loop, or from
// inside the call. end: its processes end. Without it running ones go on and a frozen copy is made.
struct seal_want {
	const char *name; // NULL = none
	bool automatic, end;
};
void seal_begin(struct task *t, const struct seal_want *want, void (*then)(struct task *t, const struct err *e));
void seal_merged(struct box *b); // its layers are one now, or could not be merged
void seal_gone(struct task *t); // its cell ended
void seal_free(struct task *t);
void seal_resume(struct engine *g); // at the start: snapshots that an earlier daemon did not see on disk
void seal_forget(struct engine *g);
const char *seal_copy(const struct task *t); // id of the copy it makes, "" = none

// snapshot.c
struct snap *snap_find(struct engine *g, const struct box *b, const char *word, struct err *e); // b: its own come first; NULL = any
struct snap *snap_add(struct engine *g, struct snapshot *row); // empties *row
int snap_drop(struct engine *g, struct snap *n, struct err *e) MUST_USE; // and what only it used
void snaps_trim(struct box *b);	   // old automatic ones
void snaps_of_gone(struct box *b); // its sandbox goes: the automatic ones too
int snaps_load(struct engine *g, struct err *e) MUST_USE;
void snaps_free(struct engine *g);
void run_snapshot(struct task *t);
void run_rollback(struct task *t);

// derived.c: what can be made again: private .git layers, checkouts, setup layers. Found by what they were made from.
struct derived *derived_find(struct engine *g, enum derived_kind kind, const char *key); // and marks it as used
struct derived *derived_add(struct engine *g, struct derived_row *row, struct err *e); // empties *row; NULL on failure
void derived_note(struct engine *g, enum derived_kind kind, const char *key, const char *path, uint64_t bytes); // it is there, and so large
void derived_release_copy(struct engine *g, const char *tree, const char *sandbox); // tree: NULL, or "trees/ID/files"
bool derived_has(const struct engine *g, const char *path);
int derived_load(struct engine *g, struct err *e) MUST_USE;
void derived_free(struct engine *g);
void derived_drop(struct engine *g, struct derived *d); // its row; nothing becomes of the directory
// Its row goes; the directory has the returned name then, owned, and is the caller's to remove. NULL: there is none, or it stays.
char *derived_take(struct engine *g, struct derived *d);

// step.c: moments that can be made again (engine_step_keep)
struct snap *step_snap(const struct engine *g, const struct derived *d); // NULL: d is no step
bool step_is(const struct engine *g, const struct snap *n);
bool step_is_of(const struct engine *g, const struct snap *n, const char *path); // the row of that path is the snapshot's own
void step_forget(struct engine *g, const struct snap *n);

// sizes.c: bytes of layers, counted in the background
void size_box(struct box *b); // something was written: its layers are counted, in a moment
void size_everything(struct engine *g);
void size_drop(struct engine *g, const char *path); // "layers/ID" is gone, or will be another one; other paths are passed over
bool size_of(struct engine *g, const char *path, uint64_t *out); // false: not known, 0
// Of its own layers, also of those it shares with snapshots and forks, as last counted. known (may be NULL): all were.
uint64_t size_of_sandbox(struct engine *g, const struct sandbox *s, bool *known);
void sizes_sweep(struct engine *g); // forgets layers that are not there
int sizes_load(struct engine *g, struct err *e) MUST_USE;
void sizes_free(struct engine *g);

// budget.c
bool path_is_referenced(struct engine *g, const char *path); // by a sandbox, a live cell, a snapshot or a checkout
bool derived_is_used(struct engine *g, const char *path);    // the same, or something is being made that may need it
uint64_t budget_used(struct engine *g);				 // layers, derived things, images: as last counted
// Those that must go, least recently used first, so that no more than `budget` is used; as many as there are.
// out: NULL-terminated, owned, its members borrowed.
struct derived **budget_victims(struct engine *g, uint64_t budget);
// Room for one more sandbox: derived things go for it; without enough of them LIMIT.
int budget_check(struct engine *g, struct err *e) MUST_USE;

// check.c: false = of no use at all. out_broken: it was mended only so far that it can be shown and removed.
bool row_check(struct engine *g, struct sandbox *s, bool *out_broken);
bool snapshot_check(const struct snapshot *n);
bool derived_check(const struct derived_row *d);
bool is_inner_path(const char *path);

// fork.c
void run_fork(struct task *t);
// What a create on a snapshot starts from; the request's own words win.
int create_from(struct engine *g, const char *word, struct sandbox *row, struct err *e) MUST_USE;

// SPDX-License-Identifier: Apache-2.0
// Inside the native backend: nursery.c has the process that makes slots, pool.c those that wait and who waits for one, ahead.c
// has them built, recipe.c those of kinds without a mold, cell.c hears of cells, native.c is what the engine asks of them, request.c who waits for an answer.
#pragma once
#include "backend/backend.h"
#include "base/chan.h"

#define FOR_POOL (1u << 31)   // in the id of a slot that nobody waits for
#define FOR_RECIPE (1u << 30) // likewise
#define WARM_MIN 4
#define WARM_MAX 128 // 0.3 MiB each, for half a minute after they were needed

enum cell_phase {
	CELL_WAITING,  // wants a slot, no channel yet
	CELL_WARM,     // a slot in the pool, nothing of any sandbox in it
	CELL_STARTING, // spec or HELLO sent, M_UP not yet seen
	CELL_UP,
	CELL_RESTING, // gone; it may be a slot once more
	CELL_TIRED,   // as that, when it is woken
	CELL_OVER, // reported, waits to be freed
};

struct request {
	uint32_t id;
	struct reply reply; // one of the five
	struct layer_reply layer;
	struct count_reply count;
	struct dial_reply dial;
	struct volume_reply volume;
	int body; // goes along with `again`, owned; -1 = nothing does. Of a request without `again` it means nothing
	uint8_t type; // of the message that is repeated
	struct request *next;
	struct buf again; // payload of a request that is repeated when the nursery comes back
};

struct cell {
	struct native *n;
	struct chan ch;
	enum cell_phase phase;
	struct cell_watcher *w;
	char sandbox[ID_SIZE];	// it has, or had before it rested
	struct cell *next;	// in the list of its phase (waiting, warm, tired)
	struct cell *all;	// in the list of all
	struct buf spec;	// encoded, until it is up
	int secrets;		// sealed memory that goes with the spec, -1 = none
	enum profile profile;
	bool warm_ok;		// a slot that brings a new layer will do
	bool pooled;		// it got one that waited
	struct identity lent;	// warm: it was told to build for it; "" = it was not
	bool promised;		// a sandbox that is being made has that identity
	uint64_t shape_no;	// which shape it was told
	struct recipe *recipe;	// warm: that it waits for; key is its shape then
	bool named;		// lent is the identity of a sandbox that exists
	char *stacked;		// the layer to come, when sealed ones are below it: a slot for no place will not do
	struct buf key;		// warm: the place it was made for, or empty; waiting: the place it wants
	uint32_t want_id;	// its own M_WANT, 0 = waits for the pool
	uint32_t last_id;
	struct request *requests;
	struct timer timer;	// deadline of the start, or a failure to be told from the loop
	struct err fail;	// kind NONE: none yet
	pid_t foreign;		// 0, or: it is of another build, with which there is no speaking, and this is its process
	bool stopped;		// foreign: we did it
	bool adopting;		// it was there before us
};

struct native {
	struct backend b;
	struct loop *loop;
	char *skep_home, *home, *cell_program;
	int cells_dir; // run/cells
	struct chan ch; // to the nursery
	bool connected;
	pid_t pid;
	struct watch child;
	struct timer respawn, refill, soon;
	uint64_t backoff_ms;
	struct err last; // why the nursery could not start; kind NONE = not told
	int failures; // starts of the nursery in a row that gave no slot
	uint32_t last_id;
	struct cell *warm, *waiting, *tired, *cells;
	int n_warm, n_tired, n_asked, want;
	int n_starting; // cells that have their spec and are not up
	int burst;	// starts beside others, without a pause between
	uint64_t taken_ms; // when the last one was
	uint64_t given_ms; // when somebody who waited got a slot
	int processors;
	uint64_t came_ms[4]; // when cells that had ended were slots again, the last ones
	unsigned n_came;
	int n_wanted; // slots on their way for starts that wait, or waited
	struct timer shrink;
	struct buf key; // place of the newest start: what the pool is made for
	struct buf shape; // of that start; empty = not known
	uint64_t shape_no;
	char *base; // of it
	struct recipe *recipes;
	struct timer cook; // slots for them, or the end of one
	struct request *jobs; // removals, work on layers
};

int nursery_open(struct native *n, int fd, struct err *e) MUST_USE; // fd -1: spawn
void nursery_close(struct native *n);

// pool.c, for the nursery
void pool_open(struct native *n);
void pool_close(struct native *n);
void pool_ask(struct native *n); // slots for those who wait, as far as they were not asked for
void pool_slot(struct native *n, struct frame *f);
void pool_back(struct native *n); // a mold came back: a slot can be had cheaply
void pool_refused(struct native *n, const struct frame *f, const struct err *e);
void pool_fail(struct native *n, const struct err *e, bool pool_only); // starts that wait; pool_only: for a warm slot
void pool_lost(struct native *n); // with the nursery, all that was asked of it

// pool.c, for cells. Gives c (CELL_WAITING) a slot, at once or later: cell_begin is called with c in place.
void pool_want(struct native *n, struct cell *c);
// NULL when the pool has none that fits; best is one that was built for id. exact: one that was made for no place in
// particular does not fit.
struct cell *pool_take(struct native *n, const char *id, const struct buf *key, bool exact);
void pool_forget(struct native *n, struct cell *c); // leaves the pool or the queue
void pool_aim(struct native *n, const struct buf *key); // future slots are for this place
void pool_refill(struct native *n);
void pool_refill_soon(struct native *n); // when the cell just started no longer needs the processor
void pool_slot_died(struct native *n, struct cell *c); // a warm one
void pool_again(struct native *n, struct cell *c); // a cell that ended is one more warm slot
void pool_rest(struct native *n, struct cell *c);  // one that ended will be, when it is woken
bool pool_abounds(const struct native *n);	   // there are more slots than anybody will need in the next milliseconds
bool pool_fits(const struct native *n, const struct cell *c); // made for the place of the newest start

void pool_send_want(struct native *n, uint32_t id, enum profile p, uint8_t kind, const struct buf *key); // key: NULL, or of a place

// recipe.c. Its slots are promised by recipe_expects, given by recipe_take, and forgotten as those of the pool are.
void recipes_open(struct native *n);
void recipes_close(struct native *n);
bool recipe_is_default(const struct cell_spec *s); // the pool's kind
void recipe_learn(struct native *n, const struct cell_spec *s); // a new sandbox of that kind starts
void recipe_learn_cold(struct native *n, enum profile p);	// a start that nothing was built for
bool recipe_expects(struct native *n, const struct cell_spec *like, struct identity *out);
struct cell *recipe_lent(const struct native *n, const char *id); // a waiting one with that identity
struct cell *recipe_take(struct native *n, const struct cell_spec *s); // NULL: none was built for just that
void recipe_prepare(struct native *n, const struct cell_spec *s); // a slot for just that sandbox, if there is a cold one
struct cell *recipe_take_cold(struct native *n, enum profile p);
void recipe_slot(struct native *n, struct frame *f);
void recipe_refused(struct native *n, uint32_t id, const struct err *e);
void recipe_lost(struct native *n);
void recipe_forget(struct cell *c);
void recipe_slot_died(struct cell *c);

struct native *native_of(struct backend *b);
void ahead_learn(struct native *n, const struct cell_spec *s); // a start at the place that slots are made for
void ahead_unlearn(struct native *n);
void ahead_offer(struct native *n, struct cell *c); // warm: it may build for what will probably come
void ahead_offer_all(struct native *n);
void ahead_unlend(struct cell *c); // it is no longer meant for that identity
struct cell *ahead_find(struct native *n, const char *id); // a warm one that has it
bool native_expects(struct backend *b, const struct cell_spec *like, struct identity *out);
void native_forsake(struct backend *b, const char *id);

void cell_bury(struct cell *c); // closes it now, frees it after the batch
struct cell *cell_new(struct native *n, enum cell_phase phase);
void cell_enter(struct cell *c, enum cell_phase phase);
int cell_connect(struct cell *c, int fd, struct err *e) MUST_USE; // takes fd
bool cell_begin(struct cell *c);	// sends the spec over its channel; false when the slot is dead
void cell_fail_later(struct cell *c, const struct err *e);
void cell_deadline(struct cell *c, uint64_t ms); // of its start
bool cell_understands(struct cell *c);		 // false: it is of another build, and who asks is told so, from the loop
int layer_make(const char *layer, struct err *e) MUST_USE; // where no slot brings one

int sealed_memory(const struct buf *b, struct err *e) MUST_USE; // sealed.c: a descriptor nobody can write through

uint32_t request_add(struct request **list, uint32_t *last_id, struct reply r);
void request_hand_over(struct native *n, const struct request *q); // to the nursery, once more
bool request_end(struct request **list, uint32_t id, const struct err *e); // false when there is none
bool request_done(struct request **list, const struct frame *f);	   // well, with what the frame tells
bool request_opened(struct request **list, const struct frame *f); // likewise, with its descriptor
void requests_drop(struct request **list); // nobody is told
bool request_dialled(struct request **list, uint32_t id, struct flow *flow);
void request_end_all(struct request **list, const struct err *e);
void frame_err(const struct frame *f, struct err *out); // decodes M_ERR

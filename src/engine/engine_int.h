// SPDX-License-Identifier: Apache-2.0
// Inside the engine. A box is a sandbox in memory: its row, its cell if any, and the tasks that wait for it.
//
//   box.c     finding boxes, names, the one-at-a-time rule, state moves
//   create.c  checks and makes a sandbox           blank.c   ids and directories made ahead      create_caches.c  package caches
//   life.c    start stop pause remove              engine.c  the whole: opened, loaded, closed
//   exec.c    exec attach kill output              dial.c ports.c  connections into it      events.c  what cells report; reconcile
//   record.c  the journal                          cellspec.c  row -> cell_spec
//   env.c     environment of an exec               image.c  gc.c  child.c (sister programs)
//   expiry.c  ttl, leases, pins                    check.c  rows that somebody edited
//   note.c    what surfaces keep and are told      sync.c    what survives a power cut
//   service.c the journal of the service           token.c   who may ask
//   tap.h     an attached client in our own loop, for surfaces: tap.c feed.c job.c fileops.c filestream.c fileargs.c
//   snap_int.h stacks of layers: layers.c seal.c snapshot.c fork.c step.c derived.c sizes.c budget.c
//   review_int.h review: review.c review_words.c export.c; heritage_int.h  what forks inherit of it
//   base_int.h what it stands on: base.c made.c setup.c pin.c
//   volume_int.h directories beside them: volume.c
//   net_int.h what it may reach: policy.c net_request.c header.c net.c secret.c vault.c project.c trust.c ca.c ask.c
#pragma once
#include "base/index.h"
#include "base/loop.h"
#include "engine/access.h"
#include "store/store.h"
#include "workspace/source.h"

enum task_kind {
	TASK_CREATE,
	TASK_START,
	TASK_EXEC,
	TASK_ATTACH,
	TASK_STOP,
	TASK_PAUSE,
	TASK_RESUME,
	TASK_REMOVE,
	TASK_ADOPT,
	TASK_SNAPSHOT,
	TASK_ROLLBACK,
	TASK_FORK,
	TASK_DIAL,
};

struct task {
	enum task_kind kind;
	struct box *box;
	struct done done;
	struct actor actor; // who asked for it
	bool answered;
	bool floating; // an exec or attach under way that does not hold the box
	bool force;
	bool has_exec;
	struct exec_request want; // until the cell is up
	struct exec_spec exec;
	struct exec_row row;
	char ticket[KEY_SIZE];
	struct sealing *sealing; // a snapshot under way: snap_int.h
	struct snap *made;	 // by it, or found
	bool reviewed;		 // a removal: no review goes on, and nothing is left half done
	bool counting;		 // a removal: a cell was started to count what is pending
	bool sealed;		 // an exec: its automatic snapshot is made
	unsigned tries;		 // an exec: how often it found its cell ending
	char *word;		 // name of the snapshot to make, or which one is meant
	uint32_t count;		 // of forks; of a kill, the signal
	struct box **forks;	 // made, count of them
	void (*prepared)(struct task *t, const struct err *e); // base.c, while a create waits for its base
	char *url;	 // as the caller gave it, with what it may hold of credentials
	char *cwd;	 // the caller's
	char **git_env;	 // for git alone
	char **alternates; // directories that objects may be borrowed from
	bool start, pin; // a create: its cell too; on a frozen copy
	enum setup_mode setup;
	const char *told, *told_box, *told_ticket, *told_file; // of a setup, instead of a sandbox: struct outcome
	bool told_closed;
	struct create *later; // what is settled when the repository is there; NULL = nothing
	struct dialling *dialling; // dial.c
	struct timer wait;
	struct task *next;
};

// An event that found the journal still held by a cell that is just ending.
struct late {
	char *type, *by, *body;
	struct late *next;
};

struct box {
	struct engine *g;
	struct sandbox row;
	struct cell *cell; // NULL = none
	struct cell_row cell_row;
	struct cell_watcher w;
	bool up, maintenance;
	bool broken;  // its row was found to be wrong: check.c
	bool expired; // and what follows from that was done
	bool unsized; // its layers are to be counted
	bool pinning; // a child records its base
	struct child *pinner;
	struct pin_wait *pin_waits;
	bool freezing, compacting; // by a snapshot; of its layers
	bool row_dirty, cell_dirty; // to be written with the next commit
	bool unkept;   // keep.c: its record may be older than its rows
	uint64_t kept; // which record lies beside it; 0 = not known
	unsigned ended; // execs ended since the rows were trimmed
	struct task *holder, *queue, *floating;
	struct late *late, *sent; // sent: to its cell, which has not said yet that they are written
	struct timer late_timer, pin_timer;
	int late_tries;
	uint64_t journal_end; // when it was last looked at to be synced
	struct cell_net net;	// made by net_ready for the next start
	char **notices;		// what was left out, and why
	char **create_notices; // those of its creation
	bool net_dirty, net_stale, making_ca;
	struct waiter *waiters; // for its cell to be told of a new policy
	struct timer net_failed;
	struct err net_err;
	struct ask *asks;
	struct port_row *ports; // sorted
	size_t n_ports;
	struct setup_run *setup; // it makes a setup layer: setup.c
	struct timer setup_timer; // it failed, and goes when its output was read
	struct box *next;
};

#define BLANKS 8
#define LENT_MAX 128 // with the backend

struct import;
struct pull;
struct engine {
	char *skep_home, *home, *home2, *owner, *image_program;
	struct source_rules rules;
	struct loop *loop;
	struct store *store;
	struct backend *backend;
	struct tools_cache *tools;
	int home_fd, sandboxes, layers, journals, images, cells; // directories
	struct box *boxes; // newest first
	struct index by_id; // the same
	bool listing; // one directory is asked about once, however many sandboxes stand on it
	struct {
		char *repo, *head;
		uint64_t dev, ino;
		bool same;
	} listed;
	struct import *imports;
	struct pull *pulls; // pull.c
	uint64_t pulls_kept; // bytes of those that wait to be continued
	struct timer checkpoint, commit, blank, expiry, size, sync, backup, archive;
	uint64_t archived; // bytes of packed journals, when last counted
	bool snaps_unsynced; // records of snapshots
	struct seal *seal; // NULL until something was sealed
	struct secret_row *secrets;
	size_t n_secrets;
	struct trust_row *trusts;
	size_t n_trusts;
	struct volumes *volumes; // volume.c
	struct vault *vault;	 // vault.c
	struct token_row *tokens; // token.c
	size_t n_tokens;
	char **answers; // rules
	char **registries; // as the newest request named them
	char *site_config, *user_config;
	struct cached *configs[2]; // trust.c
	bool creating;	       // a create is at work, which asks for the configuration five times
	bool configs_known[2]; // it was looked at during that
	struct found_caches *caches; // create_caches.c
	struct child *children;
	struct setup_run *setups;
	struct locks_cache *locks;
	char blanks[BLANKS][ID_SIZE]; // sandbox directories made ahead of their sandboxes
	char lent[LENT_MAX][ID_SIZE]; // such that the backend builds for
	int n_lent;
	int n_blanks;
	struct snap *snaps;
	struct derived *derived;
	struct compaction *compactions;
	struct review *reviews;	      // review.c
	struct review_wait *review_waits;
	struct child *review_ready;   // a skep-review that waits for its request
	struct timer review_idle;
	struct review_scope *scopes;  // review_words.c: a ring
	unsigned next_scope;
	struct making *makings;	      // made.c
	struct fetch *fetches;	      // base.c
	struct engine_listener *listeners; // note.c
	struct known_state *gitstates;
	struct layer_size **sizes; // sizes.c
	uint64_t layer_bytes, budget; // of all layers that were counted; what may be used, 0 = all
	bool sizing, size_all;
	char **unsynced, **unsynced_trees; // sync.c: directories whose journals were written to; "trees/ID"
	bool rows_unsynced;
	struct sync_round *sync_round;
	struct sync_wait *sync_waits;
	struct sync *syncs; // seal.c: snapshots whose layers are not on disk yet, the first one at work
	uint64_t started; // this daemon
	struct actor actor; // who causes what is done now
	bool has_bash;
	void (*on_new)(void *ctx, const struct sandbox *s); // may be NULL
	void *on_new_ctx;
};

// box.c
struct box *box_find(struct engine *g, const char *id, struct err *e); // for a caller: whose lease begins anew
struct box *box_look(struct engine *g, const char *id, struct err *e); // the same, for ourselves
struct box *box_by_id(struct engine *g, const char *id); // exact id, NULL when absent
struct box *box_add(struct engine *g, struct sandbox *row); // empties *row
const char *box_project(const struct box *b); // the directory whose project file counts; NULL = none does
void box_free(void *box); // its memory only
void box_release(struct box *b); // with its snapshots and layers that nobody else uses
void box_drop(struct box *b); // out of memory; waiting tasks get NOT_FOUND
// The row, with the next commit: what changes in between, or goes, is not written at all. A failure is logged: memory
// is right until the next start.
void box_save(struct box *b);
void box_write(struct box *b); // now, into the open transaction
void box_move(struct box *b, enum state to, const char *reason); // saves and records
void engine_wrote(struct engine *g); // lazy writes are flushed in a moment, a checkpoint follows when things are quiet
bool engine_flush(struct engine *g); // now; false: it could not be written

struct task *task_new(struct box *b, enum task_kind kind, struct done d);
void task_submit(struct task *t); // runs it now or when the box is free
void task_run(struct task *t);	  // life.c
void task_answer(struct task *t, const struct err *e); // once; the task goes on until task_end
void task_end(struct task *t, const struct err *e);    // answers if not done, frees, lets the next one run
void task_float(struct task *t);		       // gives the box up, stays alive
void task_unfloat(struct task *t);		       // to be submitted again
int task_refuse(struct done d, const struct err *e);

// token.c
int tokens_load(struct engine *g, struct err *e) MUST_USE;
void tokens_free(struct engine *g);

// blank.c: a new sandbox's id, with its directory and empty journal made
int blank_take(struct engine *g, char id[ID_SIZE], struct err *e) MUST_USE;
void blank_used(struct engine *g, const char *id); // one that was lent is a sandbox's now
bool blank_is(const struct engine *g, const char *id);
void blank_sweep(struct engine *g); // those of an earlier daemon
void blank_done(struct engine *g);

// expiry.c
void expiry_arm(struct engine *g);  // for the next one without a cell; whose time is over go from the loop
void expiry_lift(struct box *b);    // who starts one that has expired means to go on: its time is over for good
void lease_renew(struct box *b);    // it was used

// cellspec.c
const char *home_inside(const struct sandbox *s); // its HOME
void cellspec_make(struct box *b, const struct task *t, bool maintenance, struct cell_spec *out);
int exec_make(struct box *b, const char *caller_cwd, struct task *t, struct err *e) MUST_USE; // t->want -> t->exec, t->row

// env.c
struct env_input {
	const char *sandbox, *exec, *path, *home, *user;
	bool bash, tty;
	char *const *caller, *const *tools, *const *secrets, *const *sandbox_env, *const *exec_env; // may be NULL
};
char **env_make(const struct env_input *in);
int env_check(char *const *env, struct err *e) MUST_USE; // each NAME=value

// create_caches.c
int caches_add(struct engine *g, struct create *c, const struct sandbox *row, struct err *e) MUST_USE; // to what was asked for
void caches_forget(struct engine *g);

// create.c, life.c, events.c
void create_undo(struct task *t, const struct err *why); // nothing of it stays
void box_start_cell(struct box *b, const struct task *t, bool maintenance);
void box_events_init(struct box *b);
void box_remove(struct task *t);
int box_check_layers(struct box *b, struct err *e) MUST_USE; // all that it needs are there
bool box_base_is_gone(const struct box *b); // the directory or checkout it stands on
void cell_lost(struct box *b); // a row says there is a cell and there is none
int exec_begin(struct task *t, struct err *e) MUST_USE; // exec.c: on the live cell
void exec_store(struct task *t);
void attach_begin(struct task *t);
void dial_begin(struct task *t); // dial.c: on the live cell
void ports_events_init(struct box *b); // ports.c
void ports_forget(struct box *b); // its cell is gone

// record.c
// Through the cell, or into the file. By whoever acts, else by who asked for the operation that has the box, else by skepd.
void record(struct box *b, const char *type, const char *body);
void record_by(struct box *b, const char *by, const char *type, const char *body);
void record_before_cell(struct box *b); // an end that was cut off is noticed, and stays noticed
void record_unheard(struct box *b); // the cell is gone: what it did not get any more
void record_late_flush(struct box *b); // the cell is up: what waited goes through it
void record_forget(struct box *b);
void record_created(struct box *b);
void record_state(struct box *b, enum state from);
int record_keep(struct box *b, struct err *e) MUST_USE; // moves its directory to journals/ID
void record_gone(struct box *b);			// remembers its anchor
uint64_t record_end(const struct box *b);		// bytes of its journal
// What the journal tells of a cell that ended unseen. ended: it wrote its own end, with why (owned) and what is pending
// (-1 = it did not look). Its exec.exit lines go into rows.
struct settled {
	bool ended;
	char *reason;
	int64_t pending;
};
void record_settle(struct box *b, struct settled *out);

void box_tell(const struct box *b, bool gone); // note.c: who listens

// sync.c
// archive.c: journals of removed sandboxes, packed by the day
void archive_arm(struct engine *g);  // there is something to pack, in a while
void archive_count(struct engine *g);
void archive_all(struct engine *g);  // at once
int archive_thaw(struct engine *g, const struct gone_row *gone, struct err *e) MUST_USE; // its directory, made again
bool archive_is_name(const char *name);			  // of a file in journals/
void archive_forget(struct engine *g, const char *name); // before that file is removed
// keep.c: records of rows beside what they are about, and the backup of state.db
void keep_restore(struct engine *g); // before the rows are loaded
void keep_loaded(struct engine *g);
void keep_mark(struct engine *g, const char *id); // the rows of this sandbox changed
bool keep_write(struct engine *g);		  // true: there is more
// State.db was lost, and this was there before: a row that is lost may have named it.
bool keep_is_older(const struct engine *g, int dir, const char *name);
void keep_snap_gone(struct engine *g, const char *id);
void sync_journal(struct engine *g, const char *dir); // "sandboxes/ID" or "journals/ID" was written to
void sync_tree(struct engine *g, const char *path);    // "trees/ID": something durable stands on it
void sync_wrote(struct engine *g);		       // rows were
// Everything that was written so far: is it on disk? From the loop, or from inside the call when that can not even be tried.
void sync_rows(struct engine *g, struct reply r);
void sync_free(struct engine *g); // and what is still open is synced

// Removes directories below SKEP_HOME in the background; a failure is logged, gc finds the rest.
void engine_discard(struct engine *g, char *const *dirs);
// The same of what never came to be: no row tells of it as of something whole. When the disk is full nothing can be written down
// first, and these are what fills it.
void engine_discard_unmade(struct engine *g, char *const *dirs);
void box_dirs(const struct box *b, char ***dirs); // appends its layer and what it captured

// SPDX-License-Identifier: Apache-2.0
// The life of sandboxes: create, exec, attach, kill, start, stop, pause, resume, remove, snapshots, images, gc. What they may
// reach is in engine/net.h, how their changes leave in engine/review.h, who may ask in engine/access.h.
//
// What needs a cell or a child is asynchronous: `struct done` is called once, from inside the call or later
// from the loop. One changing operation per sandbox runs at a time; others wait LIMIT_PENDING_OP_MS for
// their turn, then CONFLICT. IDs given by callers are ids, unique prefixes (3 characters and more) or names.
#pragma once
#include "backend/backend.h"
#include "journal/journal.h"
#include "store/rows.h"
#include "workspace/tools.h"

struct engine;
struct loop;
struct store;

struct engine_config {
	const char *skep_home;
	const char *home, *home2;  // of the daemon's user; home2 may be NULL
	const char *owner;	   // login name
	const char *image_program; // skep-image
	struct loop *loop;
	struct store *store;
	struct backend *backend;
};
struct engine *engine_new(const struct engine_config *cfg, struct err *e) MUST_USE;
// Reconnects to every cell that outlived the last daemon and settles the rows of those that did not.
int engine_reconcile(struct engine *g, struct err *e) MUST_USE;
void engine_free(struct engine *g); // cells live on

struct exec_request {
	char **argv, **env, **caller_env; // argv never empty
	char *cwd, *user;
	char *caller_cwd; // where on this host the caller stands: without cwd, the same place inside
	bool tty, want_stdin, detached, job;
	bool whole; // its end is told when its children have closed its streams, too
	bool early; // answered when its cell has taken it: without the pid
	uint32_t rows, cols, umask_bits;
	bool has_umask, has_timeout;
	uint64_t timeout_ms;
};
void exec_request_done(struct exec_request *x);

// What a caller says of the network, at create and afterwards.
struct net_request {
	char *preset;		// NULL = not said
	char **allow, **deny;	// rules (model/policy.h); deny with or without its '!'
	char **expose;		// PORT[:NAME] of the host's loopback
	char **secrets;		// names
	char **registries;	// "host[:port]\tsource", as the caller's package managers are set up
	char **remove;		// rules and secret names that go again; not at create
	bool has_ask, ask;	// what no rule knows is asked
	char *phase;		// "agent" or "setup"; NULL = not said
	char **headers;		// "[*.]HOST[:PORT]\tHEADER\tVALUE": set on every request there over TLS. All of them; NULL = as they were. Wiped
};
void net_request_done(struct net_request *n);

// What becomes of a create whose project's setup has not run yet.
enum setup_mode {
	SETUP_WAIT, // it is answered when the setup is done
	SETUP_TELL, // it is answered at once with the setup's exec (struct outcome), and asked again later
	SETUP_OFF,  // the sandbox goes without
};

struct create {
	char *name, *cwd, *repo, *image, *workspace_path, *caller_path;
	char *from, *context, *ref; // from: a snapshot
	bool auto_snapshot, pin, pinned, lease; // lease: ttl_ms begins anew with every use
	enum on_expiry on_expiry;
	bool empty, nested, trace_off, strict, run, keep, start, has_exec;
	bool keep_tmp; // /tmp is of the layer: snapshots cover it. The root profile only
	bool no_project; // its file is left aside
	bool no_caches;  // nor are package caches of the daemon's user shown
	enum setup_mode setup;
	enum profile profile;
	char **env, **labels, **git_env;
	char **alternates; // directories that the repository may borrow objects from
	char **volumes; // NAME:/path[:ro|:rw]
	char *volume_viewer; // whose they are: engine/volume.h
	char **cache_env; // of workspace/caches.h's variables those that are set
	struct cell_mount *mounts;
	uint32_t n_mounts;
	struct limits limits;
	uint64_t timeout_ms, ttl_ms, idle_ms;
	uint32_t umask_bits;
	struct net_request net;
	struct exec_request exec;
};
void create_done(struct create *c);

// What an operation gives back; borrowed during the call, NULL where it does not apply.
struct outcome {
	const struct sandbox *sandbox;
	const struct exec_row *exec;
	const char *exec_id; // also of a job, which has no row
	const char *ticket;
	const struct image_row *image;
	// SETUP_TELL: the exec that runs it, its sandbox, and for the first who asked a ticket (else NULL): then nothing was made
	const char *setup, *setup_box, *setup_ticket;
	const struct snapshot *snapshot;
	const struct sandbox *const *forks; // NULL-terminated
	char *const *notices; // lines for the user: what of the network was left out, and why
};
struct done {
	void (*fn)(void *ctx, const struct err *e, const struct outcome *o); // e NULL = success
	void *ctx;
};

void engine_create(struct engine *g, struct create *c, struct done d); // empties *c
void engine_start(struct engine *g, const char *id, struct done d);
void engine_stop(struct engine *g, const char *id, struct done d);
void engine_pause(struct engine *g, const char *id, bool on, struct done d);
void engine_remove(struct engine *g, const char *id, bool force, struct done d);
void engine_pin(struct engine *g, const char *id, bool on, struct done d); // a pinned one never expires, and goes by force only
void engine_exec(struct engine *g, const char *id, struct exec_request *x, struct done d); // empties *x
void engine_attach(struct engine *g, const char *exec, struct done d);
void engine_kill(struct engine *g, const char *exec, uint32_t signal, struct done d);

// A connection to a port of the sandbox's own loopback. One that is stopped is started, a paused one goes on.
void engine_dial(struct engine *g, const char *id, uint16_t port, struct dial_reply r);
// For a local client that makes connections itself (outcome.ticket): it greets the cell as ROLE_DIAL (model/msg.h).
void engine_dials(struct engine *g, const char *id, struct done d);

// Ports of its live cell that somebody listens on.
struct port_row {
	uint16_t port;
	bool local; // bound to loopback only
	uint32_t pid;
	char exec[ID_SIZE]; // "" = not known
	char *program;
};
void engine_ports(struct engine *g, const char *id, void (*each)(void *ctx, const struct port_row *p), void *ctx); // in order

const struct sandbox *engine_get(struct engine *g, const char *id, struct err *e);
const struct sandbox *engine_peek(struct engine *g, const char *id, struct err *e); // the same, and it does not count as a use
void engine_each(struct engine *g, void (*each)(void *ctx, const struct sandbox *s), void *ctx); // newest first; without those that make setup layers
void engine_on_new(struct engine *g, void (*fn)(void *ctx, const struct sandbox *s), void *ctx); // told of every new one; one listener
bool engine_size(struct engine *g, const struct sandbox *s, uint64_t *out); // bytes of its own layers as last counted; false: not yet
const char *engine_base_state(const struct sandbox *s); // live (nothing recorded), pinning, pinned, moved, gone, none
const struct tools *engine_tools(struct engine *g, const struct sandbox *s);
char *engine_socket(struct engine *g, const char *sandbox); // owned path of the cell's socket

int engine_exec_get(struct engine *g, const char *id, struct exec_row *out, struct err *e) MUST_USE;
int engine_execs(struct engine *g, const char *id, void (*each)(void *ctx, const struct exec_row *x), void *ctx,
		 struct err *e) MUST_USE; // id NULL: of all

// Bytes kept of an exec's stream, from offset on, at most out->max. first: absolute offset of the first
// byte given; end: of the byte after the last one kept.
int engine_output(struct engine *g, const char *exec, const char *stream, uint64_t offset, struct buf *out,
		  uint64_t *out_first, uint64_t *out_end, struct err *e) MUST_USE;
// The journal, also of removed sandboxes.
int engine_journal(struct engine *g, const char *id, uint64_t offset, struct buf *out, uint64_t *out_end,
		   struct err *e) MUST_USE;
int engine_journal_peek(struct engine *g, const char *id, uint64_t offset, struct buf *out, uint64_t *out_end,
			struct err *e) MUST_USE; // the same, and it does not count as a use
int engine_journal_dir(struct engine *g, const char *id, struct err *e) MUST_USE; // descriptor of where it lies
// How long it is, and when it last grew (Unix ms).
int engine_journal_end(struct engine *g, const char *id, uint64_t *out_end, uint64_t *out_changed, struct err *e) MUST_USE;
int engine_journal_verify(struct engine *g, const char *id, struct journal_report *out, struct err *e) MUST_USE;

int engine_image_get(struct engine *g, const char *id, struct image_row *out, struct err *e) MUST_USE;
int engine_images(struct engine *g, void (*each)(void *ctx, const struct image_row *i), void *ctx,
		  struct err *e) MUST_USE;
void engine_image_import(struct engine *g, const char *source, const char *name, struct done d);
void engine_image_remove(struct engine *g, const char *id, struct done d);

// An image by its name in a registry. A second pull of a reference joins the first.
struct pull_wish {
	const char *ref;	     // as in model/imageref.h
	const char *name;	     // NULL = none
	const char *secret;	     // a sealed secret bound to the registry's host; NULL = none
	const char *user, *password; // a login of the request itself; NULL = none
	bool docker_logins;	     // those of the daemon's user count
	bool missing;		     // an image that is here under this name, id or reference is taken as it is
};
struct pull_progress {
	uint64_t bytes, total; // of layers; total 0 = not known yet
	uint32_t layers, layers_done;
	bool importing; // all of it is here and being unpacked
};
struct pull_watch {
	void (*progress)(void *ctx, const struct pull_progress *p);
	void *ctx;
};
struct pull_client;
// d as with every operation. watch may be NULL. Returns NULL when d was called already.
struct pull_client *engine_image_pull(struct engine *g, const struct pull_wish *w, const struct pull_watch *watch, struct done d);
void engine_image_pull_leave(struct pull_client *c); // no progress any more; the last one to leave ends the pull. d follows
bool engine_image_is_pulled(const struct engine *g, const char *name); // under that name, just now

// --- layers ---
// A moment of a sandbox: its processes are ended if there are none but pid 1, else frozen for a copy.
void engine_snapshot(struct engine *g, const char *id, const char *name, struct done d);
// word: name or id, NULL = its newest named one. What was there before is kept as an automatic snapshot.
void engine_rollback(struct engine *g, const char *id, const char *word, struct done d);
// word NULL = as it is now.
void engine_fork(struct engine *g, const char *id, const char *word, uint32_t count, struct done d);
int engine_snapshots(struct engine *g, const char *id, void (*each)(void *ctx, const struct snapshot *n), void *ctx,
		     struct err *e) MUST_USE; // newest first; id NULL: of all
const struct snapshot *engine_snapshot_get(struct engine *g, const char *word, struct err *e);
void engine_snapshot_remove(struct engine *g, const char *word, struct done d);

// --- steps ---
// A moment of a sandbox under a key that says what it was made from. It is kept while there is room, and can be made again.
void engine_step_keep(struct engine *g, const char *id, const char *key, struct done d); // outcome.snapshot
const char *engine_step_find(struct engine *g, const char *key); // id of its snapshot, which counts as a use; NULL = none

// --- for surfaces ---
// Under which idempotency key a sandbox was made, for a day. get: 1 = there is one, 0 = none.
int engine_creation_get(struct engine *g, const char *key, struct creation_row *out, struct err *e) MUST_USE;
void engine_creation_add(struct engine *g, struct creation_row *c); // empties *c
// Texts that a surface keeps, by kind and key. They are written with the next commit; sync: now, before somebody is told.
int engine_note_set(struct engine *g, const char *kind, const char *key, const char *text, struct err *e) MUST_USE;
int engine_notes_sync(struct engine *g, struct err *e) MUST_USE;
int engine_note_drop(struct engine *g, const char *kind, const char *key, struct err *e) MUST_USE;
int engine_notes(struct engine *g, const char *kind, void (*each)(void *ctx, const char *key, const char *text), void *ctx,
		 struct err *e) MUST_USE;
// Told of every move of a sandbox to another state, and of its end (gone). It is in the middle of something then: what changes
// sandboxes waits for the loop. Embedded in its owner, for the life of the engine.
struct engine_listener {
	void (*fn)(struct engine_listener *l, const struct sandbox *s, bool gone);
	struct engine_listener *next;
};
void engine_listen(struct engine *g, struct engine_listener *l);
int engine_expire(struct engine *g, const char *id, uint64_t at, struct err *e) MUST_USE; // Unix ms; 0 = it never ends by itself
int engine_scratch(struct engine *g, struct err *e) MUST_USE; // descriptor of a new file without a name, on the disk of SKEP_HOME

struct gc_item {
	char *what, *why;
	uint64_t bytes; // 0 = not known
	bool done;
};
struct gc_done {
	void (*fn)(void *ctx, const struct err *e, const struct gc_item *items, size_t n);
	void *ctx;
};
void engine_gc(struct engine *g, bool dry_run, struct gc_done d);

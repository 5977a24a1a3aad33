// SPDX-License-Identifier: Apache-2.0
// The life of sandboxes: create, exec, attach, kill, start, stop, pause, resume, remove, images, gc.
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
	bool tty, want_stdin, detached, job;
	uint32_t rows, cols, umask_bits;
	bool has_umask, has_timeout;
	uint64_t timeout_ms;
};
void exec_request_done(struct exec_request *x);

struct create {
	char *name, *cwd, *repo, *image, *workspace_path, *caller_path;
	bool empty, nested, trace_off, strict, run, keep, start, has_exec;
	enum profile profile;
	char **env, **labels;
	struct cell_mount *mounts;
	uint32_t n_mounts;
	struct limits limits;
	uint64_t timeout_ms, ttl_ms, idle_ms;
	uint32_t umask_bits;
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
void engine_exec(struct engine *g, const char *id, struct exec_request *x, struct done d); // empties *x
void engine_attach(struct engine *g, const char *exec, struct done d);
void engine_kill(struct engine *g, const char *exec, uint32_t signal, struct done d);

const struct sandbox *engine_get(struct engine *g, const char *id, struct err *e);
void engine_each(struct engine *g, void (*each)(void *ctx, const struct sandbox *s), void *ctx); // newest first
const char *engine_base_state(const struct sandbox *s); // "live" | "gone" | "none"
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
int engine_journal_verify(struct engine *g, const char *id, struct journal_report *out, struct err *e) MUST_USE;

int engine_image_get(struct engine *g, const char *id, struct image_row *out, struct err *e) MUST_USE;
int engine_images(struct engine *g, void (*each)(void *ctx, const struct image_row *i), void *ctx,
		  struct err *e) MUST_USE;
void engine_image_import(struct engine *g, const char *source, const char *name, struct done d);
void engine_image_remove(struct engine *g, const char *id, struct done d);

struct gc_item {
	char *what, *why;
	bool done;
};
struct gc_done {
	void (*fn)(void *ctx, const struct err *e, const struct gc_item *items, size_t n);
	void *ctx;
};
void engine_gc(struct engine *g, bool dry_run, struct gc_done d);

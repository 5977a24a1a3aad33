// SPDX-License-Identifier: Apache-2.0
// state.db: the only user of SQLite. Statements are prepared once and take bound parameters only.
// WAL, synchronous=NORMAL, opened by skepd alone; commits do not sync, store_checkpoint does.
//
// Two ways to write. Between store_begin and store_commit: all or nothing, and kept when commit returns.
// Any other write is lazy: seen at once by our own reads, kept by the next store_commit or store_flush. What
// is lost with a crash in between is settled at the next start from the cells and their journals.
#pragma once
#include "store/rows.h"

struct store;

// A file that fails its integrity check is moved aside (PATH.bad-<time>, logged). Where it was, or where there was none, the last
// backup (PATH.backup) takes its place, or an empty file; store_lost says so, and the engine then reads the records that
// lie beside the sandboxes (keep.c).
// One of an earlier schema is brought to ours step by step; of a later one: UNSUPPORTED, and nothing in it is touched.
struct store *store_open(const char *path, struct err *e) MUST_USE;
void store_close(struct store *s);
enum store_lost {
	STORE_FOUND,
	STORE_FROM_BACKUP, // what was written since the backup is missing
	STORE_EMPTY,
};
enum store_lost store_lost(const struct store *s);
uint64_t store_anew(const struct store *s); // Unix ms: what is older may belong to rows that were lost; 0 = nothing was
bool store_is_dirty(const struct store *s); // written since the last checkpoint
void store_checkpoint(struct store *s);

int store_begin(struct store *s, struct err *e) MUST_USE;
int store_commit(struct store *s, struct err *e) MUST_USE; // undone when it fails
void store_rollback(struct store *s);			     // what was written since store_begin
int store_flush(struct store *s, struct err *e) MUST_USE;

int store_sandbox_add(struct store *s, const struct sandbox *b, struct err *e) MUST_USE;
// Writes what changes in a life: state, reason, head, used, expires, pending, isolation, anchor, flags.
int store_sandbox_set(struct store *s, const struct sandbox *b, struct err *e) MUST_USE;
int store_sandbox_drop(struct store *s, const char *id, struct err *e) MUST_USE; // with its cell and execs
int store_sandboxes(struct store *s, void (*each)(void *ctx, struct sandbox *taken), void *ctx, struct err *e) MUST_USE;

int store_cell_set(struct store *s, const struct cell_row *c, struct err *e) MUST_USE;
int store_cell_drop(struct store *s, const char *sandbox, struct err *e) MUST_USE;
int store_cells(struct store *s, void (*each)(void *ctx, struct cell_row *taken), void *ctx, struct err *e) MUST_USE;

int store_exec_add(struct store *s, const struct exec_row *x, struct err *e) MUST_USE;
int store_exec_started(struct store *s, const char *id, uint32_t pid, struct err *e) MUST_USE;
// Only a running one is ended: a replayed result changes nothing.
int store_exec_ended(struct store *s, const char *id, const struct exec_result *r, struct err *e) MUST_USE;
// Those of a sandbox that still run: killed by signal 9, for that reason.
int store_execs_lost(struct store *s, const char *sandbox, const char *reason, uint64_t at, struct err *e) MUST_USE;
int store_exec_drop(struct store *s, const char *id, struct err *e) MUST_USE;
// By id or unique prefix: NOT_FOUND, CONFLICT.
int store_exec_get(struct store *s, const char *id, struct exec_row *out, struct err *e) MUST_USE;
// Newest first; sandbox NULL = all. The row is borrowed.
int store_execs(struct store *s, const char *sandbox, void (*each)(void *ctx, const struct exec_row *x), void *ctx,
		struct err *e) MUST_USE;
int store_exec_trim(struct store *s, const char *sandbox, struct err *e) MUST_USE; // keeps the newest STORE_EXECS_KEPT
#define STORE_EXECS_KEPT 1000

// keep.c. A record of all that the tables say of one thing, for a file beside it; read brings the rows back.
enum store_thing { STORE_SANDBOX, STORE_SNAPSHOT };
#define STORE_RECORD_MAX (64u << 20)
int store_record_write(struct store *s, enum store_thing what, const char *id, struct buf *out, struct err *e) MUST_USE;
int store_record_read(struct store *s, enum store_thing what, const char *id, const struct buf *record, struct err *e) MUST_USE;
// A copy of the whole, some pages with each step: 1 = go on, 0 = done, to be synced.
#define STORE_BACKUP_MS (20ULL * 3600 * 1000)
bool store_backup_is_due(const struct store *s);
int store_backup_step(struct store *s, struct err *e) MUST_USE;
void store_backup_stop(struct store *s);

// snapshot.c
// Its stack: layer, lowers, n_base; with what a rollback restores: env, image, pin.
int store_sandbox_stack(struct store *s, const struct sandbox *b, struct err *e) MUST_USE;
int store_snapshot_add(struct store *s, const struct snapshot *n, struct err *e) MUST_USE;
int store_snapshot_durable(struct store *s, const char *id, struct err *e) MUST_USE;
int store_snapshot_drop(struct store *s, const char *id, struct err *e) MUST_USE;
int store_snapshots(struct store *s, void (*each)(void *ctx, struct snapshot *taken), void *ctx, struct err *e) MUST_USE; // oldest first
int store_derived_set(struct store *s, const struct derived_row *d, struct err *e) MUST_USE;
int store_derived_drop(struct store *s, const struct derived_row *d, struct err *e) MUST_USE;
int store_derived(struct store *s, void (*each)(void *ctx, struct derived_row *taken), void *ctx, struct err *e) MUST_USE;
// How many bytes each layer has that was counted.
int store_layer_set(struct store *s, const char *id, uint64_t bytes, struct err *e) MUST_USE;
int store_layer_drop(struct store *s, const char *id, struct err *e) MUST_USE;
int store_layers(struct store *s, void (*each)(void *ctx, const char *id, uint64_t bytes), void *ctx, struct err *e) MUST_USE;

int store_image_add(struct store *s, const struct image_row *i, struct err *e) MUST_USE;
int store_image_drop(struct store *s, const char *id, struct err *e) MUST_USE;
int store_images(struct store *s, void (*each)(void *ctx, const struct image_row *i), void *ctx, struct err *e) MUST_USE;

int store_gone_add(struct store *s, const struct gone_row *g, struct err *e) MUST_USE;
int store_gone_drop(struct store *s, const char *id, struct err *e) MUST_USE;
int store_gone_get(struct store *s, const char *id, struct gone_row *out, struct err *e) MUST_USE; // id or prefix

// project.c: what a sandbox took from its project's file; nothing is kept where there is nothing to keep. What `each` does
// not take (and empty) is freed.
int store_project_set(struct store *s, const char *sandbox, const struct project_row *p, struct err *e) MUST_USE;
int store_projects(struct store *s, void (*each)(void *ctx, const char *sandbox, struct project_row *taken), void *ctx,
		   struct err *e) MUST_USE;

// token.c
int store_token_add(struct store *s, const struct token_row *t, struct err *e) MUST_USE;
int store_token_used(struct store *s, const char *id, uint64_t at, struct err *e) MUST_USE;
int store_token_drop(struct store *s, const char *id, struct err *e) MUST_USE;
int store_tokens(struct store *s, void (*each)(void *ctx, struct token_row *taken), void *ctx, struct err *e) MUST_USE; // oldest first
// Which sandbox was made under an idempotency key; those from before `since` are none. get: 1 = there is one, 0 = none.
int store_creation_add(struct store *s, const struct creation_row *c, uint64_t since, struct err *e) MUST_USE;
int store_creation_get(struct store *s, const char *key, uint64_t since, struct creation_row *out, struct err *e) MUST_USE;

// volume.c
int store_volume_add(struct store *s, const struct volume_row *v, struct err *e) MUST_USE;
int store_volume_drop(struct store *s, const char *id, struct err *e) MUST_USE;
int store_volumes(struct store *s, void (*each)(void *ctx, struct volume_row *taken), void *ctx, struct err *e) MUST_USE; // oldest first

// net.c: what sandboxes may reach, secrets, trust, and the answers that stand for every sandbox.
int store_net_set(struct store *s, const char *sandbox, const struct net_row *n, struct err *e) MUST_USE;
int store_nets(struct store *s, void (*each)(void *ctx, const char *sandbox, struct net_row *taken), void *ctx,
	       struct err *e) MUST_USE;
int store_secret_set(struct store *s, const struct secret_row *r, struct err *e) MUST_USE;
int store_secret_used(struct store *s, const char *name, uint64_t at, struct err *e) MUST_USE;
int store_secret_drop(struct store *s, const char *name, struct err *e) MUST_USE;
int store_secrets(struct store *s, void (*each)(void *ctx, struct secret_row *taken), void *ctx, struct err *e) MUST_USE;
int store_trust_set(struct store *s, const struct trust_row *r, struct err *e) MUST_USE;
int store_trust_drop(struct store *s, const char *path, struct err *e) MUST_USE;
int store_trusts(struct store *s, void (*each)(void *ctx, struct trust_row *taken), void *ctx, struct err *e) MUST_USE;
int store_answer_add(struct store *s, const char *rule, uint64_t at, struct err *e) MUST_USE;
int store_answer_drop(struct store *s, const char *rule, struct err *e) MUST_USE;
int store_answers(struct store *s, void (*each)(void *ctx, const char *rule), void *ctx, struct err *e) MUST_USE;

// note.c: texts that a surface keeps under a kind and a key.
int store_note_set(struct store *s, const char *kind, const char *key, const char *text, struct err *e) MUST_USE;
int store_note_drop(struct store *s, const char *kind, const char *key, struct err *e) MUST_USE;
int store_notes(struct store *s, const char *kind, void (*each)(void *ctx, const char *key, const char *text), void *ctx,
		struct err *e) MUST_USE;

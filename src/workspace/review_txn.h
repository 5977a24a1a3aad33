// SPDX-License-Identifier: Apache-2.0
// A set of writes to the host directory that lands as a whole or not at all, whatever is killed when.
//
//   prepare  the intent (every step, with what must be there before and after) is on disk; new contents are written to
//            temporary names beside their targets. Recovery takes the temporary files away: all old.
//   commit   all new contents are on disk. Names change one by one: two names are exchanged (what comes out is checked, and
//            put back if it is not what was looked at), new ones must be free, deleted files are moved aside.
//            Recovery goes on; where the host changed something meanwhile, it turns to
//   revert   back to all old. Files that the host changed after us stay as the host has them.
//   done     all new, on disk. What is left: P's ref, the files moved aside, the entry on the undo stack.
//
// LOG holds: lock, intent, phase, undo/NNNNNN (intents that were done, newest highest).
#pragma once
#include "base/id.h"
#include "workspace/review_side.h"

enum txn_what { TXN_APPLY, TXN_UNDO };
enum op_kind { OP_RM, OP_RMDIR, OP_MKDIR, OP_PUT }; // in the order they are done

struct op {
	enum op_kind kind;
	bool must;	// of a removed directory: something takes its name, so it must go
	char *path;
	char *temp;	// path of the temporary name; NULL for directories
	struct side old, now;
	char *attrs; // extended attributes and ACL that a new file gets, as attrs_read gives them; owned
	size_t attrs_n;
	bool as_was; // an undo: owner and group of now, too
	const char *bytes; // of now, if at hand (borrowed, not kept in the log); else the object now.oid
	size_t bytes_n;
};

// One path of P before and after; mode 0 = not there.
struct txn_base {
	char *path;
	struct shadow_entry before, after;
};

struct txn {
	char id[ID_SIZE];
	enum txn_what what;
	bool keeps_p; // apply --to: neither P nor the undo stack changes
	uint64_t number; // on the undo stack
	uint64_t time_ms;
	char *target;
	uint64_t dev, ino;
	uint8_t p_before[SHADOW_OID], p_after[SHADOW_OID];
	struct op *v;
	size_t n;
	struct txn_base *base;
	size_t n_base;
};

struct txn_env {
	int root, log; // borrowed
	struct shadow *shadow;
	uint32_t umask;
	bool resume; // after a crash: each step may have been done
	char *left;  // a path that had to be left as the host has it; owned
};

void txn_done(struct txn *t);
struct op *txn_add(struct txn *t, enum op_kind kind, const char *path);
struct txn_base *txn_add_base(struct txn *t, const char *path);
// Sorts the steps, adds missing parent directories, chooses temporary names. Call once, after all were added.
int txn_plan(struct txn_env *env, struct txn *t, struct err *e) MUST_USE;
// CONFLICT: the host changed under it and everything is as it was.
int txn_run(struct txn_env *env, struct txn *t, struct err *e) MUST_USE;

void txn_print(const struct txn *t, struct buf *out);
int txn_parse(const void *p, size_t n, struct txn *out, struct err *e) MUST_USE;
int txn_load(int log, const char *name, struct txn *out, struct err *e) MUST_USE; // NOT_FOUND

int txn_lock(int log, struct err *e) MUST_USE; // an fd that holds it; CONFLICT when another one does
int txn_top(int log, uint64_t *out, struct err *e) MUST_USE; // newest on the undo stack, 0 if empty
enum txn_recovered { TXN_NOTHING, TXN_FINISHED, TXN_REVERTED, TXN_ABANDONED };
// Finishes or reverts what was cut off. Before anything else is done with this log.
int txn_recover(int log, struct shadow *s, enum txn_recovered *out, struct err *e) MUST_USE;

// review_op.c
int op_prepare(struct txn_env *env, struct op *op, struct err *e) MUST_USE;
int op_forward(struct txn_env *env, struct op *op, struct err *e) MUST_USE;
int op_back(struct txn_env *env, struct op *op, struct err *e) MUST_USE;
// Takes the temporary name away, if what is there is ours.
int op_clean(struct txn_env *env, struct op *op, bool uncommitted, struct err *e) MUST_USE;
// review_attrs.c: of a file of the host, as bytes for the log; what can not be read is left out. Empty: there are none.
void attrs_read(int fd, struct buf *out);
void attrs_write(int fd, const char *p, size_t n); // as far as they may be set
int op_open_parent(int root, const char *path, const char **out_name, struct err *e) MUST_USE; // fd

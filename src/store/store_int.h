// SPDX-License-Identifier: Apache-2.0
// Shared inside the room: statements and the cursors that bind and read them column by column.
#pragma once
#include "store/store.h"
#include <sqlite3.h>

enum query {
	Q_BEGIN, Q_COMMIT, Q_SAVE, Q_UNSAVE, Q_UNDO,
	Q_BOX_ADD, Q_BOX_SET, Q_BOX_DROP, Q_BOX_DROP_CELL, Q_BOX_DROP_EXECS, Q_BOXES,
	Q_CELL_SET, Q_CELL_DROP, Q_CELLS,
	Q_EXEC_ADD, Q_EXEC_STARTED, Q_EXEC_ENDED, Q_EXECS_LOST, Q_EXEC_DROP, Q_EXEC_GET, Q_EXECS, Q_EXECS_ALL, Q_EXEC_TRIM,
	Q_IMAGE_ADD, Q_IMAGE_DROP, Q_IMAGES,
	Q_GONE_ADD, Q_GONE_DROP, Q_GONE_GET,
	Q_NET_SET, Q_NET_DROP, Q_NETS,
	Q_SECRET_SET, Q_SECRET_USED, Q_SECRET_DROP, Q_SECRETS,
	Q_TRUST_SET, Q_TRUST_DROP, Q_TRUSTS,
	Q_BOX_STACK, Q_SNAP_ADD, Q_SNAP_DURABLE, Q_SNAP_DROP, Q_SNAPS, Q_DERIVED_SET, Q_DERIVED_DROP, Q_DERIVED,
	Q_LAYER_SET, Q_LAYER_DROP, Q_LAYERS,
	Q_ANSWER_ADD, Q_ANSWER_DROP, Q_ANSWERS,
	Q_TOKEN_ADD, Q_TOKEN_USED, Q_TOKEN_DROP, Q_TOKENS,
	Q_KEPT_ADD, Q_KEPT_GET, Q_KEPT_TRIM,
	Q_PROJECT_SET, Q_PROJECT_DROP, Q_PROJECTS,
	Q_NOTE_SET, Q_NOTE_DROP, Q_NOTES,
	Q_VOLUME_ADD, Q_VOLUME_DROP, Q_VOLUMES,
	QUERIES,
};

struct store {
	sqlite3 *db;
	sqlite3_stmt *q[QUERIES];
	bool dirty;
	char *path;
	enum store_lost lost;
	uint64_t anew; // keep.c: when it began without what was before
	sqlite3 *backup_db;
	sqlite3_backup *backup;
	uint64_t last_order; // of exec rows: newest first also within a millisecond
};

// column.c: binds or reads the next column.
struct cursor {
	sqlite3_stmt *st;
	int at;
};
struct cursor store_query(struct store *s, enum query q);
void put_text(struct cursor *c, const char *v); // NULL is kept
void put_u64(struct cursor *c, uint64_t v);
void put_blob(struct cursor *c, const struct buf *b); // copied
void put_strv(struct cursor *c, char *const *v);
char *get_text(struct cursor *c); // owned, may be NULL
void get_fixed(struct cursor *c, char *out, size_t size);
uint64_t get_u64(struct cursor *c);
struct wire get_blob(struct cursor *c); // borrowed until the next step
char **get_strv(struct cursor *c);	// owned, never NULL

int store_run(struct store *s, struct cursor c, struct err *e) MUST_USE; // a write, lazy unless begun; resets it
uint64_t store_order(struct store *s);
int store_run_id(struct store *s, enum query q, const char *id, struct err *e) MUST_USE;
int store_rows_end(struct store *s, sqlite3_stmt *st, int rc, struct err *e) MUST_USE; // -1 unless rc is the end
int store_fail(struct store *s, struct err *e);				 // sqlite's last error; -1

// sandbox.c
uint64_t sandbox_flags(const struct sandbox *b);
void mounts_write(struct buf *w, const struct sandbox *b);
void mounts_read(struct wire *w, struct sandbox *b);

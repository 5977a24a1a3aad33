// SPDX-License-Identifier: Apache-2.0
// What outlives state.db: a copy of the whole file beside it (PATH.backup), made by SQLite's backup API a few pages at a time,
// and records of single things, for whoever keeps them beside what they are about.
//
// A record is "skep-row 1\n", then for each row of a table that is about the id: the table's name, the number of columns, and for each
// column its name, type and value; then the SHA-256 of all that. Columns are found by name: a reader of another version
// passes over those it has not, and leaves those at their default that the record has not.
#include "store/store_int.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha256.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "skep-row 1\n"
#define RECORD_MAX (8u * LIMIT_REQUEST_BODY)
#define COLUMNS_MAX 200
#define PAGES_AT_ONCE 200

static const struct {
	const char *table, *key;
	const char *left_out; // columns that change all the time, and are found out anew
	enum store_thing of;
} tables[] = {
	{"sandboxes", "id", " used reason pending isolation anchor_seq anchor bytes ", STORE_SANDBOX},
	{"nets", "sandbox", "", STORE_SANDBOX},
	{"projects", "sandbox", "", STORE_SANDBOX},
	{"cells", "sandbox", "", STORE_SANDBOX},
	{"snapshots", "id", "", STORE_SNAPSHOT},
};

// --- records ---

static bool is_left_out(const char *list, const char *column)
{
	auto_free char *word = xasprintf(" %s ", column);
	return strstr(list, word) != NULL;
}

static void value_write(struct buf *out, sqlite3_stmt *st, int i)
{
	int type = sqlite3_column_type(st, i);
	wire_u8(out, (uint8_t)type);
	if (type == SQLITE_INTEGER) {
		wire_u64(out, (uint64_t)sqlite3_column_int64(st, i));
	} else if (type == SQLITE_TEXT || type == SQLITE_BLOB) {
		const void *p = sqlite3_column_blob(st, i);
		wire_bytes(out, p ? p : "", (size_t)sqlite3_column_bytes(st, i));
	}
}

static void row_write(struct buf *out, sqlite3_stmt *st, size_t t)
{
	uint32_t n = 0;
	int all = sqlite3_column_count(st);
	for (int i = 0; i < all; i++)
		n += !is_left_out(tables[t].left_out, sqlite3_column_name(st, i));
	wire_str(out, tables[t].table);
	wire_u32(out, n);
	for (int i = 0; i < all; i++) {
		const char *name = sqlite3_column_name(st, i);
		if (is_left_out(tables[t].left_out, name))
			continue;
		wire_str(out, name);
		value_write(out, st, i);
	}
}

static int table_write(struct store *s, size_t t, const char *id, struct buf *out, struct err *e)
{
	sqlite3_stmt *st = NULL;
	auto_free char *text = xasprintf("SELECT * FROM %s WHERE %s=?", tables[t].table, tables[t].key);
	if (sqlite3_prepare_v2(s->db, text, -1, &st, NULL) != SQLITE_OK)
		return store_fail(s, e);
	sqlite3_bind_text(st, 1, id, -1, SQLITE_TRANSIENT);
	int rc;
	while ((rc = sqlite3_step(st)) == SQLITE_ROW)
		row_write(out, st, t);
	if (rc != SQLITE_DONE)
		store_fail(s, e);
	sqlite3_finalize(st);
	return rc == SQLITE_DONE ? 0 : -1;
}

static void sum_of(const struct buf *b, size_t n, uint8_t out[32])
{
	struct sha256 h;
	sha256_init(&h);
	sha256_add(&h, b->p, n);
	sha256_end(&h, out);
}

int store_record_write(struct store *s, enum store_thing what, const char *id, struct buf *out, struct err *e)
{
	uint8_t sum[32];
	size_t before = out->n;
	buf_str(out, MAGIC);
	for (size_t t = 0; t < countof(tables); t++)
		if (tables[t].of == what && table_write(s, t, id, out, e))
			return -1;
	if (out->n == before + strlen(MAGIC))
		return err_set(e, ERR_NOT_FOUND, "state.db has no row of %s", id);
	sum_of(out, out->n, sum);
	buf_add(out, sum, sizeof sum);
	return out->overflow ? err_set(e, ERR_LIMIT, "the record of %s is too long", id) : 0;
}

struct column {
	char *name;
	uint8_t type;
	int64_t number;
	const uint8_t *p;
	size_t n;
};

static bool is_column_name(const char *s)
{
	return s && *s && strlen(s) < 64 && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(s);
}

static bool column_exists(struct store *s, const char *table, const char *name)
{
	return sqlite3_table_column_metadata(s->db, NULL, table, name, NULL, NULL, NULL, NULL, NULL) == SQLITE_OK;
}

// -1: the bytes make no sense.
static int column_read(struct wire *w, struct column *out)
{
	*out = (struct column){.name = wire_get_str(w)};
	out->type = wire_get_u8(w);
	if (out->type == SQLITE_INTEGER)
		out->number = (int64_t)wire_get_u64(w);
	else if (out->type == SQLITE_TEXT || out->type == SQLITE_BLOB)
		out->p = wire_get_bytes(w, &out->n);
	else if (out->type != SQLITE_NULL)
		return -1;
	return w->bad || !is_column_name(out->name) ? -1 : 0;
}

static void column_bind(sqlite3_stmt *st, int at, const struct column *c)
{
	if (c->type == SQLITE_INTEGER)
		sqlite3_bind_int64(st, at, c->number);
	else if (c->type == SQLITE_TEXT)
		sqlite3_bind_text(st, at, (const char *)c->p, (int)c->n, SQLITE_TRANSIENT);
	else if (c->type == SQLITE_BLOB)
		sqlite3_bind_blob(st, at, c->p, (int)c->n, SQLITE_TRANSIENT);
	else
		sqlite3_bind_null(st, at);
}

// With what the record leaves out at values that are true of any sandbox.
static int row_insert(struct store *s, size_t t, const struct column *v, size_t n, struct err *e)
{
	auto_buf struct buf names = BUF_INIT(32 << 10), marks = BUF_INIT(4096);
	for (size_t i = 0; i < n; i++) {
		buf_fmt(&names, "%s%s", i ? "," : "", v[i].name);
		buf_str(&marks, i ? ",?" : "?");
	}
	if (!strcmp(tables[t].table, "sandboxes")) {
		buf_str(&names, ",pending,used,anchor_seq,anchor,bytes");
		buf_fmt(&marks, ",-1,%llu,0,'',0", (unsigned long long)clock_unix_ms());
	}
	auto_free char *text = xasprintf("INSERT OR REPLACE INTO %s(%s) VALUES(%s)", tables[t].table, buf_cstr(&names), buf_cstr(&marks));
	sqlite3_stmt *st = NULL;
	if (sqlite3_prepare_v2(s->db, text, -1, &st, NULL) != SQLITE_OK)
		return store_fail(s, e);
	for (size_t i = 0; i < n; i++)
		column_bind(st, (int)i + 1, &v[i]);
	int rc = sqlite3_step(st);
	if (rc != SQLITE_DONE)
		store_fail(s, e);
	sqlite3_finalize(st);
	s->dirty = true;
	return rc == SQLITE_DONE ? 0 : -1;
}

static bool is_of_id(size_t t, const struct column *c, const char *id)
{
	return !strcmp(c->name, tables[t].key) && c->type == SQLITE_TEXT && c->n == strlen(id) && !memcmp(c->p, id, c->n);
}

static int row_read(struct store *s, enum store_thing what, const char *id, struct wire *w, struct err *e)
{
	struct column v[COLUMNS_MAX];
	auto_free char *table = wire_get_str(w);
	uint32_t n = wire_get_u32(w);
	size_t kept = 0, t = 0;
	bool own = false, sound = !w->bad && table && n <= COLUMNS_MAX;
	while (t < countof(tables) && (!table || strcmp(table, tables[t].table)))
		t++;
	sound = sound && (t == countof(tables) || tables[t].of == what);
	for (uint32_t i = 0; sound && i < n; i++) {
		sound = !column_read(w, &v[kept]);
		bool known = sound && t < countof(tables) && column_exists(s, table, v[kept].name) && !is_left_out(tables[t].left_out, v[kept].name);
		own |= known && is_of_id(t, &v[kept], id);
		if (known)
			kept++;
		else
			free(v[kept].name);
	}
	int rc = sound ? 0 : err_set(e, ERR_INVALID, "the record of %s is damaged", id);
	if (sound && t < countof(tables))
		rc = own ? row_insert(s, t, v, kept, e) : err_set(e, ERR_INVALID, "the record of %s is about something else", id);
	while (kept)
		free(v[--kept].name);
	return rc;
}

int store_record_read(struct store *s, enum store_thing what, const char *id, const struct buf *record, struct err *e)
{
	uint8_t sum[32];
	size_t head = strlen(MAGIC);
	if (record->n < head + sizeof sum || memcmp(record->p, MAGIC, head))
		return err_set(e, ERR_INVALID, "the record of %s is none", id);
	sum_of(record, record->n - sizeof sum, sum);
	if (memcmp(record->p + record->n - sizeof sum, sum, sizeof sum))
		return err_set(e, ERR_INVALID, "the record of %s is damaged", id);
	struct wire w = {.p = (const uint8_t *)record->p + head, .n = record->n - head - sizeof sum};
	int rc = store_begin(s, e);
	while (!rc && w.n)
		rc = row_read(s, what, id, &w, e);
	if (!rc)
		return store_commit(s, e);
	store_rollback(s);
	return -1;
}

// --- the copy of the whole ---

bool store_backup_is_due(const struct store *s)
{
	struct stat st;
	auto_free char *path = xasprintf("%s.backup", s->path);
	if (s->backup)
		return false;
	return stat(path, &st) || (uint64_t)st.st_mtime * 1000 + STORE_BACKUP_MS < clock_unix_ms();
}

static void backup_drop(struct store *s)
{
	if (s->backup)
		sqlite3_backup_finish(s->backup);
	sqlite3_close(s->backup_db);
	s->backup = NULL;
	s->backup_db = NULL;
}

static int backup_begin(struct store *s, const char *partial, struct err *e)
{
	unlink(partial);
	if (sqlite3_open_v2(partial, &s->backup_db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
		return err_set(e, ERR_SYSTEM, "backup of state.db: %s", s->backup_db ? sqlite3_errmsg(s->backup_db) : "out of memory");
	chmod(partial, 0600);
	sqlite3_exec(s->backup_db, "PRAGMA synchronous=OFF", NULL, NULL, NULL); // whoever calls syncs it
	s->backup = sqlite3_backup_init(s->backup_db, "main", s->db, "main");
	return s->backup ? 0 : err_set(e, ERR_SYSTEM, "backup of state.db: %s", sqlite3_errmsg(s->backup_db));
}

int store_backup_step(struct store *s, struct err *e)
{
	auto_free char *partial = xasprintf("%s.backup.partial", s->path), *whole = xasprintf("%s.backup", s->path);
	if (store_flush(s, e) || (!s->backup && backup_begin(s, partial, e))) { // no page is copied while a write is open
		backup_drop(s);
		return -1;
	}
	int rc = sqlite3_backup_step(s->backup, PAGES_AT_ONCE);
	if (rc == SQLITE_OK || rc == SQLITE_BUSY || rc == SQLITE_LOCKED)
		return 1;
	bool done = rc == SQLITE_DONE && !fault(FAULT_STORE_BACKUP, e);
	if (rc != SQLITE_DONE)
		err_set(e, ERR_SYSTEM, "backup of state.db: %s", sqlite3_errmsg(s->backup_db));
	backup_drop(s);
	if (!done) {
		unlink(partial);
		return -1;
	}
	return rename(partial, whole) ? err_sys(e, "rename the backup of state.db") : 0;
}

void store_backup_stop(struct store *s)
{
	if (!s->backup)
		return;
	auto_free char *partial = xasprintf("%s.backup.partial", s->path);
	backup_drop(s);
	unlink(partial);
}

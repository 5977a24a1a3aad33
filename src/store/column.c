// SPDX-License-Identifier: Apache-2.0
// Columns are bound and read one after the other, in the order of the statement; lists are wire records.
#include "store/store_int.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

void put_text(struct cursor *c, const char *v)
{
	if (v)
		sqlite3_bind_text(c->st, ++c->at, v, -1, SQLITE_TRANSIENT);
	else
		sqlite3_bind_null(c->st, ++c->at);
}

void put_u64(struct cursor *c, uint64_t v)
{
	sqlite3_bind_int64(c->st, ++c->at, (sqlite3_int64)v);
}

void put_blob(struct cursor *c, const struct buf *b)
{
	sqlite3_bind_blob(c->st, ++c->at, b->n ? b->p : "", (int)b->n, SQLITE_TRANSIENT);
}

void put_strv(struct cursor *c, char *const *v)
{
	auto_buf struct buf b = BUF_INIT(2 * LIMIT_REQUEST_BODY);
	wire_strv(&b, v);
	put_blob(c, &b);
}

char *get_text(struct cursor *c)
{
	const char *t = (const char *)sqlite3_column_text(c->st, c->at++);
	return t ? xstrdup(t) : NULL;
}

void get_fixed(struct cursor *c, char *out, size_t size)
{
	const char *t = (const char *)sqlite3_column_text(c->st, c->at++);
	size_t n = t ? strlen(t) : 0;
	memcpy(out, t && n < size ? t : "", n < size ? n : 0);
	out[n < size ? n : 0] = 0;
}

uint64_t get_u64(struct cursor *c)
{
	return (uint64_t)sqlite3_column_int64(c->st, c->at++);
}

struct wire get_blob(struct cursor *c)
{
	struct wire w = {.p = sqlite3_column_blob(c->st, c->at), .n = (size_t)sqlite3_column_bytes(c->st, c->at)};
	c->at++;
	return w;
}

char **get_strv(struct cursor *c)
{
	struct wire w = get_blob(c);
	char **v = w.n ? wire_get_strv(&w) : NULL;
	return v ? v : xcalloc(1, sizeof *v);
}

int store_run_id(struct store *s, enum query q, const char *id, struct err *e)
{
	struct cursor c = store_query(s, q);
	put_text(&c, id);
	return store_run(s, c, e);
}

int store_rows_end(struct store *s, sqlite3_stmt *st, int rc, struct err *e)
{
	if (rc != SQLITE_DONE)
		store_fail(s, e);
	sqlite3_reset(st);
	return rc == SQLITE_DONE ? 0 : -1;
}

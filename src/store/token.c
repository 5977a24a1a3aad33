// SPDX-License-Identifier: Apache-2.0
// Tokens, and what was made under idempotency keys.
#include "store/store_int.h"

#include "base/mem.h"
#include <stdlib.h>

void token_row_done(struct token_row *t)
{
	free(t->name);
	free(t->value);
	*t = (struct token_row){0};
}

void creation_row_done(struct creation_row *c)
{
	free(c->key);
	*c = (struct creation_row){0};
}

int store_token_add(struct store *s, const struct token_row *t, struct err *e)
{
	struct cursor c = store_query(s, Q_TOKEN_ADD);
	put_text(&c, t->id);
	put_text(&c, t->name);
	put_text(&c, t->sha256);
	put_u64(&c, t->scope);
	put_u64(&c, t->on);
	put_text(&c, t->value);
	put_u64(&c, t->rate);
	put_u64(&c, t->created);
	put_u64(&c, t->expires);
	put_u64(&c, t->used);
	return store_run(s, c, e);
}

int store_token_used(struct store *s, const char *id, uint64_t at, struct err *e)
{
	struct cursor c = store_query(s, Q_TOKEN_USED);
	put_u64(&c, at);
	put_text(&c, id);
	return store_run(s, c, e);
}

int store_token_drop(struct store *s, const char *id, struct err *e)
{
	return store_run_id(s, Q_TOKEN_DROP, id, e);
}

int store_tokens(struct store *s, void (*each)(void *ctx, struct token_row *taken), void *ctx, struct err *e)
{
	int rc;
	sqlite3_stmt *st = s->q[Q_TOKENS];
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct cursor c = {st, 0};
		struct token_row t = {0};
		get_fixed(&c, t.id, sizeof t.id);
		t.name = get_text(&c);
		get_fixed(&c, t.sha256, sizeof t.sha256);
		t.scope = (enum scope)get_u64(&c);
		t.on = (enum on_kind)get_u64(&c);
		t.value = get_text(&c);
		t.rate = get_u64(&c);
		t.created = get_u64(&c);
		t.expires = get_u64(&c);
		t.used = get_u64(&c);
		each(ctx, &t);
	}
	return store_rows_end(s, st, rc, e);
}

int store_creation_add(struct store *s, const struct creation_row *r, uint64_t since, struct err *e)
{
	struct cursor trim = store_query(s, Q_KEPT_TRIM), c = store_query(s, Q_KEPT_ADD);
	put_u64(&trim, since);
	put_text(&c, r->key);
	put_text(&c, r->sha256);
	put_text(&c, r->sandbox);
	put_text(&c, r->exec);
	put_u64(&c, r->at);
	return store_run(s, trim, e) || store_run(s, c, e) ? -1 : 0;
}

int store_creation_get(struct store *s, const char *key, uint64_t since, struct creation_row *out, struct err *e)
{
	struct cursor c = store_query(s, Q_KEPT_GET);
	put_text(&c, key);
	put_u64(&c, since);
	int rc = sqlite3_step(c.st);
	bool found = rc == SQLITE_ROW;
	if (found) {
		struct cursor g = {c.st, 0};
		*out = (struct creation_row){.key = get_text(&g)};
		get_fixed(&g, out->sha256, sizeof out->sha256);
		get_fixed(&g, out->sandbox, sizeof out->sandbox);
		get_fixed(&g, out->exec, sizeof out->exec);
		out->at = get_u64(&g);
		rc = sqlite3_step(c.st);
	}
	if (!store_rows_end(s, c.st, rc, e))
		return found;
	if (found)
		creation_row_done(out);
	return -1;
}

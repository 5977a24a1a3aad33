// SPDX-License-Identifier: Apache-2.0
// The rows behind the gate: what sandboxes may reach, sealed secrets, trusted project files, standing answers.
#include "store/store_int.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

void net_row_done(struct net_row *n)
{
	free(n->preset);
	strv_free(n->rules);
	strv_free(n->registries);
	free(n->phase);
	strv_free(n->secrets);
	strv_free(n->headers);
	free(n->ca_cert);
	buf_done(&n->ca_key);
	*n = (struct net_row){0};
}

void secret_row_done(struct secret_row *r)
{
	free(r->name);
	free(r->host);
	free(r->key);
	buf_done(&r->sealed);
	*r = (struct secret_row){0};
}

void trust_row_done(struct trust_row *r)
{
	free(r->path);
	free(r->setup_net);
	*r = (struct trust_row){0};
}

static void copy_blob(struct cursor *c, struct buf *out)
{
	struct wire w = get_blob(c);
	*out = BUF_INIT(w.n);
	buf_add(out, w.p, w.n);
}

static void put_list(struct cursor *c, char *const *v)
{
	char *none[] = {NULL};
	put_strv(c, v ? v : none);
}

int store_net_set(struct store *s, const char *sandbox, const struct net_row *n, struct err *e)
{
	struct cursor c = store_query(s, Q_NET_SET);
	put_text(&c, sandbox);
	put_text(&c, n->preset);
	put_list(&c, n->rules);
	if (n->registries) // none at all is not the same as not said
		put_strv(&c, n->registries);
	else
		put_text(&c, NULL);
	put_u64(&c, n->has_ask ? 1 + n->ask : 0);
	put_text(&c, n->phase);
	put_list(&c, n->secrets);
	put_text(&c, n->ca_cert);
	put_blob(&c, &n->ca_key);
	put_list(&c, n->headers);
	return store_run(s, c, e);
}

int store_nets(struct store *s, void (*each)(void *ctx, const char *sandbox, struct net_row *taken), void *ctx, struct err *e)
{
	int rc;
	sqlite3_stmt *st = s->q[Q_NETS];
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct cursor c = {st, 0};
		char id[ID_SIZE];
		get_fixed(&c, id, sizeof id);
		struct net_row n = {.preset = get_text(&c)};
		n.rules = get_strv(&c);
		if (sqlite3_column_type(st, c.at) != SQLITE_NULL)
			n.registries = get_strv(&c);
		else
			c.at++;
		uint64_t ask = get_u64(&c);
		n.has_ask = ask;
		n.ask = ask == 2;
		n.phase = get_text(&c);
		n.secrets = get_strv(&c);
		n.ca_cert = get_text(&c);
		copy_blob(&c, &n.ca_key);
		n.headers = get_strv(&c);
		each(ctx, id, &n);
	}
	return store_rows_end(s, st, rc, e);
}

int store_secret_set(struct store *s, const struct secret_row *r, struct err *e)
{
	struct cursor c = store_query(s, Q_SECRET_SET);
	put_text(&c, r->name);
	put_text(&c, r->host);
	put_u64(&c, r->port);
	put_u64(&c, (uint64_t)r->as);
	put_text(&c, r->key);
	put_blob(&c, &r->sealed);
	put_u64(&c, r->created);
	put_u64(&c, r->used);
	return store_run(s, c, e);
}

int store_secret_used(struct store *s, const char *name, uint64_t at, struct err *e)
{
	struct cursor c = store_query(s, Q_SECRET_USED);
	put_u64(&c, at);
	put_text(&c, name);
	return store_run(s, c, e);
}

int store_secret_drop(struct store *s, const char *name, struct err *e)
{
	return store_run_id(s, Q_SECRET_DROP, name, e);
}

int store_secrets(struct store *s, void (*each)(void *ctx, struct secret_row *taken), void *ctx, struct err *e)
{
	int rc;
	sqlite3_stmt *st = s->q[Q_SECRETS];
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct cursor c = {st, 0};
		struct secret_row r = {.name = get_text(&c)};
		r.host = get_text(&c);
		r.port = (uint16_t)get_u64(&c);
		r.as = (int)get_u64(&c);
		r.key = get_text(&c);
		copy_blob(&c, &r.sealed);
		r.created = get_u64(&c);
		r.used = get_u64(&c);
		each(ctx, &r);
	}
	return store_rows_end(s, st, rc, e);
}

int store_trust_set(struct store *s, const struct trust_row *r, struct err *e)
{
	struct cursor c = store_query(s, Q_TRUST_SET);
	put_text(&c, r->path);
	put_text(&c, r->sha256);
	put_u64(&c, r->at);
	put_text(&c, r->setup_net);
	return store_run(s, c, e);
}

int store_trust_drop(struct store *s, const char *path, struct err *e)
{
	return store_run_id(s, Q_TRUST_DROP, path, e);
}

int store_trusts(struct store *s, void (*each)(void *ctx, struct trust_row *taken), void *ctx, struct err *e)
{
	int rc;
	sqlite3_stmt *st = s->q[Q_TRUSTS];
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct cursor c = {st, 0};
		struct trust_row r = {.path = get_text(&c)};
		get_fixed(&c, r.sha256, sizeof r.sha256);
		r.at = get_u64(&c);
		r.setup_net = get_text(&c);
		each(ctx, &r);
	}
	return store_rows_end(s, st, rc, e);
}

int store_answer_add(struct store *s, const char *rule, uint64_t at, struct err *e)
{
	struct cursor c = store_query(s, Q_ANSWER_ADD);
	put_text(&c, rule);
	put_u64(&c, at);
	return store_run(s, c, e);
}

int store_answer_drop(struct store *s, const char *rule, struct err *e)
{
	return store_run_id(s, Q_ANSWER_DROP, rule, e);
}

int store_answers(struct store *s, void (*each)(void *ctx, const char *rule), void *ctx, struct err *e)
{
	int rc;
	sqlite3_stmt *st = s->q[Q_ANSWERS];
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct cursor c = {st, 0};
		auto_free char *rule = get_text(&c);
		each(ctx, rule);
	}
	return store_rows_end(s, st, rc, e);
}

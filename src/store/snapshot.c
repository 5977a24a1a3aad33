// SPDX-License-Identifier: Apache-2.0
// Snapshots, the stack of layers of a sandbox, and what is derived.
#include "store/store_int.h"

#include "base/mem.h"
#include <stdlib.h>

enum { S_AUTOMATIC = 1, S_FROZEN = 2, S_DURABLE = 4 };
enum { T_LEASE = 0x80, T_KEEP_TMP = 0x40 }; // beside the action on expiry
#define TEMPLATE_MAX (4 * LIMIT_REQUEST_BODY)

void snapshot_done(struct snapshot *n)
{
	free(n->name);
	strv_free(n->lowers);
	buf_done(&n->template);
	*n = (struct snapshot){0};
}

void sandbox_template_write(struct buf *b, const struct sandbox *s)
{
	wire_u8(b, s->profile);
	wire_u8(b, s->nested);
	wire_u8(b, s->trace_off);
	wire_u8(b, s->strict);
	wire_u8(b, s->auto_snapshot);
	wire_str(b, s->image);
	wire_str(b, s->repo);
	wire_str(b, s->url);
	wire_str(b, s->tree);
	wire_str(b, s->ref);
	wire_str(b, s->head);
	wire_u64(b, s->base_dev);
	wire_u64(b, s->base_ino);
	wire_u8(b, s->base_pin);
	wire_str(b, s->pin);
	wire_str(b, s->ws_path);
	wire_str(b, s->path);
	wire_strv(b, s->env);
	wire_strv(b, s->labels);
	wire_strv(b, s->objects);
	mounts_write(b, s);
	limits_write(b, &s->limits);
	wire_u32(b, s->umask_bits);
	wire_u64(b, s->timeout_ms);
	wire_u64(b, s->ttl_ms);
	wire_u64(b, s->idle_ms);
	wire_u8(b, s->on_expiry | (s->lease ? T_LEASE : 0) | (s->keep_tmp ? T_KEEP_TMP : 0));
	project_row_write(b, &s->project);
}

int sandbox_template_read(const struct buf *b, struct sandbox *s)
{
	struct wire w = {.p = (const uint8_t *)b->p, .n = b->n};
	s->profile = (enum profile)wire_get_u8(&w);
	s->nested = wire_get_u8(&w);
	s->trace_off = wire_get_u8(&w);
	s->strict = wire_get_u8(&w);
	s->auto_snapshot = wire_get_u8(&w);
	s->image = wire_get_str(&w);
	s->repo = wire_get_str(&w);
	s->url = wire_get_str(&w);
	s->tree = wire_get_str(&w);
	s->ref = wire_get_str(&w);
	s->head = wire_get_str(&w);
	s->base_dev = wire_get_u64(&w);
	s->base_ino = wire_get_u64(&w);
	s->base_pin = (enum base_pin)wire_get_u8(&w);
	s->pin = wire_get_str(&w);
	s->ws_path = wire_get_str(&w);
	s->path = wire_get_str(&w);
	s->env = wire_get_strv(&w);
	s->labels = wire_get_strv(&w);
	s->objects = wire_get_strv(&w);
	mounts_read(&w, s);
	limits_read(&w, &s->limits);
	s->umask_bits = wire_get_u32(&w);
	s->timeout_ms = wire_get_u64(&w);
	s->ttl_ms = wire_get_u64(&w);
	s->idle_ms = wire_get_u64(&w);
	uint8_t expiry = wire_get_u8(&w);
	s->on_expiry = (enum on_expiry)(expiry & ~(T_LEASE | T_KEEP_TMP));
	s->keep_tmp = expiry & T_KEEP_TMP;
	s->lease = expiry & T_LEASE;
	project_row_read(&w, &s->project);
	return w.bad || !s->ws_path ? -1 : 0;
}

int store_sandbox_stack(struct store *s, const struct sandbox *b, struct err *e)
{
	struct cursor c = store_query(s, Q_BOX_STACK);
	put_text(&c, b->layer);
	put_strv(&c, b->lowers);
	put_u64(&c, b->n_base);
	put_strv(&c, b->env);
	put_text(&c, b->image);
	put_u64(&c, b->base_pin);
	put_text(&c, b->pin);
	put_u64(&c, (uint64_t)b->pending);
	put_u64(&c, sandbox_flags(b));
	put_text(&c, b->id);
	return store_run(s, c, e);
}

int store_snapshot_add(struct store *s, const struct snapshot *n, struct err *e)
{
	struct cursor c = store_query(s, Q_SNAP_ADD);
	put_text(&c, n->id);
	put_text(&c, n->sandbox);
	put_text(&c, n->name);
	put_u64(&c, n->created);
	put_u64(&c, (n->automatic ? S_AUTOMATIC : 0) | (n->frozen ? S_FROZEN : 0) | (n->durable ? S_DURABLE : 0));
	put_strv(&c, n->lowers);
	put_u64(&c, n->n_base);
	put_u64(&c, (uint64_t)n->pending);
	put_blob(&c, &n->template);
	put_u64(&c, store_order(s));
	return store_run(s, c, e);
}

int store_snapshot_durable(struct store *s, const char *id, struct err *e)
{
	return store_run_id(s, Q_SNAP_DURABLE, id, e);
}

int store_snapshot_drop(struct store *s, const char *id, struct err *e)
{
	return store_run_id(s, Q_SNAP_DROP, id, e);
}

static void get_snapshot(sqlite3_stmt *st, struct snapshot *n)
{
	struct cursor c = {st, 0};
	get_fixed(&c, n->id, sizeof n->id);
	get_fixed(&c, n->sandbox, sizeof n->sandbox);
	n->name = get_text(&c);
	n->created = get_u64(&c);
	uint64_t flags = get_u64(&c);
	n->automatic = flags & S_AUTOMATIC;
	n->frozen = flags & S_FROZEN;
	n->durable = flags & S_DURABLE;
	n->lowers = get_strv(&c);
	n->n_base = (uint32_t)get_u64(&c);
	n->pending = (int64_t)get_u64(&c);
	struct wire w = get_blob(&c);
	n->template = BUF_INIT(TEMPLATE_MAX);
	buf_add(&n->template, w.p, w.n);
}

int store_snapshots(struct store *s, void (*each)(void *ctx, struct snapshot *taken), void *ctx, struct err *e)
{
	int rc;
	sqlite3_stmt *st = s->q[Q_SNAPS];
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct snapshot n = {0};
		get_snapshot(st, &n);
		each(ctx, &n);
	}
	return store_rows_end(s, st, rc, e);
}

void derived_row_done(struct derived_row *d)
{
	free(d->key);
	free(d->path);
	strv_free(d->info);
	*d = (struct derived_row){0};
}

int store_derived_set(struct store *s, const struct derived_row *d, struct err *e)
{
	struct cursor c = store_query(s, Q_DERIVED_SET);
	put_u64(&c, d->kind);
	put_text(&c, d->key);
	put_text(&c, d->path);
	put_strv(&c, d->info);
	put_u64(&c, d->created);
	put_u64(&c, d->used);
	put_u64(&c, d->bytes);
	return store_run(s, c, e);
}

int store_derived_drop(struct store *s, const struct derived_row *d, struct err *e)
{
	struct cursor c = store_query(s, Q_DERIVED_DROP);
	put_u64(&c, d->kind);
	put_text(&c, d->key);
	return store_run(s, c, e);
}

int store_derived(struct store *s, void (*each)(void *ctx, struct derived_row *taken), void *ctx, struct err *e)
{
	int rc;
	sqlite3_stmt *st = s->q[Q_DERIVED];
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct cursor c = {st, 0};
		struct derived_row d = {.kind = (enum derived_kind)get_u64(&c)};
		d.key = get_text(&c);
		d.path = get_text(&c);
		d.info = get_strv(&c);
		d.created = get_u64(&c);
		d.used = get_u64(&c);
		d.bytes = get_u64(&c);
		each(ctx, &d);
	}
	return store_rows_end(s, st, rc, e);
}

int store_layer_set(struct store *s, const char *id, uint64_t bytes, struct err *e)
{
	struct cursor c = store_query(s, Q_LAYER_SET);
	put_text(&c, id);
	put_u64(&c, bytes);
	return store_run(s, c, e);
}

int store_layer_drop(struct store *s, const char *id, struct err *e)
{
	return store_run_id(s, Q_LAYER_DROP, id, e);
}

int store_layers(struct store *s, void (*each)(void *ctx, const char *id, uint64_t bytes), void *ctx, struct err *e)
{
	int rc;
	sqlite3_stmt *st = s->q[Q_LAYERS];
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct cursor c = {st, 0};
		char id[ID_SIZE];
		get_fixed(&c, id, sizeof id);
		each(ctx, id, get_u64(&c));
	}
	return store_rows_end(s, st, rc, e);
}

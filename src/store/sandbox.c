// SPDX-License-Identifier: Apache-2.0
// Rows of sandboxes and of their cells. Columns stand in the order of the schema.
#include "store/store_int.h"

#include "base/mem.h"
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

void sandbox_done(struct sandbox *s)
{
	free(s->name);
	free(s->owner);
	free(s->reason);
	free(s->image);
	free(s->repo);
	free(s->head);
	free(s->ws_path);
	free(s->path);
	strv_free(s->env);
	strv_free(s->labels);
	for (uint32_t i = 0; i < s->n_mounts; i++) {
		free(s->mounts[i].src);
		free(s->mounts[i].dst);
	}
	free(s->mounts);
	isolation_done(&s->isolation);
	net_row_done(&s->net);
	strv_free(s->lowers);
	strv_free(s->objects);
	free(s->context);
	free(s->origin);
	free(s->url);
	free(s->tree);
	free(s->ref);
	free(s->pin);
	project_row_done(&s->project);
	*s = (struct sandbox){0};
}

const char *on_expiry_name(enum on_expiry x)
{
	static const char *const names[] = {"stop", "pause", "delete"};
	static_assert(countof(names) == EXPIRIES, "a name per action");
	return x < EXPIRIES ? names[x] : "?";
}

void cell_row_done(struct cell_row *c)
{
	strv_free(c->lowers);
	*c = (struct cell_row){0};
}

// Bits of the column `flags`: each keeps its meaning for ever, for files of earlier versions have it.
static const struct {
	uint64_t bit;
	size_t at;
} flags[] = {
	{1, offsetof(struct sandbox, nested)},
	{2, offsetof(struct sandbox, trace_off)},
	{4, offsetof(struct sandbox, strict)},
	{8, offsetof(struct sandbox, run)},
	{16, offsetof(struct sandbox, keep)},
	{32, offsetof(struct sandbox, auto_snapshot)},
	{1 << 10, offsetof(struct sandbox, pinned)},
	{1 << 11, offsetof(struct sandbox, lease)},
	{1 << 12, offsetof(struct sandbox, layer_made)},
	{1 << 13, offsetof(struct sandbox, keep_tmp)},
};

uint64_t sandbox_flags(const struct sandbox *b)
{
	uint64_t v = 0;
	for (size_t i = 0; i < countof(flags); i++)
		v |= *(const bool *)((const char *)b + flags[i].at) ? flags[i].bit : 0;
	return v;
}

static void set_flags(struct sandbox *b, uint64_t v)
{
	for (size_t i = 0; i < countof(flags); i++)
		*(bool *)((char *)b + flags[i].at) = v & flags[i].bit;
}

void mounts_write(struct buf *w, const struct sandbox *b)
{
	wire_u32(w, b->n_mounts);
	for (uint32_t i = 0; i < b->n_mounts; i++) {
		wire_str(w, b->mounts[i].src);
		wire_str(w, b->mounts[i].dst);
		wire_u8(w, b->mounts[i].writable | b->mounts[i].cache << 1 | b->mounts[i].volume << 2);
	}
}

void mounts_read(struct wire *w, struct sandbox *b)
{
	uint32_t n = wire_get_u32(w);
	if (w->bad || n > 256)
		return;
	b->mounts = xcalloc(n, sizeof *b->mounts);
	for (; b->n_mounts < n; b->n_mounts++) {
		struct cell_mount m = {.src = wire_get_str(w), .dst = wire_get_str(w)};
		uint8_t how = wire_get_u8(w);
		m.writable = how & 1;
		m.cache = how & 2;
		m.volume = how & 4;
		b->mounts[b->n_mounts] = m;
	}
}

static void put_mounts(struct cursor *c, const struct sandbox *b)
{
	auto_buf struct buf w = BUF_INIT(2 * LIMIT_REQUEST_BODY);
	mounts_write(&w, b);
	put_blob(c, &w);
}

static void get_mounts(struct cursor *c, struct sandbox *b)
{
	struct wire w = get_blob(c);
	mounts_read(&w, b);
}

static void put_limits(struct cursor *c, const struct limits *l)
{
	auto_buf struct buf w = BUF_INIT(256);
	limits_write(&w, l);
	put_blob(c, &w);
}

static void put_isolation(struct cursor *c, const struct sandbox *b)
{
	auto_buf struct buf w = BUF_INIT(65536);
	if (b->has_isolation)
		isolation_write(&w, &b->isolation);
	put_blob(c, &w);
}

int store_sandbox_add(struct store *s, const struct sandbox *b, struct err *e)
{
	struct cursor c = store_query(s, Q_BOX_ADD);
	put_text(&c, b->id);
	put_text(&c, b->layer);
	put_text(&c, b->machine_id);
	put_text(&c, b->name);
	put_text(&c, b->owner);
	put_u64(&c, b->state);
	put_text(&c, b->reason);
	put_u64(&c, b->profile);
	put_u64(&c, sandbox_flags(b));
	put_text(&c, b->image);
	put_text(&c, b->repo);
	put_text(&c, b->head);
	put_u64(&c, b->base_dev);
	put_u64(&c, b->base_ino);
	put_text(&c, b->ws_path);
	put_text(&c, b->path);
	put_strv(&c, b->env);
	put_strv(&c, b->labels);
	put_mounts(&c, b);
	put_limits(&c, &b->limits);
	put_u64(&c, b->umask_bits);
	put_u64(&c, b->timeout_ms);
	put_u64(&c, b->ttl_ms);
	put_u64(&c, b->idle_ms);
	put_u64(&c, b->created);
	put_u64(&c, b->used);
	put_u64(&c, b->expires);
	put_u64(&c, (uint64_t)b->pending);
	put_isolation(&c, b);
	put_u64(&c, b->anchor_seq);
	put_text(&c, b->anchor);
	put_strv(&c, b->lowers);
	put_u64(&c, b->n_base);
	put_text(&c, b->context);
	put_text(&c, b->origin);
	put_text(&c, b->url);
	put_text(&c, b->ref);
	put_strv(&c, b->objects);
	put_u64(&c, b->base_pin);
	put_text(&c, b->pin);
	put_u64(&c, b->on_expiry);
	put_u64(&c, b->bytes);
	put_text(&c, b->tree);
	return store_run(s, c, e);
}

int store_sandbox_set(struct store *s, const struct sandbox *b, struct err *e)
{
	struct cursor c = store_query(s, Q_BOX_SET);
	put_u64(&c, b->state);
	put_text(&c, b->reason);
	put_text(&c, b->head);
	put_u64(&c, b->used);
	put_u64(&c, b->expires);
	put_u64(&c, (uint64_t)b->pending);
	put_isolation(&c, b);
	put_u64(&c, b->anchor_seq);
	put_text(&c, b->anchor);
	put_u64(&c, b->base_pin);
	put_text(&c, b->pin);
	put_u64(&c, b->bytes);
	put_u64(&c, sandbox_flags(b));
	put_text(&c, b->id);
	return store_run(s, c, e);
}

int store_sandbox_drop(struct store *s, const char *id, struct err *e)
{
	return store_run_id(s, Q_BOX_DROP, id, e) || store_run_id(s, Q_BOX_DROP_CELL, id, e) ||
			       store_run_id(s, Q_BOX_DROP_EXECS, id, e) || store_run_id(s, Q_NET_DROP, id, e) ||
			       store_run_id(s, Q_PROJECT_DROP, id, e)
		       ? -1
		       : 0;
}

static void get_sandbox(struct cursor *c, struct sandbox *b)
{
	get_fixed(c, b->id, sizeof b->id);
	get_fixed(c, b->layer, sizeof b->layer);
	get_fixed(c, b->machine_id, sizeof b->machine_id);
	b->name = get_text(c);
	b->owner = get_text(c);
	b->state = (enum state)get_u64(c);
	b->reason = get_text(c);
	b->profile = (enum profile)get_u64(c);
	set_flags(b, get_u64(c));
	b->image = get_text(c);
	b->repo = get_text(c);
	b->head = get_text(c);
	b->base_dev = get_u64(c);
	b->base_ino = get_u64(c);
	b->ws_path = get_text(c);
	b->path = get_text(c);
	b->env = get_strv(c);
	b->labels = get_strv(c);
	get_mounts(c, b);
	struct wire limits = get_blob(c);
	limits_read(&limits, &b->limits);
	if (limits.bad)
		b->limits = LIMITS_DEFAULT; // 0 would be no limit at all
	b->umask_bits = (uint32_t)get_u64(c);
	b->timeout_ms = get_u64(c);
	b->ttl_ms = get_u64(c);
	b->idle_ms = get_u64(c);
	b->created = get_u64(c);
	b->used = get_u64(c);
	b->expires = get_u64(c);
	b->pending = (int64_t)get_u64(c);
	struct wire iso = get_blob(c);
	b->has_isolation = iso.n && !isolation_read(&iso, &b->isolation);
	b->anchor_seq = get_u64(c);
	get_fixed(c, b->anchor, sizeof b->anchor);
	b->lowers = get_strv(c);
	b->n_base = (uint32_t)get_u64(c);
	b->context = get_text(c);
	b->origin = get_text(c);
	b->url = get_text(c);
	b->ref = get_text(c);
	b->objects = get_strv(c);
	b->base_pin = (enum base_pin)get_u64(c);
	b->pin = get_text(c);
	b->on_expiry = (enum on_expiry)get_u64(c);
	b->bytes = get_u64(c);
	b->tree = get_text(c);
}

int store_sandboxes(struct store *s, void (*each)(void *ctx, struct sandbox *taken), void *ctx, struct err *e)
{
	int rc;
	sqlite3_stmt *st = s->q[Q_BOXES];
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct cursor c = {st, 0};
		struct sandbox b = {0};
		get_sandbox(&c, &b);
		each(ctx, &b);
	}
	return store_rows_end(s, st, rc, e);
}

int store_cell_set(struct store *s, const struct cell_row *row, struct err *e)
{
	struct cursor c = store_query(s, Q_CELL_SET);
	put_text(&c, row->sandbox);
	put_text(&c, row->key);
	put_u64(&c, row->pid);
	put_u64(&c, row->start);
	put_strv(&c, row->lowers);
	return store_run(s, c, e);
}

int store_cell_drop(struct store *s, const char *sandbox, struct err *e)
{
	return store_run_id(s, Q_CELL_DROP, sandbox, e);
}

int store_cells(struct store *s, void (*each)(void *ctx, struct cell_row *taken), void *ctx, struct err *e)
{
	int rc;
	sqlite3_stmt *st = s->q[Q_CELLS];
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct cursor c = {st, 0};
		struct cell_row row = {0};
		get_fixed(&c, row.sandbox, sizeof row.sandbox);
		get_fixed(&c, row.key, sizeof row.key);
		row.pid = (uint32_t)get_u64(&c);
		row.start = get_u64(&c);
		row.lowers = get_strv(&c);
		each(ctx, &row);
	}
	return store_rows_end(s, st, rc, e);
}

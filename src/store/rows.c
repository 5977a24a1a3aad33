// SPDX-License-Identifier: Apache-2.0
// Rows to structs and back. Columns are bound and read in the order of the schema; lists are wire records.
#include "store/store_int.h"

#include "base/mem.h"
#include <assert.h>
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

void exec_row_done(struct exec_row *x)
{
	strv_free(x->argv);
	free(x->cwd);
	free(x->user);
	exec_result_done(&x->result);
	*x = (struct exec_row){0};
}

void image_row_done(struct image_row *i)
{
	free(i->name);
	free(i->source);
	*i = (struct image_row){0};
}

enum { F_NESTED = 1, F_TRACE_OFF = 2, F_STRICT = 4, F_RUN = 8, F_KEEP = 16, F_AUTO_SNAPSHOT = 32,
       F_PINNED = 1 << 10, F_LEASE = 1 << 11, F_LAYER_MADE = 1 << 12,
       F_KEEP_TMP = 1 << 13 };

uint64_t sandbox_flags(const struct sandbox *b)
{
	return (b->nested ? F_NESTED : 0) | (b->trace_off ? F_TRACE_OFF : 0) | (b->strict ? F_STRICT : 0) |
	       (b->run ? F_RUN : 0) | (b->keep ? F_KEEP : 0) | (b->auto_snapshot ? F_AUTO_SNAPSHOT : 0) |
	       (b->pinned ? F_PINNED : 0) | (b->lease ? F_LEASE : 0) | (b->layer_made ? F_LAYER_MADE : 0) |
	       (b->keep_tmp ? F_KEEP_TMP : 0);
}

void mounts_write(struct buf *w, const struct sandbox *b)
{
	wire_u32(w, b->n_mounts);
	for (uint32_t i = 0; i < b->n_mounts; i++) {
		wire_str(w, b->mounts[i].src);
		wire_str(w, b->mounts[i].dst);
		wire_u8(w, b->mounts[i].writable | b->mounts[i].cache << 1);
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

int store_run_id(struct store *s, enum query q, const char *id, struct err *e)
{
	struct cursor c = store_query(s, q);
	put_text(&c, id);
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
	uint64_t flags = get_u64(c);
	b->nested = flags & F_NESTED;
	b->trace_off = flags & F_TRACE_OFF;
	b->strict = flags & F_STRICT;
	b->run = flags & F_RUN;
	b->keep = flags & F_KEEP;
	b->auto_snapshot = flags & F_AUTO_SNAPSHOT;
	b->pinned = flags & F_PINNED;
	b->lease = flags & F_LEASE;
	b->layer_made = flags & F_LAYER_MADE;
	b->keep_tmp = flags & F_KEEP_TMP;
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

int store_rows_end(struct store *s, sqlite3_stmt *st, int rc, struct err *e)
{
	if (rc != SQLITE_DONE)
		store_fail(s, e);
	sqlite3_reset(st);
	return rc == SQLITE_DONE ? 0 : -1;
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

int store_exec_add(struct store *s, const struct exec_row *x, struct err *e)
{
	struct cursor c = store_query(s, Q_EXEC_ADD);
	put_text(&c, x->id);
	put_text(&c, x->sandbox);
	put_strv(&c, x->argv);
	put_text(&c, x->cwd);
	put_text(&c, x->user);
	put_u64(&c, x->tty);
	put_u64(&c, x->running);
	put_u64(&c, x->pid);
	put_u64(&c, x->started);
	put_u64(&c, store_order(s));
	return store_run(s, c, e);
}

int store_exec_started(struct store *s, const char *id, uint32_t pid, struct err *e)
{
	struct cursor c = store_query(s, Q_EXEC_STARTED);
	put_u64(&c, pid);
	put_text(&c, id);
	return store_run(s, c, e);
}

int store_exec_ended(struct store *s, const char *id, const struct exec_result *r, struct err *e)
{
	struct cursor c = store_query(s, Q_EXEC_ENDED);
	put_u64(&c, r->status);
	put_u64(&c, r->signal);
	put_u64(&c, r->timed_out);
	put_text(&c, r->reason);
	put_u64(&c, r->out_bytes);
	put_u64(&c, r->err_bytes);
	put_u64(&c, r->started_unix_ms);
	put_u64(&c, r->ended_unix_ms);
	put_text(&c, id);
	return store_run(s, c, e);
}

int store_execs_lost(struct store *s, const char *sandbox, const char *reason, uint64_t at, struct err *e)
{
	struct cursor c = store_query(s, Q_EXECS_LOST);
	put_text(&c, reason);
	put_u64(&c, at);
	put_text(&c, sandbox);
	return store_run(s, c, e);
}

int store_exec_drop(struct store *s, const char *id, struct err *e)
{
	return store_run_id(s, Q_EXEC_DROP, id, e);
}

static void get_exec(sqlite3_stmt *st, struct exec_row *x)
{
	struct cursor c = {st, 0};
	get_fixed(&c, x->id, sizeof x->id);
	get_fixed(&c, x->sandbox, sizeof x->sandbox);
	x->argv = get_strv(&c);
	x->cwd = get_text(&c);
	x->user = get_text(&c);
	x->tty = get_u64(&c);
	x->running = get_u64(&c);
	x->pid = (uint32_t)get_u64(&c);
	x->started = get_u64(&c);
	x->result.status = (uint32_t)get_u64(&c);
	x->result.signal = (uint32_t)get_u64(&c);
	x->result.timed_out = get_u64(&c);
	x->result.reason = get_text(&c);
	x->result.out_bytes = get_u64(&c);
	x->result.err_bytes = get_u64(&c);
	x->result.ended_unix_ms = get_u64(&c);
	x->result.started_unix_ms = x->started;
}

int store_exec_get(struct store *s, const char *id, struct exec_row *out, struct err *e)
{
	struct cursor c = store_query(s, Q_EXEC_GET);
	struct exec_row x = {0};
	put_text(&c, id);
	int rc = sqlite3_step(c.st), n = 0;
	if (rc == SQLITE_ROW) {
		get_exec(c.st, &x);
		rc = sqlite3_step(c.st);
		n = rc == SQLITE_ROW ? 2 : 1;
	}
	sqlite3_reset(c.st);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		store_fail(s, e);
	else if (!n)
		err_set(e, ERR_NOT_FOUND, "no exec %.40s (skep ps --execs lists them)", id);
	else if (n == 2)
		err_set(e, ERR_CONFLICT, "%.40s fits several execs: give more of the id", id);
	if (n != 1) {
		exec_row_done(&x);
		return -1;
	}
	*out = x;
	return 0;
}

int store_execs(struct store *s, const char *sandbox, void (*each)(void *ctx, const struct exec_row *x), void *ctx,
		struct err *e)
{
	struct cursor c = store_query(s, sandbox ? Q_EXECS : Q_EXECS_ALL);
	int rc;
	if (sandbox)
		put_text(&c, sandbox);
	while ((rc = sqlite3_step(c.st)) == SQLITE_ROW) {
		struct exec_row x = {0};
		get_exec(c.st, &x);
		each(ctx, &x);
		exec_row_done(&x);
	}
	return store_rows_end(s, c.st, rc, e);
}

int store_exec_trim(struct store *s, const char *sandbox, struct err *e)
{
	struct cursor c = store_query(s, Q_EXEC_TRIM);
	put_text(&c, sandbox);
	put_u64(&c, STORE_EXECS_KEPT);
	return store_run(s, c, e);
}

int store_image_add(struct store *s, const struct image_row *i, struct err *e)
{
	struct cursor c = store_query(s, Q_IMAGE_ADD);
	put_text(&c, i->id);
	put_text(&c, i->name);
	put_text(&c, i->source);
	put_u64(&c, i->bytes);
	put_u64(&c, i->files);
	put_u64(&c, i->created);
	return store_run(s, c, e);
}

int store_image_drop(struct store *s, const char *id, struct err *e)
{
	return store_run_id(s, Q_IMAGE_DROP, id, e);
}

int store_images(struct store *s, void (*each)(void *ctx, const struct image_row *i), void *ctx, struct err *e)
{
	int rc;
	sqlite3_stmt *st = s->q[Q_IMAGES];
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct cursor c = {st, 0};
		struct image_row i = {0};
		get_fixed(&c, i.id, sizeof i.id);
		i.name = get_text(&c);
		i.source = get_text(&c);
		i.bytes = get_u64(&c);
		i.files = get_u64(&c);
		i.created = get_u64(&c);
		each(ctx, &i);
		image_row_done(&i);
	}
	return store_rows_end(s, st, rc, e);
}

int store_gone_add(struct store *s, const struct gone_row *g, struct err *e)
{
	struct cursor c = store_query(s, Q_GONE_ADD);
	put_text(&c, g->id);
	put_u64(&c, g->removed);
	put_u64(&c, g->anchor_seq);
	put_text(&c, g->anchor);
	return store_run(s, c, e);
}

int store_gone_drop(struct store *s, const char *id, struct err *e)
{
	return store_run_id(s, Q_GONE_DROP, id, e);
}

int store_gone_get(struct store *s, const char *id, struct gone_row *out, struct err *e)
{
	struct cursor c = store_query(s, Q_GONE_GET);
	struct gone_row g = {0};
	put_text(&c, id);
	int rc = sqlite3_step(c.st), n = 0;
	if (rc == SQLITE_ROW) {
		struct cursor r = {c.st, 0};
		get_fixed(&r, g.id, sizeof g.id);
		g.removed = get_u64(&r);
		g.anchor_seq = get_u64(&r);
		get_fixed(&r, g.anchor, sizeof g.anchor);
		rc = sqlite3_step(c.st);
		n = rc == SQLITE_ROW ? 2 : 1;
	}
	sqlite3_reset(c.st);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		return store_fail(s, e);
	if (n != 1)
		return err_set(e, n ? ERR_CONFLICT : ERR_NOT_FOUND, n ? "%.40s fits several sandboxes: give more of the id"
									: "no sandbox %.40s (skep ps lists them)", id);
	*out = g;
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
// The intent log's record: written once, before anything else happens, with its own hash at the end.
#include "workspace/review_txn.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "workspace/review_copy.h"
#include <errno.h>
#include <string.h>

#define MAGIC "SKEPTXN2"
#define MAGIC_OLD "SKEPTXN1" // without attributes
#define LOG_MAX (1u << 30)

static void put_side(struct buf *b, const struct side *s)
{
	wire_u8(b, (uint8_t)s->type);
	wire_u8(b, (uint8_t)(s->exec | s->hashed << 1 | s->objected << 2));
	wire_u32(b, s->perm);
	wire_u32(b, s->uid);
	wire_u32(b, s->gid);
	wire_u64(b, s->size);
	buf_add(b, s->sha, sizeof s->sha);
	buf_add(b, s->oid, sizeof s->oid);
}

static void put_entry(struct buf *b, const struct shadow_entry *en)
{
	wire_u32(b, en->mode);
	buf_add(b, en->oid, sizeof en->oid);
}

void txn_print(const struct txn *t, struct buf *b)
{
	uint8_t sha[32];
	struct sha256 h;
	buf_str(b, MAGIC);
	wire_str(b, t->id);
	wire_u8(b, (uint8_t)t->what);
	wire_u8(b, t->keeps_p);
	wire_u64(b, t->number);
	wire_u64(b, t->time_ms);
	wire_str(b, t->target);
	wire_u64(b, t->dev);
	wire_u64(b, t->ino);
	buf_add(b, t->p_before, SHADOW_OID);
	buf_add(b, t->p_after, SHADOW_OID);
	wire_u32(b, (uint32_t)t->n);
	for (size_t i = 0; i < t->n; i++) {
		wire_u8(b, (uint8_t)t->v[i].kind);
		wire_u8(b, t->v[i].must);
		wire_str(b, t->v[i].path);
		wire_str(b, t->v[i].temp);
		put_side(b, &t->v[i].old);
		put_side(b, &t->v[i].now);
		wire_u8(b, t->v[i].as_was);
		wire_bytes(b, t->v[i].attrs, t->v[i].attrs_n);
	}
	wire_u32(b, (uint32_t)t->n_base);
	for (size_t i = 0; i < t->n_base; i++) {
		wire_str(b, t->base[i].path);
		put_entry(b, &t->base[i].before);
		put_entry(b, &t->base[i].after);
	}
	sha256_init(&h);
	sha256_add(&h, b->p, b->n);
	sha256_end(&h, sha);
	buf_add(b, sha, sizeof sha);
}

static void get_raw(struct wire *w, void *out, size_t n)
{
	if (w->bad || w->n < n) {
		w->bad = true;
		return;
	}
	memcpy(out, w->p, n);
	w->p += n;
	w->n -= n;
}

static void get_side(struct wire *w, struct side *s)
{
	uint8_t type = wire_get_u8(w), flags = wire_get_u8(w);
	w->bad |= type > SIDE_OTHER;
	s->type = w->bad ? SIDE_NONE : (enum side_type)type;
	s->exec = flags & 1, s->hashed = flags & 2, s->objected = flags & 4;
	s->perm = wire_get_u32(w) & 07777;
	s->uid = wire_get_u32(w);
	s->gid = wire_get_u32(w);
	s->size = wire_get_u64(w);
	get_raw(w, s->sha, sizeof s->sha);
	get_raw(w, s->oid, sizeof s->oid);
}

static void get_entry(struct wire *w, struct shadow_entry *en)
{
	en->mode = wire_get_u32(w);
	get_raw(w, en->oid, sizeof en->oid);
}

static void get_op(struct wire *w, bool attrs, struct txn *t)
{
	uint8_t kind = wire_get_u8(w), must = wire_get_u8(w);
	auto_free char *path = wire_get_str(w), *temp = wire_get_str(w);
	bool named = path && delta_path_ok(path) && (!temp || delta_path_ok(temp));
	if (w->bad || !named || kind > OP_PUT || !temp != (kind == OP_RMDIR || kind == OP_MKDIR)) {
		w->bad = true;
		return;
	}
	struct op *op = txn_add(t, (enum op_kind)kind, path);
	op->must = must;
	op->temp = take(&temp);
	get_side(w, &op->old);
	get_side(w, &op->now);
	if (w->bad || !attrs)
		return;
	op->as_was = wire_get_u8(w);
	const uint8_t *p = wire_get_bytes(w, &op->attrs_n);
	op->attrs = p && op->attrs_n ? xcalloc(1, op->attrs_n) : NULL;
	if (op->attrs)
		memcpy(op->attrs, p, op->attrs_n);
	else
		op->attrs_n = 0;
}

static void get_base(struct wire *w, struct txn *t)
{
	auto_free char *path = wire_get_str(w);
	if (!path || !delta_path_ok(path)) {
		w->bad = true;
		return;
	}
	struct txn_base *b = txn_add_base(t, path);
	get_entry(w, &b->before);
	get_entry(w, &b->after);
}

static void get_head(struct wire *w, bool *out_attrs, struct txn *t)
{
	char magic[8] = "";
	get_raw(w, magic, sizeof magic);
	*out_attrs = !memcmp(magic, MAGIC, sizeof magic);
	w->bad |= !*out_attrs && memcmp(magic, MAGIC_OLD, sizeof magic) != 0;
	auto_free char *id = wire_get_str(w);
	if (!id || !id_is(id)) {
		w->bad = true;
		return;
	}
	memcpy(t->id, id, strlen(id) + 1);
	uint8_t what = wire_get_u8(w);
	w->bad |= what > TXN_UNDO;
	t->what = w->bad ? TXN_APPLY : (enum txn_what)what;
	t->keeps_p = wire_get_u8(w);
	t->number = wire_get_u64(w);
	t->time_ms = wire_get_u64(w);
	t->target = wire_get_str(w);
	t->dev = wire_get_u64(w);
	t->ino = wire_get_u64(w);
	get_raw(w, t->p_before, SHADOW_OID);
	get_raw(w, t->p_after, SHADOW_OID);
}

int txn_parse(const void *p, size_t n, struct txn *t, struct err *e)
{
	uint8_t sha[32];
	struct sha256 h;
	*t = (struct txn){0};
	if (n < 32)
		return err_set(e, ERR_SYSTEM, "the intent log is damaged");
	sha256_init(&h);
	sha256_add(&h, p, n - 32);
	sha256_end(&h, sha);
	struct wire w = {.p = p, .n = n - 32, .bad = memcmp(sha, (const uint8_t *)p + n - 32, 32) != 0};
	bool attrs = false;
	get_head(&w, &attrs, t);
	for (uint32_t i = 0, count = wire_get_u32(&w); !w.bad && i < count; i++)
		get_op(&w, attrs, t);
	for (uint32_t i = 0, count = wire_get_u32(&w); !w.bad && i < count; i++)
		get_base(&w, t);
	if (!w.bad && !w.n && t->target)
		return 0;
	txn_done(t);
	return err_set(e, ERR_SYSTEM, "the intent log is damaged");
}

int txn_load(int log, const char *name, struct txn *out, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(LOG_MAX);
	*out = (struct txn){0};
	if (fs_read(log, name, &b, e))
		return e->sys == ENOENT ? err_set(e, ERR_NOT_FOUND, "no %s", name) : -1;
	return txn_parse(buf_cstr(&b), b.n, out, e);
}

// SPDX-License-Identifier: Apache-2.0
// Entries are notes of the kind "vault" (store/note.c), read once at the start. The value is sealed under the entry's id and
// owner, and opened only on its way to a gate. An entry that is gone stands for nothing: its header is sent with an empty part.
#include "engine/vault.h"
#include "engine/net_int.h"
#include "engine/vault_int.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/seal.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define KIND "vault"
#define ENTRIES_MAX 10000
#define MARK "${vault:"

struct vault {
	struct vault_entry *list; // oldest first
	size_t n;
};

static void vault_entry_done(struct vault_entry *v)
{
	free(v->owner);
	free(v->name);
	free(v->about);
	free(v->sealed);
	*v = (struct vault_entry){0};
}

void vault_free(struct engine *g)
{
	for (size_t i = 0; g->vault && i < g->vault->n; i++)
		vault_entry_done(&g->vault->list[i]);
	if (g->vault)
		free(g->vault->list);
	free(g->vault);
	g->vault = NULL;
}

static void vault_keep(struct engine *g, struct vault_entry *taken)
{
	struct vault *all = g->vault;
	all->list = xrealloc(all->list, (all->n + 1) * sizeof *all->list);
	all->list[all->n++] = *taken;
	*taken = (struct vault_entry){0};
}

static void vault_read(void *ctx, const char *key, const char *text)
{
	struct err e;
	struct engine *g = ctx;
	auto_json json_t *o = json_read(text, strlen(text), &e);
	struct vault_entry v = {.version = json_u64(o, "version"), .created = json_u64(o, "created"), .updated = json_u64(o, "updated")};
	if (!o || !id_is(key) || fmt_to(v.id, sizeof v.id, "%s", key))
		return;
	v.owner = xstrdup(json_str(o, "owner"));
	v.name = xstrdup(json_str(o, "name"));
	v.about = xstrdup(json_str(o, "about"));
	v.sealed = xstrdup(json_str(o, "sealed"));
	vault_keep(g, &v);
}

static int vault_by_age(const void *a, const void *b)
{
	const struct vault_entry *x = a, *y = b;
	if (x->created != y->created)
		return x->created < y->created ? -1 : 1;
	return strcmp(x->id, y->id);
}

int vault_load(struct engine *g, struct err *e)
{
	g->vault = xcalloc(1, sizeof *g->vault);
	if (store_notes(g->store, KIND, vault_read, g, e))
		return -1;
	if (g->vault->n)
		qsort(g->vault->list, g->vault->n, sizeof *g->vault->list, vault_by_age);
	return 0;
}

static int vault_write(struct engine *g, const struct vault_entry *v, struct err *e)
{
	auto_buf struct buf text = BUF_INIT(1 << 20);
	struct jsonw w = {.b = &text};
	jw_open(&w, '{');
	jw_kstr(&w, "owner", v->owner);
	jw_kstr(&w, "name", v->name);
	jw_kstr(&w, "about", v->about);
	jw_kstr(&w, "sealed", v->sealed);
	jw_ku64(&w, "version", v->version);
	jw_ku64(&w, "created", v->created);
	jw_ku64(&w, "updated", v->updated);
	jw_close(&w, '}');
	if (text.overflow)
		return err_set(e, ERR_LIMIT, "the secret's metadata are too long");
	return store_note_set(g->store, KIND, v->id, buf_cstr(&text), e) || store_flush(g->store, e) ? -1 : 0;
}

// A power cut must not bring an old value or a removed one back.
static void vault_settle(struct engine *g)
{
	engine_wrote(g);
	store_checkpoint(g->store);
}

static bool vault_is_seen(const struct vault_entry *v, const char *viewer)
{
	return !viewer || !strcmp(v->owner, viewer);
}

static struct vault_entry *vault_find(struct engine *g, const char *viewer, const char *word)
{
	struct vault_entry *found = NULL;
	for (size_t i = 0; i < g->vault->n; i++) {
		struct vault_entry *v = &g->vault->list[i];
		if (!vault_is_seen(v, viewer))
			continue;
		if (!strcmp(v->id, word))
			return v;
		bool named = !strcmp(v->name, word);
		if (named && (!found || !*v->owner)) // who sees all means what has no owner first
			found = v;
	}
	return found;
}

const struct vault_entry *engine_vault_find(struct engine *g, const char *viewer, const char *word)
{
	return vault_find(g, viewer, word);
}

void engine_vault_each(struct engine *g, const char *viewer, void (*each)(void *ctx, const struct vault_entry *v), void *ctx)
{
	for (size_t i = 0; i < g->vault->n; i++)
		if (vault_is_seen(&g->vault->list[i], viewer))
			each(ctx, &g->vault->list[i]);
}

// --- values ---

static char *vault_sealed_as(const struct vault_entry *v)
{
	return xasprintf("vault %s %s", v->id, v->owner);
}

// It will stand in a header.
static int vault_check_value(const char *value, struct err *e)
{
	size_t n = strlen(value);
	if (!n || n > VAULT_VALUE_MAX)
		return err_set(e, n ? ERR_LIMIT : ERR_INVALID, "the value of a secret has 1 to %d bytes", VAULT_VALUE_MAX);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)value[i] < 0x20 || value[i] == 0x7f)
			return err_set(e, ERR_INVALID, "the value holds a control character (a line end?) at byte %zu, and could stand in no header", i + 1);
	return 0;
}

static int vault_seal(struct engine *g, struct vault_entry *v, const char *value, struct err *e)
{
	const struct seal *key = engine_seal(g, e);
	auto_buf struct buf sealed = BUF_INIT(VAULT_VALUE_MAX + 1024);
	if (!key || vault_check_value(value, e))
		return -1;
	auto_free char *as = vault_sealed_as(v);
	seal_lock(key, as, value, strlen(value), &sealed);
	free(v->sealed);
	v->sealed = xcalloc(1, 2 * sealed.n + 1);
	str_hex(v->sealed, sealed.p, sealed.n);
	return 0;
}

static int hex_digit_value(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

static int vault_unseal(struct engine *g, const struct vault_entry *v, struct buf *out, struct err *e)
{
	auto_buf struct buf sealed = BUF_INIT(VAULT_VALUE_MAX + 1024);
	for (const char *p = v->sealed; p[0] && p[1]; p += 2) {
		int high = hex_digit_value(p[0]), low = hex_digit_value(p[1]);
		if (high < 0 || low < 0)
			return err_set(e, ERR_INVALID, "secret %.60s: malformed in the database", v->name);
		buf_byte(&sealed, (char)(high << 4 | low));
	}
	const struct seal *key = engine_seal(g, e);
	auto_free char *as = vault_sealed_as(v);
	return !key || seal_unlock(key, as, sealed.p, sealed.n, out, e) ? err_wrap(e, "secret %.60s", v->name) : 0;
}

int vault_expand(struct engine *g, struct buf *inout, struct err *e)
{
	if (!inout->n || !memmem(inout->p, inout->n, MARK, strlen(MARK)))
		return 0;
	auto_secret struct buf out = BUF_INIT(inout->max);
	struct str rest = {inout->p, inout->n};
	if (!buf_room(&out, inout->max - 1)) // growing would leave copies
		return err_set(e, ERR_LIMIT, "no memory for a header");
	while (rest.n) {
		const char *mark = memmem(rest.p, rest.n, MARK, strlen(MARK)), *end = mark ? memchr(mark, '}', rest.n - (size_t)(mark - rest.p)) : NULL;
		if (!end) {
			buf_add(&out, rest.p, rest.n);
			break;
		}
		buf_add(&out, rest.p, (size_t)(mark - rest.p));
		auto_free char *id = xstrndup(mark + strlen(MARK), (size_t)(end - mark) - strlen(MARK));
		const struct vault_entry *v = vault_find(g, NULL, id);
		if (v && vault_unseal(g, v, &out, e))
			return -1;
		rest.n -= (size_t)(end + 1 - rest.p);
		rest.p = end + 1;
	}
	if (out.overflow)
		return err_set(e, ERR_LIMIT, "a header that holds secrets is too long");
	buf_clear(inout);
	buf_add(inout, out.p, out.n);
	return 0;
}

// --- changes ---

const struct vault_entry *engine_vault_new(struct engine *g, const struct vault_wish *w, struct err *e)
{
	for (size_t i = 0; i < g->vault->n; i++)
		if (!strcmp(g->vault->list[i].owner, w->owner) && !strcmp(g->vault->list[i].name, w->name)) {
			err_set(e, ERR_CONFLICT, "a secret named %.80s exists", w->name);
			return NULL;
		}
	if (g->vault->n >= ENTRIES_MAX) {
		err_set(e, ERR_LIMIT, "there are %d secrets: remove some", ENTRIES_MAX);
		return NULL;
	}
	struct vault_entry v = {.version = 1, .created = clock_unix_ms()};
	id_make('k', v.id);
	v.updated = v.created;
	v.owner = xstrdup(w->owner);
	v.name = xstrdup(w->name);
	v.about = xstrdup(w->about ? w->about : "{}");
	if (vault_seal(g, &v, w->value, e) || vault_write(g, &v, e)) {
		vault_entry_done(&v);
		return NULL;
	}
	vault_settle(g);
	vault_keep(g, &v);
	return &g->vault->list[g->vault->n - 1];
}

static bool vault_box_has_headers(const struct box *b, const void *arg)
{
	(void)arg;
	return b->row.has_net && b->row.net.headers && b->row.net.headers[0];
}

void engine_vault_change(struct engine *g, const char *id, const struct vault_wish *w, struct done d)
{
	struct err e;
	struct vault_entry *old = vault_find(g, NULL, id);
	if (!old) {
		err_set(&e, ERR_NOT_FOUND, "no secret %.80s", id);
		task_refuse(d, &e);
		return;
	}
	struct vault_entry v = *old;
	v.owner = xstrdup(old->owner);
	v.name = xstrdup(old->name);
	v.about = xstrdup(w->about ? w->about : old->about);
	v.sealed = NULL;
	v.version++;
	v.updated = clock_unix_ms();
	if (vault_seal(g, &v, w->value, &e) || vault_write(g, &v, &e)) {
		vault_entry_done(&v);
		task_refuse(d, &e);
		return;
	}
	vault_settle(g);
	vault_entry_done(old);
	*old = v;
	net_push(g, vault_box_has_headers, NULL, d);
}

void engine_vault_remove(struct engine *g, const char *id, struct done d)
{
	struct err e;
	struct vault *all = g->vault;
	struct vault_entry *v = vault_find(g, NULL, id);
	if (!v)
		err_set(&e, ERR_NOT_FOUND, "no secret %.80s", id);
	if (!v || store_note_drop(g->store, KIND, v->id, &e) || store_flush(g->store, &e)) {
		task_refuse(d, &e);
		return;
	}
	vault_settle(g);
	vault_entry_done(v);
	memmove(v, v + 1, (size_t)(all->list + all->n - (v + 1)) * sizeof *v);
	all->n--;
	net_push(g, vault_box_has_headers, NULL, d);
}

// SPDX-License-Identifier: Apache-2.0
// E2B's secrets: sealed values that rules of a sandbox's network put into headers, by ${e2b.secrets.NAME}. A value leaves skep only
// towards the host that such a rule is for, and is never given back. What is kept of a rule names the secret by its id.
#include "api/e2b_int.h"
#include "api/auth.h"
#include "api/e2b_routes.h"
#include "api/volume_files.h"
#include "engine/vault.h"

#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 128
#define PAGE_LIMIT 100
#define MARK "${e2b."
#define MARK_SECRET "${e2b.secrets."

static void e2b_secret_put(struct jsonw *w, const struct vault_entry *v)
{
	jw_open(w, '{');
	jw_kstr(w, "secretID", v->id);
	jw_kstr(w, "name", v->name);
	jw_ku64(w, "currentVersion", v->version);
	jw_key(w, "metadata");
	jw_raw(w, v->about);
	jw_ktime(w, "createdAt", v->created);
	jw_ktime(w, "updatedAt", v->updated);
	jw_close(w, '}');
}

static void e2b_secret_answer(struct request *r, const struct vault_entry *v, int status)
{
	struct jsonw w = answer_json(r);
	e2b_secret_put(&w, v);
	request_answer(r, status);
}

// NULL: answered with 404.
static const struct vault_entry *e2b_secret_named(struct request *r)
{
	const struct vault_entry *v = engine_vault_find(r->engine, volume_viewer(r), r->parts[0]);
	if (!v)
		e2b_error(r, 404, "secret '%.80s' not found", r->parts[0]);
	return v;
}

static int e2b_secret_check_name(const char *name, struct err *e)
{
	size_t n = strlen(name);
	bool fits = n && n <= NAME_MAX_BYTES && !strpbrk(name, "{}") && str_is_utf8(name, n);
	for (size_t i = 0; fits && i < n; i++)
		fits = (unsigned char)name[i] >= 0x20 && name[i] != 0x7f;
	return fits ? 0 : err_set(e, ERR_INVALID, "a secret's name has 1 to %d bytes, and neither {, } nor control characters", NAME_MAX_BYTES);
}

// Metadata as text; NULL where none are given.
static int e2b_secret_metadata(const json_t *o, struct buf *out, struct err *e)
{
	const char *key;
	json_t *v;
	const json_t *m = json_object_get(o, "metadata");
	if (!m || json_is_null(m))
		return 0;
	if (!json_is_object(m))
		return err_set(e, ERR_INVALID, "metadata must map names to strings");
	json_object_foreach(m, key, v)
	{
		if (!json_is_string(v))
			return err_set(e, ERR_INVALID, "metadata must map names to strings");
	}
	json_print(out, m, 0);
	return out->overflow ? err_set(e, ERR_LIMIT, "metadata are over %zu bytes", out->max) : 0;
}

// The value in the tree that was parsed is wiped once it is used.
static const char *e2b_secret_value(const json_t *o)
{
	const json_t *v = json_object_get(o, "value");
	return json_is_string(v) ? json_string_value(v) : "";
}

static void e2b_secret_wipe(const json_t *o)
{
	char *value = (char *)e2b_secret_value(o);
	if (*value)
		explicit_bzero(value, strlen(value));
}

void e2b_post_secret(struct request *r)
{
	struct err e;
	auto_buf struct buf about = BUF_INIT(64u << 10);
	const char *owner = volume_viewer(r), *name = json_str(r->json, "name");
	const struct vault_entry *v = NULL;
	if (!e2b_secret_check_name(name, &e) && !e2b_secret_metadata(r->json, &about, &e))
		v = engine_vault_new(r->engine, &(struct vault_wish){.owner = owner ? owner : "", .name = name, .about = about.n ? buf_cstr(&about) : NULL,
								       .value = e2b_secret_value(r->json)}, &e);
	e2b_secret_wipe(r->json);
	if (v)
		e2b_secret_answer(r, v, 201);
	else
		request_fail(r, &e);
}

static void e2b_secret_changed(void *ctx, const struct err *e, const struct outcome *o)
{
	struct request *r = ctx;
	(void)o;
	if (e) {
		request_fail(r, e);
		return;
	}
	const struct vault_entry *v = e2b_secret_named(r);
	if (v)
		e2b_secret_answer(r, v, 200);
}

void e2b_update_secret(struct request *r)
{
	struct err e;
	auto_buf struct buf about = BUF_INIT(64u << 10);
	const struct vault_entry *v = e2b_secret_named(r);
	if (!v)
		return;
	if (e2b_secret_metadata(r->json, &about, &e)) {
		request_fail(r, &e);
		return;
	}
	struct vault_wish w = {.about = about.n ? buf_cstr(&about) : NULL, .value = xstrdup(e2b_secret_value(r->json))};
	char *value = (char *)w.value;
	e2b_secret_wipe(r->json);
	engine_vault_change(r->engine, v->id, &w, (struct done){e2b_secret_changed, r});
	explicit_bzero(value, strlen(value));
	free(value);
}

void e2b_get_secret(struct request *r)
{
	const struct vault_entry *v = e2b_secret_named(r);
	if (v)
		e2b_secret_answer(r, v, 200);
}

void e2b_delete_secret(struct request *r)
{
	const struct vault_entry *v = e2b_secret_named(r);
	if (v)
		engine_vault_remove(r->engine, v->id, (struct done){answer_empty, r});
}

struct e2b_secret_page {
	struct jsonw w;
	const char *after; // id of the last one given; NULL = from the first on
	uint64_t limit, n;
	char last[ID_SIZE];
	bool more;
};

static void e2b_secret_list_one(void *ctx, const struct vault_entry *v)
{
	struct e2b_secret_page *p = ctx;
	if (p->after) {
		if (!strcmp(p->after, v->id))
			p->after = NULL;
		return;
	}
	p->more = p->n == p->limit;
	if (p->more)
		return;
	e2b_secret_put(&p->w, v);
	memcpy(p->last, v->id, sizeof p->last);
	p->n++;
}

void e2b_get_secrets(struct request *r)
{
	const char *limit = request_query(r, "limit");
	struct e2b_secret_page p = {.limit = PAGE_LIMIT, .after = request_query(r, "nextToken")};
	if (limit && str_to_u64(str_of(limit), 1, PAGE_LIMIT, &p.limit)) {
		e2b_error(r, 400, "limit is 1 to %d", PAGE_LIMIT);
		return;
	}
	p.w = answer_json(r);
	jw_open(&p.w, '[');
	engine_vault_each(r->engine, volume_viewer(r), e2b_secret_list_one, &p);
	jw_close(&p.w, ']');
	if (p.more)
		request_set_header(r, "X-Next-Token", p.last);
	request_answer(r, 200);
}

// --- in rules ---

char *e2b_secrets_in(struct request *r, const char *text, struct err *e)
{
	auto_buf struct buf out = BUF_INIT(LIMIT_REQUEST_BODY);
	if (!strstr(text, MARK))
		return xstrdup(text);
	if (!r->who->local && r->who->scope < SCOPE_REVIEW) {
		err_set(e, ERR_DENIED, "network.rules: secrets are put into headers for a token with scope review");
		return NULL;
	}
	for (const char *mark; (mark = strstr(text, MARK)); ) {
		const char *end = strchr(mark, '}');
		if (!end || !str_has_prefix(mark, MARK_SECRET)) {
			err_set(e, ERR_INVALID, "network.rules: of ${e2b.…} only ${e2b.secrets.NAME} is supported: workload tokens (iam) are not");
			return NULL;
		}
		auto_free char *name = xstrndup(mark + strlen(MARK_SECRET), (size_t)(end - mark) - strlen(MARK_SECRET));
		const struct vault_entry *v = engine_vault_find(r->engine, volume_viewer(r), name);
		if (!v) {
			err_set(e, ERR_INVALID, "network.rules: no secret '%.80s'", name);
			return NULL;
		}
		buf_add(&out, text, (size_t)(mark - text));
		buf_fmt(&out, "${vault:%s}", v->id);
		text = end + 1;
	}
	buf_str(&out, text);
	return buf_take(&out);
}

// SPDX-License-Identifier: Apache-2.0
// Requests about templates: making them, names and tags, lists.
#include "api/e2b_templates.h"
#include "api/e2b_routes.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

struct e2b_template *e2b_template_of(struct request *r)
{
	struct err e;
	struct e2b_template *t = e2b_template_find(r->parts[0], NULL, &e);
	if (!t)
		request_fail(r, &e);
	return t;
}

static void put_list(struct jsonw *w, const char *key, const char *one)
{
	jw_key(w, key);
	jw_open(w, '[');
	if (one)
		jw_str(w, one, strlen(one));
	jw_close(w, ']');
}

// --- a new one ---

static void put_new(struct jsonw *w, const struct e2b_template *t, const struct e2b_build *b, char *const *tags)
{
	jw_open(w, '{');
	jw_kstr(w, "templateID", t->id);
	jw_kstr(w, "buildID", b->id);
	jw_kbool(w, "public", t->is_public);
	put_list(w, "names", t->name);
	put_list(w, "aliases", t->name);
	jw_kstrv(w, "tags", tags);
	jw_close(w, '}');
}

static int read_tags(const json_t *o, const char *tag, char ***out, struct err *e)
{
	if (json_get_strv(o, "tags", out, e))
		return -1;
	*out = *out ? *out : xcalloc(1, sizeof **out);
	if (tag)
		strv_add(out, tag);
	if (!**out)
		strv_add(out, "default");
	for (char **t = *out; *t; t++)
		if (!e2b_tag_is(*t))
			return err_set(e, ERR_INVALID, "invalid tag '%.60s': tags are of a-z 0-9 - _ .", *t);
	return 0;
}

static int make(struct request *r, const char *word, struct err *e)
{
	char *name = NULL, *tag = NULL, **tags = NULL;
	struct jsonw w = answer_json(r);
	struct limits l = {0};
	int rc = e2b_word_split(word, &name, &tag, e) || read_tags(r->json, tag, &tags, e) || e2b_limits_read(r->json, &l, e) ? -1 : 0;
	struct e2b_template *t = rc ? NULL : e2b_template_named(name);
	if (!rc && t && (t->builtin || *t->source))
		rc = err_set(e, ERR_CONFLICT, "the name '%s' is taken by a %s", name, t->builtin ? "template that is built in" : "snapshot");
	if (!rc && !t && e2b_templates_full())
		rc = err_set(e, ERR_LIMIT, "there are too many templates: delete some");
	if (!rc) {
		t = t ? t : e2b_template_new(name);
		t->cpus = l.cpus_milli / 1000;
		t->memory_mb = l.memory >> 20;
		struct e2b_build *b = e2b_build_new(t);
		b->wanted = take(&tags);
		e2b_template_save(r->engine, t);
		put_new(&w, t, b, b->wanted);
	}
	free(name);
	free(tag);
	strv_free(tags);
	return rc;
}

void e2b_post_template(struct request *r)
{
	struct err e;
	const char *word = *json_str(r->json, "name") ? json_str(r->json, "name") : json_str(r->json, "alias");
	if (!*word)
		e2b_error(r, 400, "name is required");
	else if (make(r, word, &e))
		request_fail(r, &e);
	else
		request_answer(r, 202);
}

// --- names and tags ---

void e2b_get_alias(struct request *r)
{
	struct err e;
	struct e2b_build *b = NULL;
	bool tagged = strchr(r->parts[0], ':');
	struct e2b_template *t = e2b_template_find(r->parts[0], tagged ? &b : NULL, &e);
	struct jsonw w = answer_json(r);
	if (t && !e2b_template_sees(r, t))
		t = NULL, err_set(&e, ERR_NOT_FOUND, "template '%.80s' not found", r->parts[0]);
	if (!t || (tagged && !b)) {
		request_fail(r, &e);
		return;
	}
	jw_open(&w, '{');
	jw_kstr(&w, "templateID", t->id);
	jw_kbool(&w, "public", t->is_public);
	jw_close(&w, '}');
	request_answer(r, 200);
}

void e2b_post_tags(struct request *r)
{
	struct err e;
	struct e2b_build *b = NULL;
	char **tags = NULL;
	const char *target = json_str(r->json, "target");
	struct jsonw w = answer_json(r);
	struct e2b_template *t = e2b_template_find(target, &b, &e);
	if (!t || !b || read_tags(r->json, NULL, &tags, &e)) {
		strv_free(tags);
		request_fail(r, &e);
		return;
	}
	for (char **g = tags; *g; g++)
		e2b_tag_set(t, *g, b->id);
	e2b_template_save(r->engine, t);
	jw_open(&w, '{');
	jw_kstr(&w, "buildID", b->id);
	jw_kstrv(&w, "tags", tags);
	jw_close(&w, '}');
	strv_free(tags);
	request_answer(r, 201);
}

void e2b_delete_tags(struct request *r)
{
	struct err e;
	char **tags = NULL;
	struct e2b_template *t = e2b_template_find(json_str(r->json, "name"), NULL, &e);
	if (!t || json_get_strv(r->json, "tags", &tags, &e)) {
		request_fail(r, &e);
		return;
	}
	const char *missing = NULL;
	for (char **g = tags; g && *g; g++)
		missing = e2b_tag_of(t, *g) ? missing : *g;
	if (missing) {
		e2b_error(r, 404, "tag '%.60s' does not exist for template '%s'", missing, t->name ? t->name : t->id);
		strv_free(tags);
		return;
	}
	for (char **g = tags; g && *g; g++)
		e2b_tag_drop(t, *g);
	strv_free(tags);
	e2b_template_save(r->engine, t);
	request_answer(r, 204);
}

void e2b_get_tags(struct request *r)
{
	struct e2b_template *t = e2b_template_of(r);
	struct jsonw w = answer_json(r);
	if (!t)
		return;
	jw_open(&w, '[');
	for (struct e2b_tag *g = t->tags; g; g = g->next) {
		jw_open(&w, '{');
		jw_kstr(&w, "tag", g->tag);
		jw_kstr(&w, "buildID", g->build);
		jw_ktime(&w, "createdAt", g->created);
		jw_close(&w, '}');
	}
	jw_close(&w, ']');
	request_answer(r, 200);
}

// --- lists ---

static void put_template(struct jsonw *w, const struct e2b_template *t, bool builds)
{
	const struct e2b_build *b = t->builds;
	const struct limits l = LIMITS_DEFAULT;
	uint64_t count = 0;
	for (const struct e2b_build *x = t->builds; x; x = x->next)
		count++;
	jw_open(w, '{');
	jw_kstr(w, "templateID", t->id);
	jw_kstr(w, "buildID", b ? b->id : "");
	jw_ku64(w, "cpuCount", t->cpus ? t->cpus : 2);
	jw_ku64(w, "memoryMB", t->memory_mb ? t->memory_mb : l.memory >> 20);
	jw_ku64(w, "diskSizeMB", l.disk >> 20);
	jw_kbool(w, "public", t->is_public);
	put_list(w, "aliases", t->name);
	put_list(w, "names", t->name);
	jw_ktime(w, "createdAt", t->created);
	jw_ktime(w, "updatedAt", t->updated);
	jw_nstr(w, "createdBy", NULL);
	if (t->spawned)
		jw_ktime(w, "lastSpawnedAt", t->spawned);
	else
		jw_nstr(w, "lastSpawnedAt", NULL);
	jw_ku64(w, "spawnCount", t->spawn_count);
	jw_ku64(w, "buildCount", count);
	jw_kstr(w, "envdVersion", E2B_ENVD_VERSION);
	jw_kstr(w, "buildStatus", !b ? "waiting" : t->builtin ? "ready" : b->state);
	if (builds) {
		jw_key(w, "builds");
		jw_open(w, '[');
		for (const struct e2b_build *x = t->builds; x; x = x->next) {
			jw_open(w, '{');
			jw_kstr(w, "buildID", x->id);
			jw_kstr(w, "status", x->state);
			jw_ktime(w, "createdAt", x->created);
			jw_ktime(w, "updatedAt", x->created);
			jw_ku64(w, "cpuCount", t->cpus ? t->cpus : 2);
			jw_ku64(w, "memoryMB", t->memory_mb ? t->memory_mb : l.memory >> 20);
			jw_close(w, '}');
		}
		jw_close(w, ']');
	}
	jw_close(w, '}');
}

void e2b_get_templates(struct request *r)
{
	struct jsonw w = answer_json(r);
	jw_open(&w, '[');
	for (struct e2b_template *t = e2b_templates(); t; t = t->next)
		if (!*t->source && e2b_template_sees(r, t))
			put_template(&w, t, false);
	jw_close(&w, ']');
	request_answer(r, 200);
}

void e2b_get_template(struct request *r)
{
	struct e2b_template *t = e2b_template_of(r);
	struct jsonw w = answer_json(r);
	if (!t)
		return;
	put_template(&w, t, true);
	request_answer(r, 200);
}

void e2b_patch_template(struct request *r)
{
	struct err e;
	struct e2b_template *t = e2b_template_of(r);
	struct jsonw w = answer_json(r);
	if (!t)
		return;
	if (json_get_bool(r->json, "public", &t->is_public, &e)) {
		request_fail(r, &e);
		return;
	}
	e2b_template_save(r->engine, t);
	jw_open(&w, '{');
	put_list(&w, "names", t->name);
	jw_close(&w, '}');
	request_answer(r, 200);
}

// NAME:TAG, as snapshots are named: the others of that name stay. False: it means the whole.
static bool delete_one(struct request *r, struct e2b_template *t)
{
	struct err e;
	auto_free char *name = NULL, *tag = NULL;
	if (!*t->source || e2b_word_split(r->parts[0], &name, &tag, &e) || !tag)
		return false;
	if (!e2b_tag_of(t, tag)) {
		e2b_error(r, 404, "tag '%.60s' does not exist for snapshot '%s'", tag, t->name ? t->name : t->id);
		return true;
	}
	if (!t->tags->next)
		return false;
	e2b_tag_drop(t, tag);
	e2b_builds_trim(r->engine, t);
	e2b_template_save(r->engine, t);
	request_answer(r, 204);
	return true;
}

void e2b_delete_template(struct request *r)
{
	struct e2b_template *t = e2b_template_of(r);
	bool busy = false;
	for (struct e2b_build *b = t ? t->builds : NULL; b; b = b->next)
		busy |= b->builder != NULL;
	if (!t)
		return;
	if (t->builtin || busy) {
		e2b_error(r, 400, t->builtin ? "template '%s' is built in" : "template '%s' is being built", t->name ? t->name : t->id);
		return;
	}
	if (delete_one(r, t))
		return;
	e2b_template_drop(r->engine, t);
	request_answer(r, 204);
}

// SPDX-License-Identifier: Apache-2.0
// A box as the text of a note.
#include "api/e2b_int.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

struct e2b_box *e2b_box_new(const char *id)
{
	struct e2b_box *b = xcalloc(1, sizeof *b);
	memcpy(b->id, id, strnlen(id, ID_SIZE - 1));
	b->metadata = xcalloc(1, sizeof *b->metadata);
	b->env = xcalloc(1, sizeof *b->env);
	return b;
}

void e2b_box_free(struct e2b_box *b)
{
	if (!b)
		return;
	free(b->template_id);
	free(b->alias);
	free(b->user);
	free(b->workdir);
	free(b->network);
	free(b->mask_host);
	strv_free(b->env);
	strv_free(b->metadata);
	free(b);
}

void e2b_note_print(struct buf *out, const struct e2b_box *b)
{
	struct jsonw w = {.b = out};
	jw_open(&w, '{');
	jw_kstr(&w, "token", b->token);
	jw_kstr(&w, "traffic", b->traffic);
	jw_kstr(&w, "template", b->template_id);
	jw_kstr(&w, "alias", b->alias);
	jw_kstr(&w, "user", b->user);
	jw_kstr(&w, "workdir", b->workdir);
	jw_kstrv(&w, "env", b->env);
	jw_kstrv(&w, "metadata", b->metadata);
	jw_kstr(&w, "network", b->network);
	jw_kstr(&w, "mask_host", b->mask_host);
	if (b->has_internet)
		jw_kbool(&w, "internet", b->internet);
	jw_kbool(&w, "auto_pause", b->auto_pause);
	jw_kbool(&w, "auto_resume", b->auto_resume);
	jw_kbool(&w, "drops_memory", b->drops_memory);
	jw_kbool(&w, "no_memory", b->no_memory);
	jw_ku64(&w, "timeout_ms", b->timeout_ms);
	jw_ku64(&w, "started", b->started);
	jw_ku64(&w, "paused", b->paused);
	jw_ku64(&w, "ends", b->ends);
	jw_close(&w, '}');
}

static char *own(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	return json_is_string(v) ? xstrdup(json_string_value(v)) : NULL;
}

static void key_copy(char out[KEY_SIZE], const char *s)
{
	memcpy(out, s, strnlen(s, KEY_SIZE - 1));
}

static void strv_of(const json_t *o, const char *key, char ***out)
{
	struct err e;
	char **v = NULL;
	if (json_get_strv(o, key, &v, &e) || !v)
		return;
	strv_free(*out);
	*out = v;
}

struct e2b_box *e2b_note_read(const char *id, const char *text)
{
	struct err e;
	auto_json json_t *o = json_read(text, strlen(text), &e);
	if (!o || !id_is(id))
		return NULL;
	struct e2b_box *b = e2b_box_new(id);
	key_copy(b->token, json_str(o, "token"));
	key_copy(b->traffic, json_str(o, "traffic"));
	b->template_id = own(o, "template");
	b->alias = own(o, "alias");
	b->user = own(o, "user");
	b->workdir = own(o, "workdir");
	b->network = own(o, "network");
	b->mask_host = own(o, "mask_host");
	strv_of(o, "env", &b->env);
	strv_of(o, "metadata", &b->metadata);
	b->has_internet = json_is_boolean(json_object_get(o, "internet"));
	b->internet = json_is_true(json_object_get(o, "internet"));
	b->auto_pause = json_is_true(json_object_get(o, "auto_pause"));
	b->auto_resume = json_is_true(json_object_get(o, "auto_resume"));
	b->drops_memory = json_is_true(json_object_get(o, "drops_memory"));
	b->no_memory = json_is_true(json_object_get(o, "no_memory"));
	b->timeout_ms = json_u64(o, "timeout_ms");
	b->started = json_u64(o, "started");
	b->paused = json_u64(o, "paused");
	b->ends = json_u64(o, "ends");
	if (b->template_id && b->user && b->workdir && strv_len(b->metadata) % 2 == 0)
		return b;
	e2b_box_free(b);
	return NULL;
}

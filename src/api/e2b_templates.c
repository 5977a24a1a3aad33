// SPDX-License-Identifier: Apache-2.0
// Templates: a name, tags, and builds, each a snapshot that new sandboxes stand on. A snapshot that somebody made of a sandbox
// is a template with one build. Kept as notes of the engine.
#include "api/e2b_templates.h"

#include "api/auth.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define KIND "e2b-template"
#define TEMPLATES_MAX 10000

static struct {
	struct e2b_template *list; // newest first
	size_t n;
} self;

static void build_free(struct e2b_build *b)
{
	free(b->state);
	free(b->reason);
	free(b->reason_step);
	free(b->user);
	free(b->workdir);
	free(b->start_cmd);
	free(b->ready_cmd);
	strv_free(b->env);
	strv_free(b->logs);
	strv_free(b->wanted);
	free(b);
}

static void template_free(void *p)
{
	struct e2b_template *t = p;
	while (t->builds) {
		struct e2b_build *b = t->builds;
		t->builds = b->next;
		build_free(b);
	}
	while (t->tags) {
		struct e2b_tag *g = t->tags;
		t->tags = g->next;
		free(g->tag);
		free(g);
	}
	free(t->name);
	free(t);
}

void e2b_templates_free(void)
{
	while (self.list) {
		struct e2b_template *t = self.list;
		self.list = t->next;
		template_free(t);
	}
	self.n = 0;
}

struct e2b_template *e2b_templates(void)
{
	return self.list;
}

static struct e2b_template *template_add(struct e2b_template *t)
{
	t->next = self.list;
	self.list = t;
	self.n++;
	return t;
}

struct e2b_template *e2b_template_new(const char *name)
{
	struct e2b_template *t = xcalloc(1, sizeof *t);
	id_make('t', t->id);
	t->name = name ? xstrdup(name) : NULL;
	t->created = t->updated = clock_unix_ms();
	return template_add(t);
}

bool e2b_templates_full(void)
{
	return self.n >= TEMPLATES_MAX;
}

struct e2b_build *e2b_build_new(struct e2b_template *t)
{
	char key[KEY_SIZE];
	struct e2b_build *b = xcalloc(1, sizeof *b);
	key_make(key);
	if (fmt_to(b->id, sizeof b->id, "%.8s-%.4s-4%.3s-8%.3s-%.12s", key, key + 8, key + 13, key + 17, key + 20))
		abort(); // 36 characters
	b->state = xstrdup("waiting");
	b->created = t->updated = clock_unix_ms();
	b->env = xcalloc(1, sizeof *b->env);
	b->next = t->builds;
	t->builds = b;
	return b;
}

struct e2b_build *e2b_build_of(const struct e2b_template *t, const char *id)
{
	for (struct e2b_build *b = t->builds; b; b = b->next)
		if (!strcmp(b->id, id))
			return b;
	return NULL;
}

struct e2b_tag *e2b_tag_of(const struct e2b_template *t, const char *tag)
{
	for (struct e2b_tag *g = t->tags; g; g = g->next)
		if (!strcmp(g->tag, tag))
			return g;
	return NULL;
}

void e2b_tag_set(struct e2b_template *t, const char *tag, const char *build)
{
	struct e2b_tag *g = e2b_tag_of(t, tag);
	if (!g) {
		g = xcalloc(1, sizeof *g);
		g->tag = xstrdup(tag);
		g->next = t->tags;
		t->tags = g;
	}
	memset(g->build, 0, sizeof g->build);
	memcpy(g->build, build, strnlen(build, sizeof g->build - 1));
	g->created = clock_unix_ms();
}

void e2b_tag_drop(struct e2b_template *t, const char *tag)
{
	for (struct e2b_tag **p = &t->tags; *p; p = &(*p)->next)
		if (!strcmp((*p)->tag, tag)) {
			struct e2b_tag *g = *p;
			*p = g->next;
			free(g->tag);
			free(g);
			return;
		}
}

// --- names ---

bool e2b_name_is(const char *s, size_t n)
{
	return n && n <= E2B_NAME_MAX && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") >= n;
}

bool e2b_tag_is(const char *s)
{
	size_t n = strlen(s);
	return n && n <= E2B_NAME_MAX && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == n;
}

// [TEAM/]NAME[:TAG]. There is one team here, and whatever it is called is right.
int e2b_word_split(const char *word, char **out_name, char **out_tag, struct err *e)
{
	const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word, *colon = strchr(name, ':');
	size_t n = colon ? (size_t)(colon - name) : strlen(name);
	auto_free char *lower = xstrndup(name, n);
	for (char *c = lower; *c; c++)
		*c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
	if (!e2b_name_is(lower, n) || (slash && !e2b_name_is(word, (size_t)(slash - word))) || (colon && !e2b_tag_is(colon + 1)))
		return err_set(e, ERR_INVALID, "invalid template reference '%.80s': names are of a-z 0-9 - _, tags of these and '.'", word);
	*out_name = take(&lower);
	*out_tag = colon ? xstrdup(colon + 1) : NULL;
	return 0;
}

struct e2b_template *e2b_template_named(const char *name)
{
	for (struct e2b_template *t = self.list; t; t = t->next)
		if (!strcmp(t->id, name) || (t->name && !strcmp(t->name, name)))
			return t;
	return NULL;
}

struct e2b_template *e2b_template_find(const char *word, struct e2b_build **out_build, struct err *e)
{
	char *name = NULL, *tag = NULL;
	if (e2b_word_split(word, &name, &tag, e))
		return NULL;
	struct e2b_template *t = e2b_template_named(name);
	struct e2b_tag *g = t ? e2b_tag_of(t, tag ? tag : "default") : NULL;
	struct e2b_build *b = g ? e2b_build_of(t, g->build) : NULL;
	if (!t)
		err_set(e, ERR_NOT_FOUND, "template '%s' not found", name);
	else if (!b && out_build)
		err_set(e, ERR_NOT_FOUND, "tag '%s' does not exist for template '%s'", tag ? tag : "default", name);
	if (out_build)
		*out_build = b;
	free(name);
	free(tag);
	return t;
}

// A token for some sandboxes has those that are built in, and snapshots of its own.
#define CPUS_MAX 1024
#define MEMORY_MIN_MB 128
#define MEMORY_MAX_MB (1u << 20)

int e2b_limits_read(const json_t *o, struct limits *inout, struct err *e)
{
	uint64_t cpus = 0, mb = 0;
	if (json_get_u64(o, "cpuCount", &cpus, e) || json_get_u64(o, "memoryMB", &mb, e))
		return -1;
	if (cpus > CPUS_MAX)
		return err_set(e, ERR_INVALID, "cpuCount must be 1 to %d", CPUS_MAX);
	if (mb && (mb < MEMORY_MIN_MB || mb > MEMORY_MAX_MB))
		return err_set(e, ERR_INVALID, "memoryMB must be %d to %u", MEMORY_MIN_MB, MEMORY_MAX_MB);
	inout->cpus_milli = cpus ? cpus * 1000 : inout->cpus_milli;
	inout->memory = mb ? mb << 20 : inout->memory;
	return 0;
}

struct limits e2b_limits_of(const struct e2b_template *t)
{
	struct limits l = LIMITS_DEFAULT;
	l.cpus_milli = t->cpus ? t->cpus * 1000 : l.cpus_milli;
	l.memory = t->memory_mb ? t->memory_mb << 20 : l.memory;
	return l;
}

bool e2b_template_sees(const struct request *r, const struct e2b_template *t)
{
	return r->who->local || r->who->on == ON_ALL || t->builtin || (*t->source && request_sees_id(r, t->source));
}

// --- the note ---

static void print_build(struct jsonw *w, const struct e2b_build *b)
{
	jw_open(w, '{');
	jw_kstr(w, "id", b->id);
	jw_kstr(w, "snapshot", b->snapshot);
	jw_kstr(w, "state", b->state);
	jw_kstr(w, "reason", b->reason);
	jw_kstr(w, "reason_step", b->reason_step);
	jw_kstr(w, "user", b->user);
	jw_kstr(w, "workdir", b->workdir);
	jw_kstr(w, "start_cmd", b->start_cmd);
	jw_kstr(w, "ready_cmd", b->ready_cmd);
	jw_kstrv(w, "env", b->env);
	jw_ku64(w, "created", b->created);
	jw_close(w, '}');
}

void e2b_template_save(struct engine *g, struct e2b_template *t)
{
	struct err e;
	auto_buf struct buf text = BUF_INIT(2 * LIMIT_REQUEST_BODY);
	struct jsonw w = {.b = &text};
	jw_open(&w, '{');
	jw_kstr(&w, "name", t->name);
	jw_kbool(&w, "public", t->is_public);
	jw_kbool(&w, "builtin", t->builtin);
	jw_kstr(&w, "source", t->source);
	jw_ku64(&w, "created", t->created);
	jw_ku64(&w, "updated", t->updated);
	jw_ku64(&w, "spawned", t->spawned);
	jw_ku64(&w, "spawn_count", t->spawn_count);
	jw_ku64(&w, "cpus", t->cpus);
	jw_ku64(&w, "memory_mb", t->memory_mb);
	jw_key(&w, "builds");
	jw_open(&w, '[');
	for (struct e2b_build *b = t->builds; b; b = b->next)
		print_build(&w, b);
	jw_close(&w, ']');
	jw_key(&w, "tags");
	jw_open(&w, '[');
	for (struct e2b_tag *x = t->tags; x; x = x->next) {
		jw_open(&w, '{');
		jw_kstr(&w, "tag", x->tag);
		jw_kstr(&w, "build", x->build);
		jw_ku64(&w, "created", x->created);
		jw_close(&w, '}');
	}
	jw_close(&w, ']');
	jw_close(&w, '}');
	if (text.overflow || engine_note_set(g, KIND, t->id, buf_cstr(&text), &e) || engine_notes_sync(g, &e))
		log_line(LOG_ERROR, "template=%s not saved: %s", t->id, text.overflow ? "too long" : e.msg);
}

static char *own(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	return json_is_string(v) ? xstrdup(json_string_value(v)) : NULL;
}

static void copy_to(char *out, size_t size, const char *s)
{
	memcpy(out, s, strnlen(s, size - 1));
}

// A build that was under way when the last daemon ended has failed.
static void read_build(struct e2b_template *t, const json_t *o)
{
	struct err e;
	struct e2b_build **end = &t->builds, *b = xcalloc(1, sizeof *b);
	copy_to(b->id, sizeof b->id, json_str(o, "id"));
	copy_to(b->snapshot, sizeof b->snapshot, json_str(o, "snapshot"));
	b->user = own(o, "user");
	b->workdir = own(o, "workdir");
	b->start_cmd = own(o, "start_cmd");
	b->ready_cmd = own(o, "ready_cmd");
	b->reason = own(o, "reason");
	b->reason_step = own(o, "reason_step");
	b->created = json_u64(o, "created");
	if (json_get_strv(o, "env", &b->env, &e) || !b->env)
		b->env = xcalloc(1, sizeof *b->env);
	b->state = xstrdup(*b->snapshot ? "ready" : t->builtin ? "waiting" : "error");
	if (!*b->snapshot && !b->reason)
		b->reason = xstrdup("skepd ended while it was being built");
	while (*end)
		end = &(*end)->next;
	*end = b;
}

static void load(void *ctx, const char *key, const char *text)
{
	struct err e;
	size_t i;
	json_t *v;
	(void)ctx;
	auto_json json_t *o = json_read(text, strlen(text), &e);
	if (!o || !id_is(key)) {
		log_line(LOG_WARN, "template=%s can not be read", key);
		return;
	}
	struct e2b_template *t = xcalloc(1, sizeof *t);
	copy_to(t->id, sizeof t->id, key);
	copy_to(t->source, sizeof t->source, json_str(o, "source"));
	t->name = own(o, "name");
	t->is_public = json_is_true(json_object_get(o, "public"));
	t->builtin = json_is_true(json_object_get(o, "builtin"));
	t->created = json_u64(o, "created");
	t->updated = json_u64(o, "updated");
	t->spawned = json_u64(o, "spawned");
	t->spawn_count = json_u64(o, "spawn_count");
	t->cpus = json_u64(o, "cpus");
	t->memory_mb = json_u64(o, "memory_mb");
	json_array_foreach(json_object_get(o, "builds"), i, v) read_build(t, v);
	json_array_foreach(json_object_get(o, "tags"), i, v)
	{
		e2b_tag_set(t, json_str(v, "tag"), json_str(v, "build"));
		t->tags->created = json_u64(v, "created");
	}
	template_add(t);
}

// There from the start: the host's own system with the account that E2B's sandboxes have.
static void add_builtin(struct engine *g, const char *name)
{
	if (e2b_template_named(name))
		return;
	struct e2b_template *t = e2b_template_new(name);
	t->builtin = t->is_public = true;
	e2b_tag_set(t, "default", e2b_build_new(t)->id);
	e2b_template_save(g, t);
}

int e2b_templates_load(struct engine *g, struct err *e)
{
	if (engine_notes(g, KIND, load, NULL, e))
		return -1;
	add_builtin(g, "code-interpreter-v1");
	add_builtin(g, "base");
	return 0;
}

// --- its end ---

static void on_dropped(void *ctx, const struct err *e, const struct outcome *o)
{
	(void)ctx, (void)o;
	if (e && e->kind != ERR_NOT_FOUND)
		log_line(LOG_WARN, "a template's snapshot is left: %s", e->msg);
}

void e2b_template_drop(struct engine *g, struct e2b_template *t)
{
	struct err e;
	if (engine_note_drop(g, KIND, t->id, &e))
		log_line(LOG_ERROR, "template=%s %s", t->id, e.msg);
	for (struct e2b_template **p = &self.list; *p; p = &(*p)->next)
		if (*p == t) {
			*p = t->next;
			self.n--;
			break;
		}
	for (struct e2b_build *b = t->builds; b; b = b->next)
		if (*b->snapshot && !e2b_snapshot_is_used(b->snapshot))
			engine_snapshot_remove(g, b->snapshot, (struct done){on_dropped, NULL});
	loop_bury(e2b_loop(), t, template_free);
}

static bool is_tagged(const struct e2b_template *t, const struct e2b_build *b)
{
	for (const struct e2b_tag *x = t->tags; x; x = x->next)
		if (!strcmp(x->build, b->id))
			return true;
	return false;
}

void e2b_builds_trim(struct engine *g, struct e2b_template *t)
{
	for (struct e2b_build **p = &t->builds; *p;) {
		struct e2b_build *b = *p;
		if (is_tagged(t, b) || b->builder) {
			p = &b->next;
			continue;
		}
		*p = b->next;
		if (*b->snapshot && !e2b_snapshot_is_used(b->snapshot))
			engine_snapshot_remove(g, b->snapshot, (struct done){on_dropped, NULL});
		build_free(b);
	}
}

// A template that was built on another one without steps shares its snapshot.
bool e2b_snapshot_is_used(const char *snapshot)
{
	for (struct e2b_template *t = self.list; t; t = t->next)
		for (struct e2b_build *b = t->builds; b; b = b->next)
			if (!strcmp(b->snapshot, snapshot))
				return true;
	return false;
}

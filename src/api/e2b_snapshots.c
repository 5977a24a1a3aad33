// SPDX-License-Identifier: Apache-2.0
// Snapshots of sandboxes, as E2B lists them: templates that came from a sandbox.
#include "api/e2b_templates.h"
#include "api/e2b_routes.h"

#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define TEAM "skep" // there is one
#define LIST_MAX 100

static void put_snapshot(struct jsonw *w, const struct e2b_template *t, const char *tag)
{
	auto_free char *name = t->name ? xasprintf(TEAM "/%s", t->name) : NULL;
	auto_free char *id = xasprintf("%s:%s", name ? name : t->id, tag);
	jw_open(w, '{');
	jw_kstr(w, "snapshotID", id);
	jw_key(w, "names");
	jw_open(w, '[');
	if (name)
		jw_str(w, name, strlen(name));
	jw_close(w, ']');
	jw_close(w, '}');
}

struct sealing {
	struct request *r;
	char of[ID_SIZE], build[40];
	char snapshot[ID_SIZE];
	bool running;
	char *name, *tag; // name NULL = none
};

static void sealing_free(struct sealing *s)
{
	free(s->name);
	free(s->tag);
	free(s);
}

// What a sandbox on it begins with is what this one has.
static void inherit(struct e2b_build *b, const struct e2b_box *of)
{
	free(b->state);
	b->state = xstrdup("ready");
	b->user = xstrdup(of->user);
	b->workdir = xstrdup(of->workdir);
	for (char **v = of->env; *v; v++)
		if (!str_has_prefix(*v, "E2B_"))
			strv_add(&b->env, *v);
}

static void on_running(void *ctx, const struct err *e)
{
	struct sealing *s = ctx;
	struct request *r = s->r;
	struct err gone;
	struct e2b_box *of = e2b_box_get(r->engine, s->of);
	struct e2b_template *t = s->name ? e2b_template_named(s->name) : NULL;
	struct jsonw w = answer_json(r);
	if (!e && !of)
		err_set(&gone, ERR_NOT_FOUND, "sandbox %s was killed", s->of);
	if (e || !of) {
		sealing_free(s);
		request_fail(r, e ? e : &gone);
		return;
	}
	t = t ? t : e2b_template_new(s->name);
	memcpy(t->source, s->of, sizeof t->source);
	struct e2b_build *b = e2b_build_new(t);
	memcpy(b->id, s->build, sizeof b->id);
	memcpy(b->snapshot, s->snapshot, sizeof b->snapshot);
	inherit(b, of);
	const char *tag = s->tag ? s->tag : "default";
	e2b_tag_set(t, tag, b->id);
	e2b_template_save(r->engine, t);
	put_snapshot(&w, t, tag);
	sealing_free(s);
	request_answer(r, 201);
}

static void on_snapshot(void *ctx, const struct err *e, const struct outcome *o)
{
	struct sealing *s = ctx;
	if (!e)
		memcpy(s->snapshot, o->snapshot->id, sizeof s->snapshot);
	if (s->running)
		e2b_release(s->r->engine, s->of, e, on_running, s);
	else
		on_running(s, e);
}

static int read_name(struct request *r, struct sealing *s, struct err *e)
{
	const char *name;
	if (json_get_str(r->json, "name", &name, e))
		return -1;
	if (!name)
		return 0;
	if (e2b_word_split(name, &s->name, &s->tag, e))
		return -1;
	const struct e2b_template *t = e2b_template_named(s->name);
	if (t && !*t->source)
		return err_set(e, ERR_CONFLICT, "the name '%s' is taken by a template", s->name);
	return 0;
}

void e2b_post_snapshot(struct request *r)
{
	struct err e;
	struct e2b_box *b = e2b_named(r);
	if (!b)
		return;
	struct sealing *s = xcalloc(1, sizeof *s);
	char key[KEY_SIZE];
	s->r = r;
	memcpy(s->of, b->id, sizeof s->of);
	key_make(key);
	if (e2b_templates_full())
		err_set(&e, ERR_LIMIT, "there are too many snapshots and templates: delete some");
	if (e2b_templates_full() || read_name(r, s, &e) ||
	    fmt_to(s->build, sizeof s->build, "%.8s-%.4s-4%.3s-8%.3s-%.12s", key, key + 8, key + 13, key + 17, key + 20)) {
		sealing_free(s);
		request_fail(r, &e);
		return;
	}
	auto_free char *name = xasprintf("e2b-%s", s->build);
	s->running = e2b_is_running(r->engine, b);
	b->held += s->running;
	engine_snapshot(r->engine, s->of, name, (struct done){on_snapshot, s});
}

// --- the list ---

static bool fits(const struct e2b_template *t, const char *of, const char *name)
{
	return *t->source && (!of || !strncmp(t->source, of, strcspn(of, "-"))) && (!name || (t->name && !strcmp(t->name, name)));
}

// Newest first; a page begins behind the template that the token names.
static void list(struct request *r, const char *of, const char *name, uint64_t limit)
{
	const char *token = request_query(r, "nextToken"), *last = NULL;
	struct jsonw w = answer_json(r);
	bool begun = !token || !*token, more = false;
	uint64_t n = 0;
	jw_open(&w, '[');
	for (const struct e2b_template *t = e2b_templates(); t; t = t->next) {
		if (begun && fits(t, of, name) && e2b_template_sees(r, t)) {
			more = n == limit;
			if (more)
				break;
			put_snapshot(&w, t, t->tags ? t->tags->tag : "default");
			last = t->id;
			n++;
		}
		begun |= token && !strcmp(token, t->id);
	}
	jw_close(&w, ']');
	if (more && last)
		request_set_header(r, "X-Next-Token", last);
	request_answer(r, 200);
}

void e2b_get_snapshots(struct request *r)
{
	struct err ignored;
	const char *limit = request_query(r, "limit"), *word = request_query(r, "name");
	auto_free char *name = NULL, *tag = NULL;
	uint64_t n = LIST_MAX;
	if (limit && str_to_u64(str_of(limit), 1, LIST_MAX, &n)) {
		e2b_error(r, 400, "limit is 1 to %d", LIST_MAX);
		return;
	}
	if (word && e2b_word_split(word, &name, &tag, &ignored)) { // what can be no name has no snapshots
		buf_str(&r->answer, "[]");
		request_answer(r, 200);
		return;
	}
	list(r, request_query(r, "sandboxID"), name, n);
}

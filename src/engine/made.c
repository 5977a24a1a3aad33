// SPDX-License-Identifier: Apache-2.0
// Derived things that a child makes, once for however many ask at the same time.
#include "engine/base_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "engine/child.h"
#include <stdlib.h>
#include <string.h>

#define ANSWER_MAX_BYTES (1u << 20)

struct wait {
	struct task *t;
	made_then then;
	struct wait *next;
};

struct making {
	struct engine *g;
	struct derived_row row;
	char *member;
	struct wait *waits;
	struct making *next;
};

static void making_free(struct making *m)
{
	derived_row_done(&m->row);
	free(m->member);
	free(m);
}

static void unlink_making(struct making *m)
{
	list_unlink(&m->g->makings, m, next);
}

static void keep_info(struct making *m, const json_t *answer)
{
	size_t i;
	json_t *v;
	m->row.info = xcalloc(1, sizeof *m->row.info);
	json_array_foreach(m->member ? json_object_get(answer, m->member) : NULL, i, v)
		if (json_is_string(v))
			strv_add(&m->row.info, json_string_value(v));
	json_array_foreach(json_object_get(answer, "skipped"), i, v)
	{
		auto_free char *line = xasprintf("%c%s", MADE_LEFT_OUT, json_string_value(v) ? json_string_value(v) : "?");
		strv_add(&m->row.info, line);
	}
}

// Mirrors of submodules are used by what shows their objects, and counted like the others. "KEY\tBYTES"
static void keep_mirrors(struct engine *g, const json_t *answer)
{
	size_t i;
	json_t *v;
	json_array_foreach(json_object_get(answer, "mirrors"), i, v)
	{
		struct str rest = str_of(json_is_string(v) ? json_string_value(v) : ""), key, size;
		uint64_t bytes;
		if (!str_next(&rest, '\t', &key) || !str_next(&rest, '\t', &size) || str_to_u64(size, 0, INT64_MAX, &bytes))
			continue;
		auto_free char *k = xstrndup(key.p, key.n), *path = xasprintf("repos/%s.git", k);
		if (!*k || k[strspn(k, "0123456789abcdef")])
			continue; // no name of a mirror
		derived_note(g, DERIVED_REPO, k, path, bytes);
	}
}

static void discard(struct making *m)
{
	auto_free char *partial = xasprintf("%s.partial", m->row.path);
	char *dirs[] = {m->row.path, partial, NULL};
	engine_discard_unmade(m->g, dirs);
}

static void on_made(void *ctx, const struct child_end *end)
{
	struct making *m = ctx;
	struct engine *g = m->g;
	struct err e;
	struct derived *d = NULL;
	auto_json json_t *answer = child_json(end, "skep-repo", &e);
	if (answer) {
		keep_info(m, answer);
		keep_mirrors(g, answer);
		m->row.bytes = json_u64(answer, "bytes");
	} else {
		discard(m);
	}
	unlink_making(m);
	struct wait *waits = m->waits;
	if (answer)
		d = derived_add(g, &m->row, &e);
	making_free(m);
	while (waits) {
		struct wait *w = waits;
		waits = w->next;
		w->then(w->t, d ? NULL : &e, d);
		free(w);
	}
}

static void join(struct making *m, struct task *t, made_then then)
{
	struct wait *w = xcalloc(1, sizeof *w), **p = &m->waits;
	*w = (struct wait){t, then, NULL};
	while (*p)
		p = &(*p)->next;
	*p = w;
}

static struct making *busy_with(const struct engine *g, enum derived_kind kind, const char *key)
{
	for (struct making *m = g->makings; m; m = m->next)
		if (m->row.kind == kind && !strcmp(m->row.key, key))
			return m;
	return NULL;
}

static int spawn(struct making *m, const struct made_want *w, struct err *e)
{
	char **argv = NULL;
	auto_free char *dir = xasprintf("%s/%s", m->g->skep_home, m->row.path);
	for (char *const *a = w->argv; *a; a++)
		strv_add(&argv, strcmp(*a, "{}") ? *a : dir);
	struct child_spec spec = {.program = "skep-repo", .argv = argv, .env = w->env, .out_max = ANSWER_MAX_BYTES};
	struct child *c = child_start(m->g, &spec, on_made, m, e);
	strv_free(argv);
	return c ? 0 : -1;
}

void made_get(struct task *t, const struct made_want *w, made_then then)
{
	struct engine *g = t->box->g;
	struct err e;
	char id[ID_SIZE];
	struct derived *d = derived_find(g, w->kind, w->key);
	struct making *m = d ? NULL : busy_with(g, w->kind, w->key);
	if (d) {
		then(t, NULL, d);
		return;
	}
	if (m) {
		join(m, t, then);
		return;
	}
	m = xcalloc(1, sizeof *m);
	id_make(w->letter, id);
	m->g = g;
	m->row = (struct derived_row){.kind = w->kind, .key = xstrdup(w->key), .path = xasprintf("trees/%s", id)};
	m->member = w->member ? xstrdup(w->member) : NULL;
	if (spawn(m, w, &e)) {
		making_free(m);
		then(t, &e, NULL);
		return;
	}
	m->next = g->makings;
	g->makings = m;
	join(m, t, then);
}

bool made_is_busy(const struct engine *g, const char *path)
{
	for (struct making *m = g->makings; m; m = m->next)
		if (str_has_prefix(path, m->row.path))
			return true;
	return false;
}

void made_free(struct engine *g)
{
	while (g->makings) {
		struct making *m = g->makings;
		g->makings = m->next;
		while (m->waits) {
			struct wait *w = m->waits;
			m->waits = w->next;
			free(w);
		}
		making_free(m);
	}
}

// SPDX-License-Identifier: Apache-2.0
// What the base was (P) lies in the shadow repository of a sandbox. A fork has one of its own, made of its origin's behind
// the fork; a sandbox that goes back to a snapshot goes back to the P of then. Both are a row that says whose shadow has
// which P, and a child that makes it so before anything is reviewed. The shadow of a removed sandbox stays for as long as a
// snapshot or a fork needs it.
#include "engine/heritage_int.h"
#include "engine/base_int.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

static void set_heritage(struct sandbox *s, const char *of)
{
	char *pin = xasprintf("%s %s", s->pin && *s->pin ? s->pin : "-", of);
	free(s->pin);
	s->pin = pin;
	s->base_pin = PIN_INHERITED;
}

const char *heritage_of(const struct sandbox *s)
{
	const char *space = s->base_pin == PIN_INHERITED && s->pin ? strchr(s->pin, ' ') : NULL;
	return space ? space + 1 : "";
}

void heritage_fork(struct sandbox *s, const char *origin)
{
	bool live = s->repo && !s->tree; // recorded, or about to be
	if (s->base_pin != PIN_INHERITED && (live || (s->pin && *s->pin)))
		set_heritage(s, origin);
}

void heritage_back(struct engine *g, struct sandbox *s)
{
	auto_free char *shadow = xasprintf("%s/shadow.git", s->id);
	if (s->base_pin != PIN_INHERITED && fs_exists(g->sandboxes, shadow))
		set_heritage(s, s->id);
}

static bool template_needs(const struct snapshot *n, const char *id)
{
	struct sandbox was = {0};
	bool needs = sandbox_template_read(&n->template, &was) || !strcmp(heritage_of(&was), id);
	sandbox_done(&was);
	return needs;
}

bool heritage_needs(struct engine *g, const char *id)
{
	for (struct box *b = g->boxes; b; b = b->next)
		if (strcmp(b->row.id, id) && !strcmp(heritage_of(&b->row), id))
			return true;
	for (struct snap *n = g->snaps; n; n = n->next)
		if (n->row.name && (!strcmp(n->row.sandbox, id) || template_needs(&n->row, id)))
			return true;
	return false;
}

bool heritage_all(struct engine *g, struct index *needed, char ***own)
{
	bool readable = true;
	for (struct box *b = g->boxes; b; b = b->next)
		if (strcmp(heritage_of(&b->row), b->row.id))
			strv_add(own, heritage_of(&b->row));
	for (struct snap *n = g->snaps; n; n = n->next) {
		struct sandbox was = {0};
		if (!n->row.name)
			continue;
		strv_add(own, n->row.sandbox);
		if (sandbox_template_read(&n->row.template, &was))
			readable = false;
		else
			strv_add(own, heritage_of(&was));
		sandbox_done(&was);
	}
	for (char **k = *own; k && *k; k++)
		index_put(needed, *k, *k);
	return readable;
}

void heritage_release(struct engine *g, const char *id)
{
	auto_free char *shadow = xasprintf("journals/%s/shadow.git", id);
	char *dirs[] = {shadow, NULL};
	if (!box_by_id(g, id) && fs_exists(g->home_fd, shadow) && !heritage_needs(g, id))
		engine_discard(g, dirs);
}

// Its origin was removed before anything was recorded.
bool heritage_is_lost(const struct box *b)
{
	const char *of = heritage_of(&b->row);
	auto_free char *tree = xasprintf("journals/%s/shadow.git/refs/skep/pin", of);
	auto_free char *list = xasprintf("journals/%s/shadow.git/refs/skep/manifest", of);
	return !box_by_id(b->g, of) && b->row.pin[0] == '-' && !fs_exists(b->g->home_fd, tree) && !fs_exists(b->g->home_fd, list);
}

// Its row goes: how old its base was is said beside the objects.
void heritage_keep(struct box *b)
{
	struct err e;
	auto_free char *dir = xasprintf("journals/%s/shadow.git/skep", b->row.id), *file = xasprintf("%s/t0", dir);
	auto_free char *t0 = xasprintf("%llu\n", (unsigned long long)base_time(&b->row));
	if (fs_exists(b->g->home_fd, file))
		return;
	if (fs_mkdirs(b->g->home_fd, dir, 0700, &e) || fs_replace(b->g->home_fd, file, t0, strlen(t0), 0600, &e))
		log_line(LOG_WARN, "sandbox=%s %s", b->row.id, e.msg);
}

struct child *heritage_start(struct box *b, void (*ended)(void *, const struct child_end *), void *ctx, struct err *e)
{
	struct engine *g = b->g;
	const char *of = heritage_of(&b->row);
	struct box *origin = box_by_id(g, of);
	auto_free char *from = xasprintf("%s/%s/%s/shadow.git", g->skep_home, origin ? "sandboxes" : "journals", of);
	auto_free char *to = xasprintf("%s/sandboxes/%s/shadow.git", g->skep_home, b->row.id);
	auto_free char *tree = xstrndup(b->row.pin, strcspn(b->row.pin, " "));
	auto_free char *t0 = xasprintf("%llu", (unsigned long long)base_time(origin ? &origin->row : &b->row));
	char a0[] = "skep-review", a1[] = "inherit", a2[] = "--from", a4[] = "--shadow", a6[] = "--base", a8[] = "--t0";
	char *argv[] = {a0, a1, a2, from, a4, to, a6, tree, a8, t0, NULL};
	struct child_spec spec = {.program = "skep-review", .argv = argv, .out_max = 1 << 20};
	return child_start(g, &spec, ended, ctx, e);
}

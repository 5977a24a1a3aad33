// SPDX-License-Identifier: Apache-2.0
// A live base is not frozen: what it was when the sandbox was made is recorded behind the creation, by a child that reads
// index, dirty and untracked files into the sandbox's shadow repository. What ended before that needs no record.
#include "engine/heritage_int.h"
#include "engine/review_int.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/child.h"
#include <stdlib.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PIN_AFTER_MS 300

struct pin_wait {
	void (*then)(void *ctx, const struct err *e);
	void *ctx;
	struct pin_wait *next;
};

struct pin {
	struct engine *g;
	char box[ID_SIZE];
};

static void tell(struct box *b, const struct err *e)
{
	while (b->pin_waits) {
		struct pin_wait *w = b->pin_waits;
		b->pin_waits = w->next;
		w->then(w->ctx, e);
		free(w);
	}
}

static void settle(struct box *b, enum base_pin state, const struct err *e)
{
	if (e)
		log_line(LOG_WARN, "sandbox=%s its base is not pinned: %s", b->row.id, e->msg);
	b->pinning = false;
	b->row.base_pin = state;
	box_save(b);
	tell(b, e);
}

// Its sandbox went while it worked: it may have made the directory again.
static void sweep(struct engine *g, const char *id)
{
	struct err e;
	auto_free char *shadow = xasprintf("%s/shadow.git", id);
	if (fs_remove_tree(g->sandboxes, shadow, &e)) // ours alone: nothing of it came from a sandbox
		log_line(LOG_WARN, "left for gc: %s", e.msg);
	unlinkat(g->sandboxes, id, AT_REMOVEDIR); // fails when something else is in it, as it should
}

// On disk before anything is reviewed: a later start would set P back over what was applied meanwhile.
static void on_inherited(struct box *b, const json_t *answer, const struct err *e)
{
	struct err se;
	auto_free char *of = xstrdup(heritage_of(&b->row));
	free(b->row.pin);
	b->row.pin = answer ? xstrdup(json_str(answer, "tree")) : NULL;
	b->row.base_pin = answer ? PIN_PINNED : PIN_FAILED;
	box_save(b);
	box_write(b);
	if (store_flush(b->g->store, &se))
		log_line(LOG_ERROR, "sandbox=%s %s", b->row.id, se.msg);
	heritage_release(b->g, of);
	settle(b, b->row.base_pin, e);
}

static void on_pinned(void *ctx, const struct child_end *end)
{
	struct pin *p = ctx;
	struct err e;
	struct box *b = box_by_id(p->g, p->box);
	auto_json json_t *answer = child_json(end, "what records the base", &e);
	if (!b)
		sweep(p->g, p->box);
	free(p);
	if (!b)
		return;
	b->pinner = NULL;
	if (b->row.base_pin == PIN_INHERITED) {
		on_inherited(b, answer, answer ? NULL : &e);
		return;
	}
	if (answer) {
		free(b->row.pin);
		b->row.pin = xstrdup(json_str(answer, "tree"));
	}
	settle(b, answer ? PIN_PINNED : PIN_FAILED, answer ? NULL : &e);
}

static void start_child(struct box *b)
{
	struct err e;
	auto_free char *shadow = xasprintf("%s/sandboxes/%s/shadow.git", b->g->skep_home, b->row.id);
	auto_free char *t0 = xasprintf("%llu", (unsigned long long)base_time(&b->row));
	const char *words[] = {"skep-repo", "pin", "--dir", b->row.repo ? b->row.repo : "", "--shadow", shadow, "--t0", t0};
	char **argv = NULL;
	for (size_t i = 0; i < countof(words); i++)
		strv_add(&argv, words[i]);
	for (char **o = b->row.objects; o && *o; o++) { // the places that its own git borrows from
		auto_free char *source = xstrndup(*o, strcspn(*o, "\t"));
		if (*source)
			strv_add(&argv, "--alternates"), strv_add(&argv, source);
	}
	struct pin *p = xcalloc(1, sizeof *p);
	p->g = b->g;
	memcpy(p->box, b->row.id, sizeof p->box);
	struct child_spec spec = {.program = "skep-repo", .argv = argv, .out_max = 1 << 20, .group = true};
	b->pinning = true;
	bool inherits = b->row.base_pin == PIN_INHERITED && !heritage_is_lost(b);
	if (!inherits)
		b->row.base_pin = PIN_PINNING;
	b->pinner = inherits ? heritage_start(b, on_pinned, p, &e) : child_start(b->g, &spec, on_pinned, p, &e);
	strv_free(argv);
	if (!b->pinner) {
		free(p);
		settle(b, PIN_FAILED, &e);
	}
}

// Files are stamped more finely than sandboxes: what was written in the same millisecond was there before.
uint64_t base_time(const struct sandbox *s)
{
	return s->created * 1000000 + 999999;
}

static bool needs_pin(const struct box *b)
{
	return b->row.base_pin == PIN_INHERITED || (b->row.repo && !b->row.tree && b->row.base_pin != PIN_PINNED);
}

// Whether it could be recorded or not: what there is is inherited.
static void on_origin(void *ctx, const struct err *e)
{
	struct pin *p = ctx;
	struct box *b = box_by_id(p->g, p->box);
	(void)e;
	free(p);
	if (b)
		start_child(b);
}

static void start(struct box *b)
{
	struct box *origin = b->row.base_pin == PIN_INHERITED ? box_by_id(b->g, heritage_of(&b->row)) : NULL;
	if (!origin || origin == b || !needs_pin(origin)) {
		start_child(b);
		return;
	}
	struct pin *p = xcalloc(1, sizeof *p);
	p->g = b->g;
	memcpy(p->box, b->row.id, sizeof p->box);
	b->pinning = true;
	pin_wait(origin, on_origin, p);
}

static void on_time(struct timer *t)
{
	struct box *b = container_of(t, struct box, pin_timer);
	bool due = b->row.base_pin == PIN_INHERITED ||
		   (b->row.base_pin == PIN_PINNING && source_is(b->row.repo, b->row.base_dev, b->row.base_ino));
	if (!b->pinning && due)
		start(b);
}

void pin_begin(struct box *b)
{
	if (!needs_pin(b))
		return;
	if (b->row.base_pin != PIN_INHERITED)
		b->row.base_pin = PIN_PINNING;
	b->pin_timer.fn = on_time;
	timer_set(b->g->loop, &b->pin_timer, PIN_AFTER_MS);
}

void pin_wait(struct box *b, void (*then)(void *ctx, const struct err *e), void *ctx)
{
	// of a base that is gone nothing can be recorded: what was made is looked at without
	if (!needs_pin(b) || (b->row.base_pin != PIN_INHERITED && !b->pinning && box_base_is_gone(b))) {
		then(ctx, NULL);
		return;
	}
	struct pin_wait *w = xcalloc(1, sizeof *w);
	*w = (struct pin_wait){then, ctx, b->pin_waits};
	b->pin_waits = w;
	if (!b->pinning)
		start(b);
}

void pin_stop(struct box *b)
{
	timer_clear(b->g->loop, &b->pin_timer);
	if (b->pinner)
		child_kill(b->pinner);
}

void pin_forget(struct box *b, bool quiet)
{
	struct err e;
	timer_clear(b->g->loop, &b->pin_timer);
	err_set(&e, ERR_NOT_FOUND, "sandbox %s was removed", b->row.id);
	while (quiet && b->pin_waits) {
		struct pin_wait *w = b->pin_waits;
		b->pin_waits = w->next;
		free(w);
	}
	tell(b, &e);
}

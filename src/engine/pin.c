// SPDX-License-Identifier: Apache-2.0
// A live base is not frozen: what it was when the sandbox was made is recorded behind the creation, by a child that reads
// index, dirty and untracked files into the sandbox's shadow repository. What ended before that needs no record.
#include "engine/base_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "engine/child.h"
#include <stdlib.h>
#include <string.h>

#define PIN_AFTER_MS 300

struct pin {
	struct engine *g;
	char box[ID_SIZE];
};

static void on_pinned(void *ctx, const struct child_end *end)
{
	struct pin *p = ctx;
	struct err e;
	struct box *b = box_by_id(p->g, p->box);
	auto_json json_t *answer = child_json(end, "skep-repo", &e);
	free(p);
	if (!b)
		return;
	if (answer) {
		free(b->row.pin);
		b->row.pin = xstrdup(json_str(answer, "tree"));
	} else {
		log_line(LOG_WARN, "sandbox=%s its base is not pinned: %s", b->row.id, e.msg);
	}
	b->row.base_pin = answer ? PIN_PINNED : PIN_FAILED;
	box_save(b);
}

static void start(struct box *b)
{
	struct err e;
	auto_free char *shadow = xasprintf("%s/sandboxes/%s/shadow.git", b->g->skep_home, b->row.id);
	char a0[] = "skep-repo", a1[] = "pin", a2[] = "--dir", a4[] = "--shadow";
	char *argv[] = {a0, a1, a2, b->row.repo, a4, shadow, NULL};
	struct pin *p = xcalloc(1, sizeof *p);
	p->g = b->g;
	memcpy(p->box, b->row.id, sizeof p->box);
	struct child_spec spec = {.program = "skep-repo", .argv = argv, .out_max = 1 << 20};
	if (!child_start(b->g, &spec, on_pinned, p, &e)) {
		log_line(LOG_WARN, "sandbox=%s its base is not pinned: %s", b->row.id, e.msg);
		free(p);
		b->row.base_pin = PIN_FAILED;
	}
}

static void on_time(struct timer *t)
{
	struct box *b = container_of(t, struct box, pin_timer);
	if (b->row.base_pin == PIN_PINNING && source_is(b->row.repo, b->row.base_dev, b->row.base_ino))
		start(b);
}

void pin_begin(struct box *b)
{
	if (!b->row.repo || b->row.tree || b->row.base_pin == PIN_PINNED)
		return;
	b->row.base_pin = PIN_PINNING;
	b->pin_timer.fn = on_time;
	timer_set(b->g->loop, &b->pin_timer, PIN_AFTER_MS);
}

void pin_forget(struct box *b)
{
	timer_clear(b->g->loop, &b->pin_timer);
}

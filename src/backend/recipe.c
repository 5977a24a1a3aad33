// SPDX-License-Identifier: Apache-2.0
// Slots for kinds of sandboxes that have no mold: a root of their own, an image, sealed layers below, nested namespaces.
// A recipe is a kind that was started lately. It keeps one slot that is built ahead (cell/ahead.h), two when it was started
// more than once:
//
//   asked for ──M_SLOT──▶ told what to expect ──start of its kind──▶ the sandbox's cell
//       ▲                        │ shape learned anew, recipe forgotten: ended
//       └── 50 ms after a start ─┘
//
// A slot of a recipe serves one sandbox, whose spec has just the recipe's shape, or none. A stack of sealed layers is mostly
// somebody's own (a fork): its recipe gets slots when a second sandbox starts on it. Beside the recipes one cold slot for each
// profile waits for the starts that nothing was built for: its namespaces and its network are there. A fork that was just made
// takes that slot and has it built, before anybody starts the fork.
#include "backend/native_int.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/msg.h"
#include <stdlib.h>
#include <string.h>

#define RECIPES_MAX 6
#define RECIPE_SLOTS 2
#define RECIPE_KEEP_MS 120000 // after its last start
#define RECIPE_SOON_MS 50
#define RECIPE_AGAIN_MS 1000 // after one could not be made

struct recipe {
	struct recipe *next; // the one used last is the first
	struct native *n;
	struct buf kind;     // empty: cold slots
	struct buf shape;
	enum profile profile;
	bool stacked; // has sealed layers of its own
	bool named;   // its slots are for sandboxes that exist; none are asked for
	unsigned starts;
	uint64_t used_ms, rests_until_ms;
	struct cell *slots; // that wait
	int n_slots;
	uint32_t asked; // id of the M_WANT under way, 0 = none
};

// --- kinds ---

static size_t own_lowers(const struct cell_spec *s)
{
	return s->lowers ? strv_len(s->lowers) - s->n_base_lowers : 0;
}

// What is known of a sandbox before it has a name. Layers that belong to its base are not: they follow from it.
static void kind_write(struct buf *b, const struct cell_spec *s)
{
	wire_u8(b, s->profile);
	wire_u8(b, s->nested);
	wire_u8(b, s->trace_off);
	wire_u8(b, s->keep_tmp);
	wire_u8(b, s->strict);
	wire_str(b, s->base);
	wire_str(b, s->image);
	limits_write(b, &s->limits);
	for (size_t i = 0; i < own_lowers(s); i++)
		wire_str(b, s->lowers[i]);
}

bool recipe_is_default(const struct cell_spec *s)
{
	return s->profile == PROFILE_USER && !s->image && !s->nested && !own_lowers(s);
}

// What is hidden is judged when a cell starts: no slot brings that.
static bool recipe_may(const struct cell_spec *s)
{
	return !s->hide && !s->maintenance && !recipe_is_default(s);
}

static bool buf_equal(const struct buf *a, const struct buf *b)
{
	return a->n == b->n && (!a->p || !b->p || !memcmp(a->p, b->p, a->n));
}

static struct recipe *recipe_find(const struct native *n, const struct buf *kind, enum profile p)
{
	struct recipe *r = n->recipes;
	while (r && !(r->profile == p && buf_equal(&r->kind, kind)))
		r = r->next;
	return r;
}

static void recipe_set_shape(struct recipe *r, const struct buf *shape)
{
	if (buf_equal(&r->shape, shape))
		return;
	buf_clear(&r->shape);
	buf_add(&r->shape, shape->p, shape->n);
}

// --- life ---

static void recipe_end_slot(struct cell *c)
{
	recipe_forget(c);
	cell_bury(c);
}

static void recipe_end_slots(struct recipe *r)
{
	for (struct cell *c = r->slots, *next; c; c = next) {
		next = c->next;
		if (!c->promised)
			recipe_end_slot(c);
	}
}

// A slot that is promised lives on without its recipe: only its sandbox finds it.
static void recipe_free(struct recipe *r)
{
	list_unlink(&r->n->recipes, r, next);
	recipe_end_slots(r);
	for (struct cell *c = r->slots, *next; c; c = next) {
		next = c->next;
		recipe_end_slot(c);
	}
	buf_done(&r->kind);
	buf_done(&r->shape);
	free(r);
}

static bool recipe_is_busy(const struct recipe *r)
{
	for (const struct cell *c = r->slots; c; c = c->next)
		if (c->promised)
			return true;
	return false;
}

static void recipe_make_room(struct native *n)
{
	int count = 0;
	for (struct recipe *r = n->recipes, *next; r; r = next) {
		next = r->next;
		if (++count >= RECIPES_MAX && !recipe_is_busy(r))
			recipe_free(r);
	}
}

static struct recipe *recipe_touch(struct native *n, const struct buf *kind, enum profile p)
{
	struct recipe *r = recipe_find(n, kind, p);
	if (r) {
		list_unlink(&n->recipes, r, next);
	} else {
		recipe_make_room(n);
		r = xcalloc(1, sizeof *r);
		*r = (struct recipe){.n = n, .kind = BUF_INIT(FRAME_MAX), .shape = BUF_INIT(FRAME_MAX), .profile = p};
		buf_add(&r->kind, kind->p, kind->n);
	}
	r->next = n->recipes;
	n->recipes = r;
	r->starts++;
	r->used_ms = clock_ms();
	r->rests_until_ms = 0;
	if (!n->cook.at_ms || n->cook.at_ms > r->used_ms + RECIPE_SOON_MS)
		timer_set(n->loop, &n->cook, RECIPE_SOON_MS);
	return r;
}

void recipe_learn(struct native *n, const struct cell_spec *s)
{
	auto_buf struct buf kind = BUF_INIT(FRAME_MAX), shape = BUF_INIT(FRAME_MAX);
	kind_write(&kind, s);
	if (!recipe_may(s) || kind.overflow || !cell_spec_shape(&shape, s))
		return;
	struct recipe *r = recipe_touch(n, &kind, s->profile);
	r->stacked = own_lowers(s);
	if (r->shape.n && !buf_equal(&r->shape, &shape))
		recipe_end_slots(r);
	recipe_set_shape(r, &shape);
}

void recipe_learn_cold(struct native *n, enum profile p)
{
	static const struct buf none;
	recipe_touch(n, &none, p);
}

// --- slots are made ---

static int recipe_wanted(const struct recipe *r)
{
	if (r->named)
		return 0;
	if (!r->kind.n)
		return 1;
	if (r->stacked && r->starts < 2)
		return 0;
	return r->starts < 2 ? 1 : RECIPE_SLOTS;
}

static void recipe_ask(struct recipe *r)
{
	struct native *n = r->n;
	if (r->asked || r->n_slots >= recipe_wanted(r) || r->rests_until_ms > clock_ms())
		return;
	r->asked = ++n->last_id | FOR_RECIPE;
	pool_send_want(n, r->asked, r->profile, SLOT_COLD, NULL);
}

static struct recipe *recipe_asked(const struct native *n, uint32_t id)
{
	struct recipe *r = n->recipes;
	while (r && r->asked != id)
		r = r->next;
	return r;
}

// Making a slot takes the processor from cells that start.
static void recipe_on_cook(struct timer *t)
{
	struct native *n = container_of(t, struct native, cook);
	uint64_t now = clock_ms();
	if (!n->connected)
		return; // recipe_lost sets the timer
	if (n->waiting || (n->n_starting && now - n->taken_ms < RECIPE_AGAIN_MS)) {
		timer_set(n->loop, t, RECIPE_SOON_MS);
		return;
	}
	uint64_t oldest = now;
	for (struct recipe *r = n->recipes, *next; r; r = next) {
		next = r->next;
		if (now - r->used_ms >= RECIPE_KEEP_MS && !recipe_is_busy(r)) {
			recipe_free(r);
			continue;
		}
		oldest = r->used_ms < oldest ? r->used_ms : oldest;
		recipe_ask(r);
	}
	uint64_t left = oldest + RECIPE_KEEP_MS > now ? oldest + RECIPE_KEEP_MS - now : 0;
	if (n->recipes)
		timer_set(n->loop, t, left + RECIPE_AGAIN_MS);
}

static void recipe_put(struct recipe *r, struct cell *c)
{
	c->recipe = r;
	c->next = r->slots;
	r->slots = c;
	r->n_slots++;
}

static void recipe_expect(struct cell *c, const struct buf *shape)
{
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	wire_str(&b, c->lent.id);
	wire_str(&b, c->lent.machine_id);
	buf_add(&b, shape->p, shape->n);
	buf_add(&c->key, shape->p, shape->n);
	chan_send_buf(&c->ch, M_EXPECT, 0, &b);
}

static void recipe_lend(struct recipe *r, struct cell *c)
{
	const struct lender *l = &r->n->b.lender;
	if (!r->kind.n)
		return;
	if (l->lend && l->lend(l->ctx, &c->lent))
		recipe_expect(c, &r->shape);
	else
		recipe_end_slot(c);
}

void recipe_slot(struct native *n, struct frame *f)
{
	struct recipe *r = recipe_asked(n, f->id);
	struct err e;
	if (!r)
		return; // forgotten meanwhile: the slot ends with its descriptor
	r->asked = 0;
	struct cell *c = cell_new(n, CELL_WARM);
	if (cell_connect(c, take_fd(&f->fd), &e)) {
		log_line(LOG_WARN, "warm slot: %s", e.msg);
		cell_bury(c);
		return;
	}
	recipe_put(r, c);
	recipe_lend(r, c);
	timer_set(n->loop, &n->cook, RECIPE_SOON_MS);
}

void recipe_refused(struct native *n, uint32_t id, const struct err *e)
{
	struct recipe *r = recipe_asked(n, id);
	log_line(LOG_WARN, "no slot was built ahead: %s", e->msg);
	if (!r)
		return;
	r->asked = 0;
	r->rests_until_ms = clock_ms() + RECIPE_KEEP_MS; // or until somebody starts one himself
}

void recipe_lost(struct native *n)
{
	for (struct recipe *r = n->recipes; r; r = r->next)
		r->asked = 0;
	if (n->recipes)
		timer_set(n->loop, &n->cook, RECIPE_AGAIN_MS);
}

void recipe_forget(struct cell *c)
{
	struct recipe *r = c->recipe;
	if (!r)
		return;
	list_unlink(&r->slots, c, next);
	c->next = NULL;
	c->recipe = NULL;
	r->n_slots--;
}

// A slot that dies by itself will often be followed by others.
void recipe_slot_died(struct cell *c)
{
	if (c->recipe)
		c->recipe->rests_until_ms = clock_ms() + RECIPE_KEEP_MS;
}

// --- slots are used ---

struct cell *recipe_lent(const struct native *n, const char *id)
{
	for (const struct recipe *r = n->recipes; r; r = r->next)
		for (struct cell *c = r->slots; c; c = c->next)
			if (!strcmp(c->lent.id, id))
				return c;
	return NULL;
}

bool recipe_expects(struct native *n, const struct cell_spec *like, struct identity *out)
{
	auto_buf struct buf kind = BUF_INIT(FRAME_MAX);
	kind_write(&kind, like);
	struct recipe *r = kind.overflow ? NULL : recipe_find(n, &kind, like->profile);
	struct cell *c = r ? r->slots : NULL;
	while (c && c->promised)
		c = c->next;
	if (!c)
		return false;
	c->promised = true;
	*out = c->lent;
	return true;
}

struct cell *recipe_take(struct native *n, const struct cell_spec *s)
{
	auto_buf struct buf shape = BUF_INIT(FRAME_MAX);
	struct cell *c = recipe_may(s) && cell_spec_shape(&shape, s) ? recipe_lent(n, s->sandbox) : NULL;
	if (!c || !buf_equal(&c->key, &shape))
		return NULL;
	c->promised = true;
	recipe_forget(c);
	ahead_unlend(c);
	n->taken_ms = clock_ms();
	return c;
}

struct cell *recipe_take_cold(struct native *n, enum profile p)
{
	static const struct buf none;
	struct recipe *r = recipe_find(n, &none, p);
	struct cell *c = r ? r->slots : NULL;
	if (c)
		recipe_forget(c);
	n->taken_ms = clock_ms();
	return c;
}

static struct recipe *recipe_named(struct native *n)
{
	auto_buf struct buf kind = BUF_INIT(8);
	wire_u8(&kind, PROFILES); // no kind that is written begins like that
	struct recipe *r = recipe_touch(n, &kind, PROFILE_USER);
	r->named = true;
	return r;
}

void recipe_prepare(struct native *n, const struct cell_spec *s)
{
	auto_buf struct buf shape = BUF_INIT(FRAME_MAX);
	if (!recipe_may(s) || !cell_spec_shape(&shape, s))
		return;
	struct cell *c = recipe_take_cold(n, s->profile);
	recipe_learn_cold(n, s->profile); // one more, or the first
	if (!c)
		return;
	struct recipe *r = recipe_named(n);
	if (r->n_slots >= RECIPE_SLOTS) {
		struct cell *oldest = r->slots;
		while (oldest->next)
			oldest = oldest->next;
		recipe_end_slot(oldest);
	}
	memcpy(c->lent.id, s->sandbox, sizeof c->lent.id);
	memcpy(c->lent.machine_id, s->machine_id, sizeof c->lent.machine_id);
	c->named = true;
	recipe_put(r, c);
	recipe_expect(c, &shape);
}

void recipes_open(struct native *n)
{
	n->cook.fn = recipe_on_cook;
}

void recipes_close(struct native *n)
{
	timer_clear(n->loop, &n->cook);
	while (n->recipes)
		recipe_free(n->recipes);
}

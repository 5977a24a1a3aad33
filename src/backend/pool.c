// SPDX-License-Identifier: Apache-2.0
// Warm slots, and starts that wait for one. A slot taken is asked for again soon; the pool grows while creates outrun it and
// shrinks when they stop.
#include "backend/native_int.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/msg.h"
#include <string.h>
#include <unistd.h>

#define REFILL_PAUSE_MS 1000
#define SHRINK_MS 30000
#define SOON_MS 10 // without a create
#define BATCH 4	    // slots asked for at once
#define BURST_MS 100 // a pause in which nobody asks ends a burst
#define HANGS_MS 1000 // a start that is not through by then
#define PLENTY 8 // slots, or a third of those we want: then the cells that end need not hurry to be one again
#define QUICK_MS 16 // in which several cells came back: more than could be made

static void list_add(struct cell **list, struct cell *c)
{
	while (*list)
		list = &(*list)->next;
	c->next = NULL;
	*list = c;
}

static bool list_del(struct cell **list, struct cell *c)
{
	for (; *list; list = &(*list)->next)
		if (*list == c) {
			*list = c->next;
			return true;
		}
	return false;
}

void pool_forget(struct native *n, struct cell *c)
{
	recipe_forget(c);
	if (list_del(&n->warm, c))
		n->n_warm--;
	if (list_del(&n->tired, c))
		n->n_tired--;
	list_del(&n->waiting, c);
}

void pool_send_want(struct native *n, uint32_t id, enum profile p, uint8_t kind, const struct buf *key)
{
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	wire_u8(&b, p);
	wire_u8(&b, kind);
	if (key)
		buf_add(&b, key->p, key->n);
	chan_send_buf(&n->ch, M_WANT, id, &b);
}

static bool same_key(const struct buf *a, const struct buf *b)
{
	return a->n == b->n && (!a->n || !memcmp(a->p, b->p, a->n));
}

bool pool_fits(const struct native *n, const struct cell *c)
{
	return same_key(&c->key, &n->key);
}

static int n_fitting(const struct native *n)
{
	int k = 0;
	for (const struct cell *c = n->warm; c; c = c->next)
		k += !c->promised && pool_fits(n, c);
	return k;
}

bool pool_abounds(const struct native *n)
{
	return n_fitting(n) >= (n->want / 3 < PLENTY ? n->want / 3 : PLENTY);
}

// A slot costs several times what it costs to use a cell again: while those come back, making slots would only hold them up.
static bool come_quickly(const struct native *n)
{
	return n->n_came >= countof(n->came_ms) && clock_ms() - n->came_ms[n->n_came % countof(n->came_ms)] < QUICK_MS;
}

// As many slots are made at once as there are processors; a cell that ends meanwhile is one sooner.
static bool is_served(const struct native *n, const struct cell *c)
{
	return c->warm_ok && (n->n_wanted + n->n_starting >= n->processors || (same_key(&c->key, &n->key) && come_quickly(n)));
}

// at_least: for so many in any case.
static void ask(struct native *n, int at_least)
{
	for (struct cell *c = n->connected ? n->waiting : NULL; c; c = c->next) {
		if (c->want_id || (is_served(n, c) && at_least-- <= 0))
			continue;
		c->want_id = ++n->last_id;
		n->n_wanted++;
		pool_send_want(n, c->want_id, c->profile, c->warm_ok ? SLOT_WARM : SLOT_COLD, c->warm_ok ? &c->key : NULL);
	}
}

void pool_ask(struct native *n)
{
	ask(n, 0);
}

// --- cells that ended while slots abounded: they are left alone until there is time, or need ---

void pool_rest(struct native *n, struct cell *c)
{
	cell_enter(c, CELL_TIRED);
	list_add(&n->tired, c);
	n->n_tired++;
}

static bool wake_one(struct native *n)
{
	struct cell *c = n->tired;
	if (!c)
		return false;
	pool_forget(n, c);
	cell_enter(c, CELL_RESTING);
	chan_send(&c->ch, M_WAKE, 0, 0, NULL, 0);
	return true;
}

void pool_aim(struct native *n, const struct buf *key)
{
	if (same_key(&n->key, key))
		return;
	buf_clear(&n->key);
	buf_add(&n->key, key->p, key->n);
	n->n_asked = n->n_came = 0; // what is on its way was meant for another place
	int left = n_fitting(n);    // from when it was the place
	n->want = left > WARM_MIN ? left : WARM_MIN;
	ahead_unlearn(n);
}

// Slots for other places stay while there is room: two projects may take turns.
static void make_room(struct native *n)
{
	for (struct cell *c = n->warm, *next; c && n->n_warm >= WARM_MAX; c = next) {
		next = c->next;
		if (c->promised || pool_fits(n, c))
			continue;
		pool_forget(n, c);
		cell_bury(c);
	}
}

static int n_missing(const struct native *n)
{
	return n->want - n_fitting(n) - n->n_tired - n->n_asked;
}

static void ask_for_pool(struct native *n, int k)
{
	if (!n->connected || n->refill.at_ms)
		return;
	for (int missing = n_missing(n); missing > 0 && k > 0; missing--, k--, n->n_asked++)
		pool_send_want(n, ++n->last_id | FOR_POOL, PROFILE_USER, SLOT_WARM, &n->key);
}

void pool_refill(struct native *n)
{
	ask_for_pool(n, BATCH);
	if (n->connected && !n->refill.at_ms && n_missing(n) > 0) // the rest when these are there
		timer_set(n->loop, &n->soon, SOON_MS);
}

// Making slots takes processor time that the cells just started want for themselves: the pool is filled again when
// creates pause, when it is empty, and from what ended cells leave.
void pool_refill_soon(struct native *n)
{
	if (!n->waiting || !n->soon.at_ms) // who waits is looked after, however many come behind
		timer_set(n->loop, &n->soon, SOON_MS);
}

// Enough for the place where sandboxes are made: those for no place in particular wait for nobody.
static void drop_plain(struct native *n)
{
	for (struct cell *c = n->warm, *next; c && n->key.n && n_missing(n) <= 0; c = next) {
		next = c->next;
		if (c->key.n || c->promised)
			continue;
		pool_forget(n, c);
		cell_bury(c);
	}
}

void pool_back(struct native *n)
{
	if (!n->waiting && !n->refill.at_ms && n_missing(n) > 0)
		pool_send_want(n, 0, PROFILE_USER, SLOT_FROM_MOLD, &n->key);
}

static void on_soon(struct timer *t)
{
	struct native *n = container_of(t, struct native, soon);
	ask(n, clock_ms() - n->given_ms >= SOON_MS); // those that start may hang
	if (n->waiting || (n->n_starting && clock_ms() - n->taken_ms < HANGS_MS)) { // no pause: it is that the processors are busy
		timer_set(n->loop, t, SOON_MS);
		return;
	}
	ahead_offer_all(n);
	pool_refill(n);
	drop_plain(n);
	for (int k = 0; k < BATCH && wake_one(n); k++)
		;
	if (n->tired)
		timer_set(n->loop, t, SOON_MS);
}

// One that dies by itself will often be followed by others: no hurry to ask for the next.
void pool_slot_died(struct native *n, struct cell *c)
{
	recipe_slot_died(c);
	pool_forget(n, c);
	if (n->connected && !n->refill.at_ms)
		timer_set(n->loop, &n->refill, REFILL_PAUSE_MS);
}

static void on_refill(struct timer *t)
{
	pool_refill(container_of(t, struct native, refill));
}

static void on_shrink(struct timer *t)
{
	struct native *n = container_of(t, struct native, shrink);
	n->want = WARM_MIN;
	for (struct cell *c = n->warm, *next; c && n->n_warm > n->want; c = next) {
		next = c->next;
		if (c->promised)
			continue;
		pool_forget(n, c);
		cell_bury(c); // a slot ends with its channel
	}
	while (n->tired && n->n_warm + n->n_tired > n->want) {
		struct cell *c = n->tired;
		pool_forget(n, c);
		cell_bury(c);
	}
}

// To as many as were wanted at once, or in one go: those that end meanwhile can rest then.
static void grow(struct native *n, bool waits)
{
	int want = n->burst;
	for (const struct cell *c = n->waiting; c && waits; c = c->next)
		want++;
	want += WARM_MIN + waits;
	if (want > n->want)
		n->want = want < WARM_MAX ? want : WARM_MAX;
}

// Best one that was built for it; then one that was built for nobody.
static struct cell *best_warm(struct native *n, const char *id, const struct buf *key, bool exact)
{
	struct cell *best = ahead_find(n, id);
	if (best && same_key(&best->key, key))
		return best;
	best = NULL;
	for (struct cell *c = n->warm; c; c = c->next) {
		bool fits = same_key(&c->key, key) || (!exact && !c->key.n); // made for no place in particular
		if (fits && !c->promised && (!best || (best->lent.id[0] && !c->lent.id[0]) || (!best->key.n && c->key.n)))
			best = c;
	}
	return best;
}

struct cell *pool_take(struct native *n, const char *id, const struct buf *key, bool exact)
{
	struct cell *c = best_warm(n, id, key, exact);
	if (c) {
		pool_forget(n, c);
		c->promised |= !strcmp(c->lent.id, id);
		ahead_unlend(c);
	}
	uint64_t now = clock_ms();
	n->burst = now - n->taken_ms > BURST_MS ? 0 : n->burst + (n->waiting || n->n_starting);
	n->taken_ms = now;
	if (!c || (n->burst > PLENTY && !pool_abounds(n)))
		grow(n, !c);
	if (n->want > WARM_MIN)
		timer_set(n->loop, &n->shrink, SHRINK_MS);
	return c;
}

void pool_want(struct native *n, struct cell *c)
{
	c->want_id = 0;
	list_add(&n->waiting, c);
	if (c->warm_ok) {
		wake_one(n); // the first to come is taken
		pool_refill_soon(n);
	}
	pool_ask(n); // or when the nursery is back
	int idle = n->processors - n->n_wanted - n->n_starting;
	if (c->warm_ok && !come_quickly(n)) // they stay: whoever comes next would wait as well
		ask_for_pool(n, idle < BATCH ? idle : BATCH);
}

void pool_fail(struct native *n, const struct err *e, bool pool_only)
{
	for (struct cell *c = n->waiting, *next; c; c = next) {
		next = c->next;
		if (pool_only && !c->warm_ok)
			continue;
		list_del(&n->waiting, c);
		cell_fail_later(c, e);
	}
}

static struct cell *waiting_with(struct native *n, uint32_t id)
{
	for (struct cell *c = n->waiting; c; c = c->next)
		if (id && c->want_id == id)
			return c;
	return NULL;
}

// A slot for a waiting start. When the slot is dead already the start waits for another one.
static void give(struct native *n, struct cell *c, int fd)
{
	struct err e;
	list_del(&n->waiting, c);
	n->given_ms = clock_ms();
	if (cell_connect(c, fd, &e)) {
		cell_fail_later(c, &e);
		return;
	}
	if (!cell_begin(c)) {
		chan_close(&c->ch);
		cell_enter(c, CELL_WAITING);
		pool_want(n, c);
	}
}

static void answered(struct native *n, uint32_t id)
{
	int *count = id & FOR_POOL ? &n->n_asked : &n->n_wanted;
	if (id && *count)
		--*count;
	pool_ask(n);
}

// To whoever waits for just such a one; the nursery's answer to that request then fills the pool.
static void put(struct native *n, struct cell *c)
{
	pool_forget(n, c); // it may have woken by itself
	struct cell *first = n->waiting;
	while (first && !(first->warm_ok && same_key(&first->key, &c->key)))
		first = first->next;
	if (first) {
		loop_del(n->loop, &c->ch.w);
		int fd = take_fd(&c->ch.fd);
		cell_bury(c);
		first->pooled = true; // it may have died meanwhile
		give(n, first, fd);
		return;
	}
	make_room(n);
	if (n->n_warm >= WARM_MAX) {
		cell_bury(c);
		return;
	}
	cell_enter(c, CELL_WARM);
	list_add(&n->warm, c);
	ahead_offer(n, c);
	if (++n->n_warm > n->want)
		timer_set(n->loop, &n->shrink, SHRINK_MS);
}

void pool_again(struct native *n, struct cell *c)
{
	if (pool_fits(n, c))
		n->came_ms[n->n_came++ % countof(n->came_ms)] = clock_ms();
	put(n, c);
}

void pool_slot(struct native *n, struct frame *f)
{
	struct err e;
	if (f->id & FOR_RECIPE && !(f->id & FOR_POOL)) {
		recipe_slot(n, f);
		return;
	}
	struct cell *c = waiting_with(n, f->id);
	answered(n, f->id);
	if (c) {
		give(n, c, take_fd(&f->fd));
		return;
	}
	c = cell_new(n, CELL_WARM);
	if (f->n > 1)
		buf_add(&c->key, f->p + 1, f->n - 1);
	if (cell_connect(c, take_fd(&f->fd), &e)) {
		log_line(LOG_WARN, "warm slot: %s", e.msg);
		cell_bury(c);
		return;
	}
	put(n, c);
}

void pool_refused(struct native *n, const struct frame *f, const struct err *e)
{
	if (f->id & FOR_RECIPE && !(f->id & FOR_POOL)) {
		recipe_refused(n, f->id, e);
		return;
	}
	struct cell *c = waiting_with(n, f->id);
	answered(n, f->id);
	if (c) {
		list_del(&n->waiting, c);
		cell_fail_later(c, e);
		return;
	}
	if (!(f->id & FOR_POOL))
		return; // who asked has got another
	log_line(LOG_WARN, "no warm slot: %s", e->msg);
	pool_fail(n, e, true);
	timer_set(n->loop, &n->refill, REFILL_PAUSE_MS);
}

void pool_lost(struct native *n)
{
	n->n_asked = n->n_wanted = 0;
	recipe_lost(n);
	for (struct cell *c = n->waiting; c; c = c->next)
		c->want_id = 0;
}

void pool_open(struct native *n)
{
	n->want = WARM_MIN;
	n->processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
	n->key = BUF_INIT(FRAME_MAX);
	n->shape = BUF_INIT(FRAME_MAX);
	recipes_open(n);
	n->refill.fn = on_refill;
	n->soon.fn = on_soon;
	n->shrink.fn = on_shrink;
}

void pool_close(struct native *n)
{
	recipes_close(n);
	timer_clear(n->loop, &n->refill);
	timer_clear(n->loop, &n->soon);
	timer_clear(n->loop, &n->shrink);
	buf_done(&n->key);
	buf_done(&n->shape);
}

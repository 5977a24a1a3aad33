// SPDX-License-Identifier: Apache-2.0
// How a sandbox ends by itself. A live cell keeps its own time (it may outlive us); here is what is left to do when it has
// ended or never ran, and what moves the time: leases, which begin anew with every use, and pins, which stop it. Work that
// nobody has looked at is never removed: its sandbox stays, stopped, and says why.
#include "engine/engine_int.h"

#include "base/clock.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define AGAIN_MS 1000	      // a busy one is looked at again
#define FAR_MS (86400 * 1000ULL) // timers count in one piece no further

static bool is_timed(const struct box *b)
{
	return b->row.expires && !b->row.pinned && !b->cell && !b->expired && b->row.state != STATE_DELETING;
}

static void say(struct box *b, const char *reason)
{
	if (b->row.reason && !strcmp(b->row.reason, reason))
		return;
	free(b->row.reason);
	b->row.reason = xstrdup(reason);
	auto_buf struct buf body = BUF_INIT(4096);
	struct jsonw w = {.b = &body};
	jw_kstr(&w, "limit", b->row.lease ? "lease" : "ttl");
	jw_kstr(&w, "message", reason);
	record_by(b, "skepd", "limit.hit", body.overflow ? "" : buf_cstr(&body));
	box_save(b);
}

// The sandbox is gone, or there is a reason why it is not.
static void on_expired(void *ctx, const struct err *e, const struct outcome *o)
{
	struct box *b = ctx;
	(void)o;
	if (!e || e->kind == ERR_NOT_FOUND)
		return;
	auto_free char *why = b->row.pending > 0
				      ? xasprintf("expired and kept: %lld change%s nobody has reviewed (skep rm --force removes it)",
						  (long long)b->row.pending, b->row.pending == 1 ? "" : "s")
				      : xasprintf("expired and kept: %s", e->msg);
	say(b, why);
}

static void expire(struct box *b)
{
	b->expired = true;
	if (b->row.on_expiry == EXPIRY_DELETE)
		task_submit(task_new(b, TASK_REMOVE, (struct done){on_expired, b}));
	else if (b->row.state == STATE_STOPPED && !b->row.reason)
		say(b, "expired");
}

static void on_time(struct timer *t)
{
	struct engine *g = container_of(t, struct engine, expiry);
	uint64_t now = clock_unix_ms();
	for (struct box *b = g->boxes, *next; b; b = next) {
		next = b->next;
		if (is_timed(b) && !b->holder && b->row.expires <= now)
			expire(b);
	}
	expiry_arm(g);
}

void expiry_arm(struct engine *g)
{
	uint64_t now = clock_unix_ms(), first = FAR_MS;
	bool any = false;
	for (struct box *b = g->boxes; b; b = b->next) {
		if (!is_timed(b))
			continue;
		uint64_t in = b->row.expires > now ? b->row.expires - now : b->holder ? AGAIN_MS : 0;
		first = in < first ? in : first;
		any = true;
	}
	g->expiry.fn = on_time;
	if (any)
		timer_set(g->loop, &g->expiry, first);
	else
		timer_clear(g->loop, &g->expiry);
}

static void tell_cell(struct box *b)
{
	if (b->up && !b->maintenance)
		b->g->backend->ops->limits(b->cell, &b->row.limits, b->row.pinned ? 0 : b->row.expires, b->row.idle_ms, (struct reply){NULL, NULL});
}

void expiry_lift(struct box *b)
{
	char when[32];
	if (!b->row.expires || b->row.expires > clock_unix_ms())
		return;
	clock_iso(b->row.expires, when);
	auto_free char *body = xasprintf("\"expires\":null,\"expired\":\"%s\"", when);
	b->row.expires = 0;
	b->expired = false;
	record(b, "sandbox.policy", body);
	box_save(b);
}

// Told to the cell only when it gains something worth a message.
void lease_renew(struct box *b)
{
	uint64_t until = clock_unix_ms() + b->row.ttl_ms;
	if (!b->row.lease || !b->row.ttl_ms || b->row.state == STATE_DELETING || until - b->row.expires < b->row.ttl_ms / 16)
		return;
	b->row.expires = until;
	b->expired = false;
	box_save(b);
	tell_cell(b);
	if (!b->cell)
		expiry_arm(b->g);
}

int engine_expire(struct engine *g, const char *id, uint64_t at, struct err *e)
{
	struct box *b = box_find(g, id, e);
	if (!b)
		return -1;
	b->row.expires = at;
	b->expired = false;
	box_save(b);
	tell_cell(b);
	expiry_arm(g);
	return 0;
}

void engine_pin(struct engine *g, const char *id, bool on, struct done d)
{
	struct err e;
	struct box *b = box_find(g, id, &e);
	if (!b) {
		task_refuse(d, &e);
		return;
	}
	if (b->row.pinned != on) {
		b->row.pinned = on;
		b->expired = false;
		record(b, "sandbox.policy", on ? "\"pinned\":true" : "\"pinned\":false");
		box_save(b);
		engine_flush(g);
		tell_cell(b);
		expiry_arm(g);
	}
	d.fn(d.ctx, NULL, &(struct outcome){.sandbox = &b->row});
}

// SPDX-License-Identifier: Apache-2.0
#include "api/refused.h"

#include "api/auth.h"
#include "base/clock.h"
#include "base/jsonw.h"
#include "base/loop.h"
#include "base/mem.h"
#include "engine/access.h"
#include <string.h>

#define KINDS 64       // that are told apart; what comes beyond is one more
#define WINDOW_MS 60000
#define PATH_MAX_SHOWN 200

struct kind {
	int status;
	char surface[16], who[44], peer[PEER_TEXT], why[160], path[PATH_MAX_SHOWN + 1];
	uint64_t count; // since it was last written
	uint64_t from, to; // of these, Unix ms
};

static struct {
	struct loop *loop;
	struct engine *engine;
	struct timer window;
	struct kind kinds[KINDS + 1];
	int n;
} all; // one server in a process

static void write_kind(struct kind *k)
{
	auto_buf struct buf b = BUF_INIT(8192);
	struct jsonw w = {.b = &b};
	if (!k->count)
		return;
	jw_ku64(&w, "status", (uint64_t)k->status);
	jw_kstr(&w, "surface", k->surface);
	jw_kstr(&w, "token", k->who[0] ? k->who : NULL);
	jw_kstr(&w, "peer", k->peer);
	jw_kstr(&w, "why", k->why);
	jw_kstr(&w, "path", k->path);
	jw_ku64(&w, "count", k->count);
	jw_ktime(&w, "from", k->from);
	jw_ktime(&w, "to", k->to);
	k->count = 0;
	struct actor was = engine_act(all.engine, (struct actor){0});
	engine_service_record(all.engine, "api.refused", b.overflow ? "" : buf_cstr(&b));
	engine_act(all.engine, was);
}

void refused_flush(void)
{
	for (int i = 0; i < all.n; i++)
		write_kind(&all.kinds[i]);
}

// Kinds that went on keep their place, so that a flood is one event a minute.
static void on_window(struct timer *t)
{
	int kept = 0;
	for (int i = 0; i < all.n; i++) {
		bool goes_on = all.kinds[i].count;
		write_kind(&all.kinds[i]);
		if (goes_on)
			all.kinds[kept++] = all.kinds[i];
	}
	all.n = kept;
	if (all.n)
		timer_set(all.loop, t, WINDOW_MS);
}

void refused_done(void)
{
	refused_flush();
	if (all.loop)
		timer_clear(all.loop, &all.window);
	all.n = 0;
}

// Cut where it is too long.
static void put(char *out, size_t size, const char *p, size_t n)
{
	n = n < size ? n : size - 1;
	memcpy(out, p, n);
	out[n] = 0;
}

static struct kind describe(const struct refusal *r)
{
	struct kind k = {.status = r->status};
	put(k.surface, sizeof k.surface, r->surface, strlen(r->surface));
	put(k.who, sizeof k.who, r->who, strlen(r->who));
	put(k.why, sizeof k.why, r->why, strlen(r->why));
	const char *query = r->path.n ? memchr(r->path.p, '?', r->path.n) : NULL;
	put(k.path, sizeof k.path, r->path.n ? r->path.p : "", query ? (size_t)(query - r->path.p) : r->path.n);
	peer_text(r->peer, k.peer);
	return k;
}

static bool is_like(const struct kind *a, const struct kind *b)
{
	return a->status == b->status && !strcmp(a->surface, b->surface) && !strcmp(a->who, b->who) && !strcmp(a->peer, b->peer) &&
	       !strcmp(a->why, b->why);
}

void refused(struct loop *l, struct engine *g, const struct refusal *r)
{
	struct kind k = describe(r), *at = all.kinds;
	k.from = k.to = clock_unix_ms();
	all.loop = l;
	all.engine = g;
	all.window.fn = on_window;
	while (at < all.kinds + all.n && at < all.kinds + KINDS && !is_like(at, &k))
		at++;
	bool first = at == all.kinds + all.n;
	if (first && all.n == KINDS) { // the one that stands for all others
		put(k.why, sizeof k.why, "many kinds of refusals", 22);
		k.who[0] = k.path[0] = k.peer[0] = 0;
	}
	if (first) {
		*at = k;
		all.n++;
	}
	if (!at->count)
		at->from = k.from;
	at->to = k.to;
	at->count++;
	if (first)
		write_kind(at);
	if (!all.window.at_ms)
		timer_set(l, &all.window, WINDOW_MS);
}

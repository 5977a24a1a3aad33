// SPDX-License-Identifier: Apache-2.0
// Boxes that are reached by traffic: who may, what the inside sees as its host, and waking one that is paused.
#include "api/e2b_int.h"
#include "api/preview.h"

#include "base/log.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define RESUME_MIN_MS 300000

struct awake {
	void (*fn)(void *ctx, struct e2b_box *b);
	void *ctx;
};

static void on_awake(void *ctx, const struct err *e, struct e2b_box *b)
{
	struct awake *a = ctx;
	if (e)
		log_line(LOG_WARN, "resumed by traffic: %s", e->msg);
	a->fn(a->ctx, e ? NULL : b);
	free(a);
}

void e2b_awake(struct engine *g, const char *id, void (*fn)(void *ctx, struct e2b_box *b), void *ctx)
{
	struct e2b_box *b = e2b_box_get(g, id);
	if (!b || e2b_is_running(g, b) || !b->auto_resume || b->no_memory) {
		fn(ctx, b && e2b_is_running(g, b) ? b : NULL);
		return;
	}
	struct awake *a = xcalloc(1, sizeof *a);
	*a = (struct awake){fn, ctx};
	e2b_resume(g, b, b->timeout_ms > RESUME_MIN_MS ? b->timeout_ms : RESUME_MIN_MS, (struct e2b_done){on_awake, a});
}

// --- its ports ---

static enum preview_verdict judge(void *ctx, const struct sandbox *s, uint16_t port, const char *traffic_token)
{
	const struct e2b_box *b = e2b_box_find(s->id);
	(void)ctx, (void)port;
	if (!b)
		return PREVIEW_ASK;
	if (!*b->traffic)
		return PREVIEW_OPEN;
	return traffic_token && strlen(traffic_token) == KEY_SIZE - 1 && key_equal(traffic_token, b->traffic) ? PREVIEW_OPEN : PREVIEW_CLOSED;
}

static bool is_e2b(void *ctx, const struct sandbox *s)
{
	(void)ctx;
	return !s || e2b_box_find(s->id);
}

static char *host_of(void *ctx, const struct sandbox *s, uint16_t port)
{
	const struct e2b_box *b = e2b_box_find(s->id);
	(void)ctx;
	return b && b->mask_host ? e2b_mask_of(b->mask_host, port) : NULL;
}

struct waking {
	void (*fn)(void *ctx, bool runs);
	void *ctx;
};

static void on_woken(void *ctx, struct e2b_box *b)
{
	struct waking *w = ctx;
	w->fn(w->ctx, b != NULL);
	free(w);
}

static void wake(void *ctx, const char *sandbox, void (*fn)(void *ctx, bool runs), void *fn_ctx)
{
	(void)ctx;
	if (!e2b_box_find(sandbox)) {
		fn(fn_ctx, true);
		return;
	}
	struct waking *w = xcalloc(1, sizeof *w);
	*w = (struct waking){fn, fn_ctx};
	e2b_awake(e2b_engine(), sandbox, on_woken, w);
}

const struct preview_policy e2b_preview = {.judge = judge, .is_e2b = is_e2b, .host_of = host_of, .wake = wake};

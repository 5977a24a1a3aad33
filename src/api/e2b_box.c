// SPDX-License-Identifier: Apache-2.0
// Boxes: what E2B knows of a sandbox. A note of the engine for each, and this list of them in memory.
//
// E2B has two states: running and paused. A sandbox that is stopped for any reason but its time being over is paused to E2B
// (its files are there, its processes are not); one whose time is over is killed, which here means removed.
#include "api/e2b_metrics.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define KIND "e2b"

static struct {
	struct loop *loop;
	struct engine *engine;
	struct e2b_box *boxes; // newest first
	struct e2b_stream *streams;
	struct engine_listener listener;
	struct chore reap;
	struct timer due;
} self;

struct loop *e2b_loop(void)
{
	return self.loop;
}

struct engine *e2b_engine(void)
{
	return self.engine;
}

// --- keeping ---

void e2b_box_save(struct engine *g, const struct e2b_box *b)
{
	struct err e;
	auto_buf struct buf text = BUF_INIT(2 * LIMIT_REQUEST_BODY);
	e2b_note_print(&text, b);
	if (engine_note_set(g, KIND, b->id, buf_cstr(&text), &e))
		log_line(LOG_ERROR, "sandbox=%s %s", b->id, e.msg);
}

static void arm(void);

int e2b_box_add(struct engine *g, struct e2b_box *b, struct err *e)
{
	auto_buf struct buf text = BUF_INIT(2 * LIMIT_REQUEST_BODY);
	e2b_note_print(&text, b);
	if (engine_note_set(g, KIND, b->id, buf_cstr(&text), e) || engine_notes_sync(g, e)) {
		e2b_box_free(b);
		return -1;
	}
	b->next = self.boxes;
	self.boxes = b;
	arm();
	return 0;
}

// --- finding ---

const struct sandbox *e2b_row(struct engine *g, const struct e2b_box *b)
{
	struct err e;
	const struct sandbox *s = engine_get(g, b->id, &e);
	return s && s->state != STATE_DELETING ? s : NULL;
}

// Its time is over and it was not to be kept.
static bool is_over(const struct e2b_box *b, const struct sandbox *s)
{
	bool down = s->state == STATE_STOPPED || s->state == STATE_FAILED;
	return b->killed || (!b->auto_pause && down && b->ends && b->ends <= clock_unix_ms());
}

static struct e2b_box *find(const char *id, size_t n)
{
	for (struct e2b_box *b = self.boxes; b; b = b->next)
		if (strlen(b->id) == n && !memcmp(b->id, id, n))
			return b;
	return NULL;
}

struct e2b_box *e2b_box_find(const char *sandbox)
{
	return find(sandbox, strlen(sandbox));
}

struct e2b_box *e2b_box_get(struct engine *g, const char *id)
{
	struct e2b_box *b = find(id, strcspn(id, "-"));
	const struct sandbox *s = b ? e2b_row(g, b) : NULL;
	return s && !is_over(b, s) ? b : NULL;
}

struct e2b_box *e2b_boxes(struct engine *g)
{
	(void)g;
	return self.boxes;
}

bool e2b_is_running(struct engine *g, const struct e2b_box *b)
{
	const struct sandbox *s = e2b_row(g, b);
	return s && !b->killed && (s->state == STATE_RUNNING || (b->held && s->state == STATE_STOPPED));
}

// --- streams ---

void e2b_stream_add(struct e2b_stream *s, const char *sandbox)
{
	memset(s->sandbox, 0, sizeof s->sandbox);
	memcpy(s->sandbox, sandbox, strnlen(sandbox, ID_SIZE - 1));
	s->next = self.streams;
	self.streams = s;
}

void e2b_stream_del(struct e2b_stream *s)
{
	list_unlink(&self.streams, s, next);
}

// From the start each time: what is cut may take others along.
void e2b_cut(const char *sandbox)
{
	for (struct e2b_stream *s = self.streams; s;) {
		if (strcmp(s->sandbox, sandbox)) {
			s = s->next;
			continue;
		}
		e2b_stream_del(s);
		s->cut(s);
		s = self.streams;
	}
}

// --- what the engine tells ---

static void free_box(void *b)
{
	e2b_box_free(b);
}

static void forget(struct e2b_box *b)
{
	struct err e;
	if (engine_note_drop(self.engine, KIND, b->id, &e))
		log_line(LOG_ERROR, "sandbox=%s %s", b->id, e.msg);
	list_unlink(&self.boxes, b, next);
	loop_bury(self.loop, b, free_box);
}

static void on_state(struct engine_listener *l, const struct sandbox *s, bool gone)
{
	struct e2b_box *b = e2b_box_find(s->id);
	(void)l;
	if (!b)
		return;
	if (!gone && b->held && s->state == STATE_STOPPED)
		return;
	if (gone || s->state != STATE_RUNNING)
		e2b_cut(b->id);
	if (gone) {
		forget(b);
		return;
	}
	uint64_t paused = s->state == STATE_RUNNING ? 0 : b->paused ? b->paused : clock_unix_ms();
	if (paused != b->paused) {
		b->paused = paused;
		e2b_box_save(self.engine, b);
	}
	loop_soon(self.loop, &self.reap);
}

// --- a moment without a cell ---

struct holding {
	char id[ID_SIZE];
	struct err why;
	bool failed;
	void (*fn)(void *ctx, const struct err *e);
	void *ctx;
};

static void on_released(void *ctx, const struct err *e, const struct outcome *o)
{
	struct holding *h = ctx;
	struct e2b_box *b = e2b_box_find(h->id);
	(void)o;
	if (b)
		b->held--;
	h->fn(h->ctx, h->failed ? &h->why : e);
	free(h);
}

// A snapshot of a sandbox in which nothing runs ends its cell: to E2B it went on running, so there is a new one.
void e2b_release(struct engine *g, const char *id, const struct err *why, void (*fn)(void *ctx, const struct err *e), void *ctx)
{
	struct holding *h = xcalloc(1, sizeof *h);
	*h = (struct holding){.fn = fn, .ctx = ctx, .failed = why != NULL};
	if (why)
		h->why = *why;
	memcpy(h->id, id, strnlen(id, ID_SIZE - 1));
	engine_start(g, h->id, (struct done){on_released, h});
}

// --- its end ---

struct kill {
	char id[ID_SIZE];
	struct done done;
};

static void on_killed(void *ctx, const struct err *e, const struct outcome *o)
{
	struct kill *k = ctx;
	struct e2b_box *b = e2b_box_find(k->id);
	if (e && b) // it could not be removed: it is there again
		b->killed = false;
	k->done.fn(k->done.ctx, e, o);
	free(k);
}

// Nobody finds it any more, then its streams end, then it goes.
void e2b_kill(struct engine *g, struct e2b_box *b, struct done d)
{
	struct kill *k = xcalloc(1, sizeof *k);
	k->done = d;
	memcpy(k->id, b->id, sizeof k->id);
	b->killed = true;
	e2b_cut(k->id);
	engine_remove(g, k->id, true, (struct done){on_killed, k});
}

static void on_ended(void *ctx, const struct err *e, const struct outcome *o)
{
	(void)ctx, (void)o;
	if (e && e->kind != ERR_NOT_FOUND)
		log_line(LOG_WARN, "an E2B sandbox whose time is over: %s", e->msg);
}

void e2b_pause(struct engine *g, struct e2b_box *b, bool memory, struct done d)
{
	b->no_memory = !memory;
	e2b_box_save(g, b);
	if (memory)
		engine_pause(g, b->id, true, d);
	else
		engine_stop(g, b->id, d);
}

static void arm(void)
{
	uint64_t now = clock_unix_ms(), first = 0;
	for (struct e2b_box *b = self.boxes; b; b = b->next)
		if (b->ends && !b->killed && e2b_is_running(self.engine, b) && (!first || b->ends < first))
			first = b->ends;
	if (first)
		timer_set(self.loop, &self.due, first > now ? (first - now < 86400000 ? first - now : 86400000) : 0);
	else
		timer_clear(self.loop, &self.due);
}

int e2b_end_set(struct engine *g, struct e2b_box *b, uint64_t ends, struct err *e)
{
	if (engine_expire(g, b->id, ends ? ends + E2B_GRACE_MS : 0, e))
		return -1;
	b->ends = ends;
	e2b_box_save(g, b);
	arm();
	return 0;
}

// What is done to one may take it out of the list.
static void end_all(void)
{
	char **kill = NULL, **pause = NULL;
	uint64_t now = clock_unix_ms();
	struct err ignored;
	for (struct e2b_box *b = self.boxes; b; b = b->next) {
		const struct sandbox *s = e2b_row(self.engine, b);
		bool due = s && s->state == STATE_RUNNING && b->ends && b->ends <= now;
		if (s && !b->killed && (is_over(b, s) || (due && !b->auto_pause)))
			strv_add(&kill, b->id);
		else if (due && !b->killed)
			strv_add(&pause, b->id);
	}
	for (char **id = kill; id && *id; id++)
		e2b_kill(self.engine, e2b_box_find(*id), (struct done){on_ended, NULL});
	for (char **id = pause; id && *id; id++) {
		struct e2b_box *b = e2b_box_find(*id);
		if (b && !e2b_end_set(self.engine, b, 0, &ignored))
			e2b_pause(self.engine, b, !b->drops_memory, (struct done){on_ended, NULL});
	}
	strv_free(kill);
	strv_free(pause);
	arm();
}

static void reap(struct chore *c)
{
	(void)c;
	end_all();
}

static void on_due(struct timer *t)
{
	(void)t;
	end_all();
}

// --- running again ---

struct resume {
	struct engine *g;
	char id[ID_SIZE];
	struct e2b_done done;
};

static void on_resumed(void *ctx, const struct err *e, const struct outcome *o)
{
	struct resume *r = ctx;
	struct e2b_box *b = e2b_box_find(r->id);
	struct err gone;
	(void)o;
	if (!b)
		err_set(&gone, ERR_NOT_FOUND, "sandbox %s was killed", r->id);
	r->done.fn(r->done.ctx, b ? e : &gone, e ? NULL : b);
	free(r);
}

void e2b_resume(struct engine *g, struct e2b_box *b, uint64_t timeout_ms, struct e2b_done d)
{
	struct err e;
	const struct sandbox *s = e2b_row(g, b);
	if (!s || e2b_end_set(g, b, timeout_ms ? clock_unix_ms() + timeout_ms : 0, &e)) {
		if (!s)
			err_set(&e, ERR_NOT_FOUND, "sandbox %s was killed", b->id);
		d.fn(d.ctx, &e, NULL);
		return;
	}
	struct resume *r = xcalloc(1, sizeof *r);
	*r = (struct resume){.g = g, .done = d};
	memcpy(r->id, b->id, sizeof r->id);
	b->no_memory = false;
	if (s->state == STATE_PAUSED)
		engine_pause(g, r->id, false, (struct done){on_resumed, r});
	else
		engine_start(g, r->id, (struct done){on_resumed, r});
}

// --- the whole ---

static void load(void *ctx, const char *key, const char *text)
{
	char ***lost = ctx;
	struct e2b_box *b = e2b_note_read(key, text);
	if (b && e2b_row(self.engine, b)) {
		b->next = self.boxes;
		self.boxes = b;
		return;
	}
	strv_add(lost, key); // removed without us, or changed by somebody else
	e2b_box_free(b);
}

int e2b_start(struct loop *l, struct engine *g, struct err *e)
{
	char **lost = NULL;
	self.loop = l;
	self.engine = g;
	self.reap.fn = reap;
	self.due.fn = on_due;
	self.listener.fn = on_state;
	int rc = engine_notes(g, KIND, load, &lost, e);
	for (char **k = lost; k && *k && !rc; k++)
		rc = engine_note_drop(g, KIND, *k, e);
	strv_free(lost);
	if (rc || e2b_templates_load(g, e))
		return -1;
	engine_listen(g, &self.listener);
	loop_soon(l, &self.reap);
	return 0;
}

void e2b_stop(void)
{
	timer_clear(self.loop, &self.due);
	loop_forget(self.loop, &self.reap);
	while (self.boxes) {
		struct e2b_box *b = self.boxes;
		self.boxes = b->next;
		e2b_box_free(b);
	}
	e2b_templates_free();
	e2b_uploads_free();
	e2b_metrics_free();
}

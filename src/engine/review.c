// SPDX-License-Identifier: Apache-2.0
// Reviews: the order of their steps, of which skep-review, or a job inside, does each. One at a time per sandbox.
//
//   begin -> settle what an earlier apply left half done -> base pinned -> job `collect` -> skep-review VERB (which reads the
//   job, then judges) -> dismiss only: job `restore`, fed by skep-review put -> answer
//
// A review ends with its client, at its time limit, and when its sandbox is removed by force: what runs for it gets SIGTERM,
// which skep-review ignores while it changes names on the host. An apply or undo that was ended is settled before the next
// review of the sandbox, or its removal, goes on.
#include "engine/review_int.h"

#include "base/fs.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/child.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUT_MAX (256u << 20)
#define REQUEST_MAX (64u << 20)
#define NEEDS_ALL 75 // exit status of skep-review: a part was collected, and can not be judged without the rest

static const char *const verb_names[] = {"diff", "apply", "dismiss", "undo", "export"};

void review_want_done(struct review_want *w)
{
	char **lists[] = {w->paths, w->paths_b64, w->hunks, w->accept, w->accept_b64, w->edits};
	char *texts[] = {w->format, w->conflicts, w->digest, w->to, w->author, w->email, w->subject, w->message, w->branch};
	for (size_t i = 0; i < countof(lists); i++)
		strv_free(lists[i]);
	for (size_t i = 0; i < countof(texts); i++)
		free(texts[i]);
	*w = (struct review_want){0};
}

static void review_drop(struct review *r)
{
	list_unlink(&r->g->reviews, r, next);
	review_want_done(&r->want);
	buf_done(&r->out);
	free(r->ref);
	free(r);
}

static void begin(struct review *r);
static void ready_begin(struct engine *g);
static struct review *review_new(struct box *b, enum review_verb verb);
static bool intent_exists(const struct engine *g, const char *box);

static bool box_has_review(const struct engine *g, const char *box)
{
	for (const struct review *r = g->reviews; r; r = r->next)
		if (!strcmp(r->box, box))
			return true;
	return false;
}

static void waits_end(struct engine *g, const char *box)
{
	for (struct review_wait **p = &g->review_waits, *w; (w = *p);) {
		if (strcmp(w->box, box)) {
			p = &w->next;
			continue;
		}
		*p = w->next;
		w->then(w->ctx);
		free(w);
		p = &g->review_waits; // the call may have changed the list
	}
}

struct recount {
	struct engine *g;
	char box[ID_SIZE];
};

static void on_dropped(void *ctx, const struct err *e)
{
	(void)ctx;
	(void)e; // it has ended by itself
}

// What was begun for a review that ended early: nobody reads it, and its cell would wait for somebody who does.
static void job_drop(struct review *r)
{
	struct box *b = box_by_id(r->g, r->box);
	if (*r->job && b && b->cell && b->up)
		b->g->backend->ops->kill(b->cell, r->job, SIGKILL, (struct reply){on_dropped, NULL});
}

static void job_note(struct review *r, const struct outcome *o)
{
	if (!o || !o->exec_id || strlen(o->exec_id) >= sizeof r->job)
		return;
	memcpy(r->job, o->exec_id, strlen(o->exec_id) + 1);
}

static void on_counting(void *ctx, const struct err *e, const struct outcome *o)
{
	struct recount *c = ctx;
	struct box *b = box_by_id(c->g, c->box);
	if (!e && o && o->exec_id && b && b->cell)
		b->g->backend->ops->kill(b->cell, o->exec_id, SIGKILL, (struct reply){on_dropped, NULL});
	free(c);
}

// What is pending of a sandbox without a cell is counted by a cell that comes and goes; what an apply left was not yet.
static void recount(struct box *b)
{
	struct exec_request x = {.job = true};
	struct recount *c = xcalloc(1, sizeof *c);
	if (b->cell && !b->maintenance) {
		free(c);
		return; // it counts by itself
	}
	c->g = b->g;
	memcpy(c->box, b->row.id, sizeof c->box);
	strv_add(&x.argv, "kind");
	strv_add(&x.argv, "/");
	engine_exec(b->g, b->row.id, &x, (struct done){on_counting, c});
}

// The next one of the same sandbox: one at a time, in the order they came.
static void finish(struct review *r, const struct err *e)
{
	struct engine *g = r->g;
	char box[ID_SIZE];
	bool counts = r->changed;
	memcpy(box, r->box, sizeof box);
	timer_clear(g->loop, &r->late);
	if (r->cancelled) {
		e = &r->why;
		job_drop(r);
	}
	if (r->done.fn)
		r->done.fn(r->done.ctx, e, e ? NULL : &r->out);
	if (!e)
		ready_begin(g);
	review_drop(r);
	struct review *waits = NULL;
	for (struct review *n = g->reviews; n; n = n->next) {
		if (strcmp(n->box, box))
			continue;
		if (n->running)
			return;
		if (!waits)
			waits = n;
	}
	struct box *b = counts && !waits ? box_by_id(g, box) : NULL;
	if (b)
		recount(b);
	if (waits)
		begin(waits);
	else
		waits_end(g, box);
}

static struct box *box_of(struct review *r, struct err *e)
{
	struct box *b = box_by_id(r->g, r->box);
	if (!b)
		err_set(e, ERR_NOT_FOUND, "sandbox %s was removed", r->box);
	return b;
}

static void base_changed(struct box *b, const char *after)
{
	if (!*after)
		return;
	free(b->row.pin);
	b->row.pin = xstrdup(after);
	b->row.pending = -1;
	box_save(b);
	if (b->cell && b->g->backend->ops->refresh)
		b->g->backend->ops->refresh(b->cell);
}

static void take_base(struct box *b, const json_t *last)
{
	const json_t *result = last ? json_object_get(last, "result") : NULL;
	base_changed(b, result ? json_str(result, "base_after") : "");
}

// DISMISS is the stream of a dismissal, and DISMISS.back of one that undoes it; of the last one that was done only that stays,
// until it was used or something was applied.
#define DISMISS "dismiss"
#define DISMISSED "dismissed"

static void dismissal_end(struct review *r, bool done)
{
	auto_free char *out = xasprintf("%s/" DISMISS, r->box), *back = xasprintf("%s.back", out), *kept = xasprintf("%s/" DISMISSED, r->box);
	int at = r->g->sandboxes;
	bool undo = r->want.verb == REVIEW_UNDO;
	unlinkat(at, out, 0);
	if (done && undo)
		unlinkat(at, kept, 0);
	else if (!undo && (!done || renameat(at, back, at, kept)))
		unlinkat(at, back, 0);
}

static bool dismissal_exists(const struct review *r)
{
	auto_free char *kept = xasprintf("%s/" DISMISSED, r->box);
	return fs_exists(r->g->sandboxes, kept);
}

static void on_put(void *ctx, const struct child_end *end)
{
	struct review *r = ctx;
	r->child = NULL;
	struct err e;
	auto_json json_t *answer = child_json(end, "skep-review", &e);
	struct box *b = box_by_id(r->g, r->box);
	if (b)
		dismissal_end(r, answer != NULL);
	if (answer && r->want.verb == REVIEW_UNDO)
		buf_str(&r->out, "{\"result\":{\"steps\":0,\"undone\":\"dismiss\"}}\n");
	if (answer && b) {
		review_note(r, b, NULL);
		b->row.pending = -1;
		r->changed = true;
		box_save(b);
	}
	finish(r, answer ? NULL : &e);
}

// --- one that is ready ---

// After a review the next skep-review is started ahead: to load it and its libraries takes longer than a small diff.
#define READY_MS 60000 // then it goes

static void on_ready_ended(void *ctx, const struct child_end *end)
{
	struct engine *g = ctx;
	(void)end;
	if (g->review_ready && !child_waits(g->review_ready)) // else it is another one that ended
		g->review_ready = NULL;
}

static void on_ready_late(struct timer *t)
{
	struct engine *g = container_of(t, struct engine, review_idle);
	struct child *c = take(&g->review_ready);
	if (c)
		child_dismiss(c);
}

static void ready_begin(struct engine *g)
{
	struct err e;
	char a0[] = "skep-review", a1[] = "wait", *argv[] = {a0, a1, NULL};
	struct child_spec spec = {.program = "skep-review", .argv = argv, .out_max = OUT_MAX, .want_err = true, .waits = true};
	g->review_idle.fn = on_ready_late;
	timer_set(g->loop, &g->review_idle, READY_MS);
	if (!g->review_ready)
		g->review_ready = child_start(g, &spec, on_ready_ended, g, &e);
}

// The verb in a line of its own, and the request. NULL: there is none that is ready.
static struct child *ready_take(struct review *r, const char *verb, const struct buf *request, void (*ended)(void *, const struct child_end *))
{
	struct child *c = take(&r->g->review_ready);
	auto_buf struct buf in = BUF_INIT(REQUEST_MAX);
	if (!c)
		return NULL;
	buf_fmt(&in, "%s\n", verb);
	buf_add(&in, request->p, request->n);
	if (!child_feed(c, &in, ended, r))
		return c;
	child_dismiss(c);
	return NULL;
}

static int spawn(struct review *r, char *const *argv, const struct buf *in, void (*ended)(void *, const struct child_end *), struct err *e)
{
	struct child_spec spec = {.program = "skep-review", .argv = argv, .out_max = OUT_MAX, .in = in, .want_err = true};
	bool asks = in && !argv[2]; // a ready one knows verbs with a request, none with words of its own
	r->child = asks ? ready_take(r, argv[1], in, ended) : NULL;
	if (!r->child)
		r->child = child_start(r->g, &spec, ended, r, e);
	return r->child ? 0 : -1;
}

// The job reads what skep-review wrote, and puts each content back whose expectation still holds.
static void on_restore(void *ctx, const struct err *e, const struct outcome *o)
{
	struct review *r = ctx;
	struct err why;
	auto_free char *from = review_path(r, r->want.verb == REVIEW_UNDO ? DISMISSED : DISMISS), *sock = engine_socket(r->g, r->box), *ticket = o && o->ticket ? xstrdup(o->ticket) : NULL;
	char a0[] = "skep-review", a1[] = "put", a2[] = "--socket", a4[] = "--from";
	char *argv[] = {a0, a1, a2, sock, a4, from, NULL};
	auto_buf struct buf in = BUF_INIT(KEY_SIZE); // the ticket: a command line can be read by every user of this machine
	buf_str(&in, ticket ? ticket : "");
	job_note(r, o);
	if (!e && !r->cancelled && (!ticket || spawn(r, argv, &in, on_put, &why))) {
		e = &why;
		if (!ticket)
			err_set(&why, ERR_BUG, "a job without a ticket");
	}
	if (e || r->cancelled)
		finish(r, e);
}

static void job(struct review *r, const char *name, const char *arg, bool in, void (*then)(void *, const struct err *, const struct outcome *))
{
	struct exec_request x = {.job = true, .want_stdin = in};
	strv_add(&x.argv, name);
	if (arg)
		strv_add(&x.argv, arg);
	engine_exec(r->g, r->box, &x, (struct done){then, r});
}

static void collect_begin(struct review *r);
static void settle(struct review *r, void (*then)(struct review *r));

// Ended in the middle of something that writes: what is half done is settled first.
static void finish_settled(struct review *r)
{
	finish(r, NULL);
}

static bool writes_host(const struct review *r)
{
	return r->want.verb == REVIEW_APPLY || r->want.verb == REVIEW_UNDO;
}

static void on_judged(void *ctx, const struct child_end *end)
{
	struct review *r = ctx;
	struct err e;
	r->child = NULL;
	if (r->cancelled && end->status && writes_host(r)) {
		settle(r, finish_settled);
		return;
	}
	if (!r->cancelled && WIFEXITED(end->status) && WEXITSTATUS(end->status) == NEEDS_ALL && !r->all) {
		r->all = true;
		collect_begin(r);
		return;
	}
	bool json = r->want.verb != REVIEW_EXPORT && !(r->want.verb == REVIEW_DIFF && r->want.format && strcmp(r->want.format, "json"));
	auto_json json_t *last = json || end->status ? child_json(end, "skep-review", &e) : NULL;
	struct box *b = box_by_id(r->g, r->box);
	if ((json && !last) || end->status || !b) {
		if (!b)
			err_set(&e, ERR_NOT_FOUND, "sandbox %s was removed", r->box);
		finish(r, &e);
		return;
	}
	if (writes_host(r))
		r->cancelled = false; // it was too late: all of it is done
	buf_add(&r->out, end->out->p, end->out->n);
	if (r->want.verb == REVIEW_DISMISS && !r->cancelled) {
		job(r, "restore", b->row.ws_path, true, on_restore);
		return;
	}
	take_base(b, last);
	r->changed = writes_host(r) && !r->want.to;
	if (r->want.verb == REVIEW_APPLY && !r->want.to) {
		auto_free char *kept = xasprintf("%s/" DISMISSED, r->box);
		unlinkat(r->g->sandboxes, kept, 0); // undo takes the last one back
	}
	if (r->want.verb == REVIEW_DIFF)
		review_scope_note(r, last);
	review_note(r, b, last);
	finish(r, NULL);
}

static void judge(struct review *r, const char *ticket)
{
	struct err e;
	struct box *b = box_of(r, &e);
	auto_buf struct buf in = BUF_INIT(REQUEST_MAX);
	auto_free char *verb = xstrdup(verb_names[r->want.verb]);
	char a0[] = "skep-review", *argv[] = {a0, verb, NULL};
	if (b)
		review_request(r, &b->row, ticket, &in);
	if (!b || spawn(r, argv, &in, on_judged, &e))
		finish(r, &e);
}

static void on_job(void *ctx, const struct err *e, const struct outcome *o)
{
	struct review *r = ctx;
	struct err why;
	auto_free char *ticket = o && o->ticket ? xstrdup(o->ticket) : NULL;
	if (!e && !ticket)
		e = err_set(&why, ERR_BUG, "a job without a ticket") ? &why : NULL;
	job_note(r, o);
	if (e || r->cancelled)
		finish(r, e);
	else
		judge(r, ticket);
}

static void collect_begin(struct review *r)
{
	job(r, "collect", NULL, true, on_job);
}

static void on_pinned(void *ctx, const struct err *e)
{
	struct review *r = ctx;
	if (e || r->cancelled)
		finish(r, e);
	else if (r->want.verb == REVIEW_UNDO)
		judge(r, NULL);
	else
		collect_begin(r);
}

static void on_exported(void *ctx, const struct child_end *end)
{
	struct review *r = ctx;
	r->child = NULL;
	struct err e;
	struct box *b = box_by_id(r->g, r->box);
	auto_json json_t *last = r->want.branch || end->status ? child_json(end, "skep-review", &e) : NULL;
	bool ok = !end->status && (last || r->want.bundle);
	if (ok) {
		buf_add(&r->out, end->out->p, end->out->n);
		if (b)
			review_note(r, b, last);
	}
	finish(r, ok ? NULL : &e);
}

static const char *head_of(const struct sandbox *s)
{
	return s->head && strlen(s->head) == 40 ? s->head : NULL;
}

// What is in the directory's own repository need not come along.
static const char *base_commit(const struct sandbox *s)
{
	return s->repo ? head_of(s) : NULL;
}

// What the sandbox may hold, and some history that it only borrows. The git that writes is its own, and could go on for ever.
static uint64_t bundle_most(const struct sandbox *s)
{
	uint64_t most = s->limits.disk * 4;
	return most && most < LIMIT_BUNDLE ? LIMIT_BUNDLE : most;
}

// The exec inside writes the bundle; skep-review reads it there, and trusts none of it.
static void on_bundling(void *ctx, const struct err *e, const struct outcome *o)
{
	struct review *r = ctx;
	struct err why;
	struct box *b = box_of(r, &why);
	auto_free char *work = review_path(r, "export"), *sock = engine_socket(r->g, r->box);
	auto_free char *ticket = o && o->ticket ? xstrdup(o->ticket) : NULL;
	char a0[] = "skep-review", a1[] = "bundle", a2[] = "--socket", a4[] = "--work", a6[] = "--ref", dir[] = "--dir",
	     branch[] = "--branch", base[] = "--base", most[] = "--most";
	auto_free char *bytes = xasprintf("%llu", (unsigned long long)(b ? bundle_most(&b->row) : 0));
	char *argv[] = {a0, a1, a2, sock, a4, work, a6, r->ref, most, bytes, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
	size_t n = 10;
	auto_buf struct buf in = BUF_INIT(KEY_SIZE);
	buf_str(&in, ticket ? ticket : "");
	auto_free char *commit = b && base_commit(&b->row) ? xstrdup(base_commit(&b->row)) : NULL;
	if (b && b->row.repo)
		argv[n++] = dir, argv[n++] = b->row.repo;
	if (r->want.branch)
		argv[n++] = branch, argv[n++] = r->want.branch;
	if (commit)
		argv[n++] = base, argv[n++] = commit;
	if (!e && b && !ticket)
		err_set(&why, ERR_BUG, "an exec without a ticket");
	job_note(r, o);
	if (!r->cancelled && !e && (!b || !ticket || spawn(r, argv, &in, on_exported, &why)))
		e = &why;
	if (e || r->cancelled)
		finish(r, e);
}

static void export_begin(struct review *r, struct box *b)
{
	struct exec_request x = {0};
	r->ref = export_ref();
	export_command(&x, r->ref, head_of(&b->row), base_commit(&b->row), r->want.subject, r->want.bundle);
	engine_exec(r->g, r->box, &x, (struct done){on_bundling, r});
}

static void steps_begin(struct review *r)
{
	struct err e;
	struct box *b = box_of(r, &e);
	if (!b || r->cancelled)
		finish(r, &e);
	else if (r->want.branch || r->want.bundle)
		export_begin(r, b);
	else if (r->want.verb == REVIEW_UNDO && dismissal_exists(r))
		job(r, "restore", b->row.ws_path, true, on_restore);
	else if (r->want.verb == REVIEW_UNDO && b->row.base_pin != PIN_INHERITED)
		judge(r, NULL);
	else
		pin_wait(b, on_pinned, r);
}

static void on_late(struct timer *t)
{
	struct review *r = container_of(t, struct review, late);
	struct err e;
	err_set(&e, ERR_LIMIT, "the review took longer than %llu s and was ended: name the paths that you want, or set review_seconds in config.yaml",
		(unsigned long long)r->limits.seconds);
	review_cancel(r, &e);
}

static void begin(struct review *r)
{
	struct err e;
	r->running = true;
	if (config_review(r->g, &r->limits, &e)) {
		finish(r, &e);
		return;
	}
	r->late.fn = on_late;
	timer_set(r->g->loop, &r->late, r->limits.seconds * 1000);
	settle(r, steps_begin);
}

// --- ending one ---

void review_cancel(struct review *r, const struct err *e)
{
	if (r->cancelled)
		return;
	r->cancelled = true;
	r->why = *e;
	if (!r->running)
		finish(r, e);
	else if (r->child)
		child_term(r->child);
	// else a step answers, and then it ends
}

void engine_review_cancel(struct engine *g, uint64_t number)
{
	struct err e;
	err_set(&e, ERR_CONFLICT, "the client of the review has gone");
	for (struct review *r = g->reviews; r; r = r->next)
		if (r->number == number) {
			review_cancel(r, &e);
			return;
		}
}

void review_cancel_all(struct engine *g, const char *box, bool force)
{
	struct err e;
	err_set(&e, ERR_CONFLICT, "sandbox %s is being removed", box);
	for (struct review *r = g->reviews, *next; r; r = next) {
		next = r->next;
		bool only_reads = r->want.verb == REVIEW_DIFF || r->want.verb == REVIEW_EXPORT;
		if (!strcmp(r->box, box) && (force || only_reads) && r->running)
			review_cancel(r, &e);
	}
	// Those that wait come last: each end begins the next one.
	for (struct review *r = g->reviews; r;) {
		bool waits = !strcmp(r->box, box) && !r->running && !r->cancelled && force;
		if (waits)
			review_cancel(r, &e);
		r = waits ? g->reviews : r->next;
	}
}

static bool intent_exists(const struct engine *g, const char *box)
{
	auto_free char *intent = xasprintf("%s/apply/intent", box);
	return fs_exists(g->sandboxes, intent);
}

bool review_end(struct box *b, bool force, void (*then)(void *ctx), void *ctx)
{
	struct engine *g = b->g;
	review_cancel_all(g, b->row.id, force);
	if (!box_has_review(g, b->row.id) && !intent_exists(g, b->row.id))
		return false;
	struct review_wait *w = xcalloc(1, sizeof *w);
	*w = (struct review_wait){.then = then, .ctx = ctx, .next = g->review_waits};
	memcpy(w->box, b->row.id, sizeof w->box);
	g->review_waits = w;
	if (!box_has_review(g, b->row.id)) {
		struct review *r = review_new(b, REVIEW_UNDO);
		r->running = true;
		settle(r, finish_settled);
	}
	return true;
}

static int check(const struct box *b, const struct review_want *w, struct err *e)
{
	bool lands = w->verb == REVIEW_APPLY && !w->to;
	if (lands && !b->row.repo)
		return err_set(e, ERR_INVALID, "sandbox %s has no directory on this machine: say where to with --to DIR, or use skep export", b->row.id);
	if (w->branch && !b->row.repo)
		return err_set(e, ERR_INVALID, "sandbox %s has no repository on this machine: use skep export --bundle FILE", b->row.id);
	return w->to && w->to[0] != '/' ? err_set(e, ERR_INVALID, "\"to\" must be an absolute path") : 0;
}

static struct review *review_new(struct box *b, enum review_verb verb)
{
	static uint64_t numbers;
	struct review *r = xcalloc(1, sizeof *r), **p = &b->g->reviews;
	*r = (struct review){.g = b->g, .want.verb = verb, .actor = b->g->actor, .out = BUF_INIT(OUT_MAX), .number = ++numbers};
	memcpy(r->box, b->row.id, sizeof r->box);
	while (*p)
		p = &(*p)->next;
	*p = r;
	return r;
}

uint64_t engine_review(struct engine *g, const char *id, struct review_want *w, struct review_done d)
{
	struct err e;
	struct box *b = box_find(g, id, &e);
	if (!b || check(b, w, &e)) {
		review_want_done(w);
		d.fn(d.ctx, &e, NULL);
		return 0;
	}
	bool busy = box_has_review(g, b->row.id);
	struct review *r = review_new(b, w->verb);
	uint64_t number = r->number;
	r->want = *w;
	r->done = d;
	*w = (struct review_want){0};
	if (!busy)
		begin(r);
	for (r = g->reviews; r && r->number != number;)
		r = r->next;
	return r ? number : 0;
}

// --- after a crash ---

static void on_settled(void *ctx, const struct child_end *end)
{
	struct review *r = ctx;
	struct err e;
	auto_json json_t *answer = child_json(end, "skep-review", &e);
	struct box *b = box_by_id(r->g, r->box);
	r->child = NULL;
	if (!answer)
		log_line(LOG_ERROR, "sandbox=%s an apply that was under way could not be settled: %s", r->box, e.msg);
	else if (strcmp(json_str(answer, "recovered"), "nothing"))
		log_line(LOG_INFO, "sandbox=%s an apply that was under way was %s", r->box, json_str(answer, "recovered"));
	if (answer && b)
		base_changed(b, json_str(answer, "base_after"));
	r->settled(r);
}

// Finishes or takes back what an earlier apply left half done.
static void settle(struct review *r, void (*then)(struct review *r))
{
	struct err e;
	struct box *b = box_by_id(r->g, r->box);
	if (!b || !intent_exists(r->g, r->box)) {
		then(r);
		return;
	}
	auto_buf struct buf in = BUF_INIT(REQUEST_MAX);
	char a0[] = "skep-review", a1[] = "recover", *argv[] = {a0, a1, NULL};
	r->settled = then;
	review_request(r, &b->row, NULL, &in);
	if (!spawn(r, argv, &in, on_settled, &e))
		return;
	log_line(LOG_ERROR, "sandbox=%s %s", r->box, e.msg);
	then(r);
}

static void outlived_recover(struct engine *g);

void review_recover(struct engine *g)
{
	for (struct box *b = g->boxes; b; b = b->next) {
		if (!intent_exists(g, b->row.id))
			continue;
		struct review *r = review_new(b, REVIEW_UNDO);
		r->running = true;
		settle(r, finish_settled);
	}
	outlived_recover(g);
}

// --- an intent log that outlives its sandbox ---

// Removed by force while what an apply left half done could not be settled: its log, and the objects of its shadow, move to
// SKEP_HOME/unsettled/ID, and the next daemons try again. A shadow that others inherit stays where they look for it.
#define UNSETTLED "unsettled"

bool review_outlives(struct box *b, bool inherited)
{
	struct err e;
	int home = b->g->home_fd;
	auto_free char *intent = xasprintf("journals/%s/apply/intent", b->row.id), *to = xasprintf(UNSETTLED "/%s", b->row.id);
	auto_free char *log = xasprintf("journals/%s/apply", b->row.id), *shadow = xasprintf("journals/%s/shadow.git", b->row.id);
	auto_free char *to_log = xasprintf("%s/apply", to), *to_shadow = xasprintf("%s/shadow.git", to);
	if (!fs_exists(home, intent))
		return false;
	if (fs_mkdirs(home, to, 0700, &e) || (!inherited && renameat(home, shadow, home, to_shadow)) || renameat(home, log, home, to_log)) {
		log_line(LOG_ERROR, "sandbox=%s was removed with an apply half done, and its log can not be moved: it stays with the journal", b->row.id);
		return true;
	}
	log_line(LOG_ERROR, "sandbox=%s was removed with an apply half done: %s is kept until that can be settled", b->row.id, to);
	return true;
}

struct outlived {
	struct engine *g;
	char id[ID_SIZE];
};

static void on_outlived(void *ctx, const struct child_end *end)
{
	struct outlived *o = ctx;
	struct err e;
	auto_json json_t *answer = child_json(end, "skep-review", &e);
	auto_free char *dir = xasprintf(UNSETTLED "/%s", o->id);
	char *dirs[] = {dir, NULL};
	if (!answer) {
		log_line(LOG_ERROR, "sandbox=%s was removed, and its half done apply could not be settled: %s", o->id, e.msg);
		free(o);
		return;
	}
	log_line(LOG_INFO, "sandbox=%s was removed; its half done apply was %s", o->id, json_str(answer, "recovered"));
	engine_discard_unmade(o->g, dirs); // nobody names it
	free(o);
}

static void outlived_settle(struct engine *g, const char *id)
{
	struct err e;
	auto_buf struct buf in = BUF_INIT(REQUEST_MAX);
	auto_free char *own = xasprintf(UNSETTLED "/%s/shadow.git", id), *log = xasprintf("%s/" UNSETTLED "/%s/apply", g->skep_home, id);
	auto_free char *shadow = fs_exists(g->home_fd, own) ? xasprintf("%s/%s", g->skep_home, own) : xasprintf("%s/journals/%s/shadow.git", g->skep_home, id);
	struct jsonw w = {.b = &in};
	jw_open(&w, '{');
	jw_kstr(&w, "shadow", shadow);
	jw_kstr(&w, "log", log);
	jw_close(&w, '}');
	struct outlived *o = xcalloc(1, sizeof *o);
	o->g = g;
	memcpy(o->id, id, strlen(id) + 1);
	char a0[] = "skep-review", a1[] = "recover", *argv[] = {a0, a1, NULL};
	struct child_spec spec = {.program = "skep-review", .argv = argv, .out_max = 1 << 20, .in = &in, .want_err = true};
	if (child_start(g, &spec, on_outlived, o, &e))
		return;
	log_line(LOG_ERROR, "sandbox=%s %s", id, e.msg);
	free(o);
}

static void outlived_recover(struct engine *g)
{
	int fd = openat(g->home_fd, UNSETTLED, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	while (d && (ent = readdir(d)))
		if (id_is(ent->d_name) && strlen(ent->d_name) < ID_SIZE)
			outlived_settle(g, ent->d_name);
	if (d)
		closedir(d);
	else
		close_fd(&fd);
}

void review_free(struct engine *g)
{
	while (g->reviews) {
		timer_clear(g->loop, &g->reviews->late);
		review_drop(g->reviews);
	}
	timer_clear(g->loop, &g->review_idle);
	review_scopes_free(g);
	while (g->review_waits) {
		struct review_wait *w = g->review_waits;
		g->review_waits = w->next;
		free(w);
	}
}

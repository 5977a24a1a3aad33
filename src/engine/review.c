// SPDX-License-Identifier: Apache-2.0
// Reviews: the order of their steps, of which skep-review, or a job inside, does each. One at a time per sandbox.
#include "engine/review_int.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/child.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUT_MAX (256u << 20)
#define REQUEST_MAX (64u << 20)

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

// The next one of the same sandbox: one at a time, in the order they came.
static void finish(struct review *r, const struct err *e)
{
	struct engine *g = r->g;
	char box[ID_SIZE];
	memcpy(box, r->box, sizeof box);
	if (r->done.fn)
		r->done.fn(r->done.ctx, e, e ? NULL : &r->out);
	review_drop(r);
	for (struct review *n = g->reviews; n; n = n->next)
		if (!strcmp(n->box, box) && !n->running) {
			begin(n);
			return;
		}
}

static struct box *box_of(struct review *r, struct err *e)
{
	struct box *b = box_by_id(r->g, r->box);
	if (!b)
		err_set(e, ERR_NOT_FOUND, "sandbox %s was removed", r->box);
	return b;
}

static void take_base(struct box *b, const json_t *last)
{
	const json_t *result = last ? json_object_get(last, "result") : NULL;
	const char *after = result ? json_str(result, "base_after") : "";
	if (!*after)
		return;
	free(b->row.pin);
	b->row.pin = xstrdup(after);
	b->row.pending = -1;
	box_save(b);
}

static void on_put(void *ctx, const struct child_end *end)
{
	struct review *r = ctx;
	struct err e;
	auto_json json_t *answer = child_json(end, "skep-review", &e);
	auto_free char *out = xasprintf("%s/dismiss", r->box);
	struct box *b = box_by_id(r->g, r->box);
	unlinkat(r->g->sandboxes, out, 0);
	if (answer && b) {
		review_note(r, b, NULL);
		b->row.pending = -1;
		box_save(b);
	}
	finish(r, answer ? NULL : &e);
}

static int spawn(struct review *r, char *const *argv, const struct buf *in, void (*ended)(void *, const struct child_end *), struct err *e)
{
	struct child_spec spec = {.program = "skep-review", .argv = argv, .out_max = OUT_MAX, .in = in, .want_err = true};
	return child_start(r->g, &spec, ended, r, e) ? 0 : -1;
}

// The job reads what skep-review wrote, and puts each content back whose expectation still holds.
static void on_restore(void *ctx, const struct err *e, const struct outcome *o)
{
	struct review *r = ctx;
	struct err why;
	auto_free char *from = review_path(r, "dismiss"), *sock = engine_socket(r->g, r->box), *ticket = o && o->ticket ? xstrdup(o->ticket) : NULL;
	char a0[] = "skep-review", a1[] = "put", a2[] = "--socket", a4[] = "--ticket", a6[] = "--from";
	char *argv[] = {a0, a1, a2, sock, a4, ticket, a6, from, NULL};
	if (!e && (!ticket || spawn(r, argv, NULL, on_put, &why))) {
		e = &why;
		if (!ticket)
			err_set(&why, ERR_BUG, "a job without a ticket");
	}
	if (e)
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

static void on_judged(void *ctx, const struct child_end *end)
{
	struct review *r = ctx;
	struct err e;
	bool json = r->want.verb != REVIEW_EXPORT && !(r->want.verb == REVIEW_DIFF && r->want.format && strcmp(r->want.format, "json"));
	auto_json json_t *last = json || end->status ? child_json(end, "skep-review", &e) : NULL;
	struct box *b = box_by_id(r->g, r->box);
	if ((json && !last) || end->status || !b) {
		if (!b)
			err_set(&e, ERR_NOT_FOUND, "sandbox %s was removed", r->box);
		finish(r, &e);
		return;
	}
	buf_add(&r->out, end->out->p, end->out->n);
	if (r->want.verb == REVIEW_DISMISS) {
		job(r, "restore", b->row.ws_path, true, on_restore);
		return;
	}
	take_base(b, last);
	review_note(r, b, last);
	finish(r, NULL);
}

static void judge(struct review *r)
{
	struct err e;
	struct box *b = box_of(r, &e);
	auto_buf struct buf in = BUF_INIT(REQUEST_MAX);
	auto_free char *verb = xstrdup(verb_names[r->want.verb]);
	char a0[] = "skep-review", *argv[] = {a0, verb, NULL};
	if (b)
		review_request(r, &b->row, &in);
	if (!b || spawn(r, argv, &in, on_judged, &e))
		finish(r, &e);
}

static void on_collected(void *ctx, const struct child_end *end)
{
	struct review *r = ctx;
	struct err e;
	auto_json json_t *answer = child_json(end, "skep-review", &e);
	if (answer)
		judge(r);
	else
		finish(r, &e);
}

static void on_job(void *ctx, const struct err *e, const struct outcome *o)
{
	struct review *r = ctx;
	struct err why;
	auto_free char *shadow = review_path(r, "shadow.git"), *sock = engine_socket(r->g, r->box), *ticket = o && o->ticket ? xstrdup(o->ticket) : NULL;
	char a0[] = "skep-review", a1[] = "collect", a2[] = "--shadow", a4[] = "--socket", a6[] = "--ticket";
	char *argv[] = {a0, a1, a2, shadow, a4, sock, a6, ticket, NULL};
	if (!e && (!ticket || spawn(r, argv, NULL, on_collected, &why))) {
		e = &why;
		if (!ticket)
			err_set(&why, ERR_BUG, "a job without a ticket");
	}
	if (e)
		finish(r, e);
}

static void on_pinned(void *ctx, const struct err *e)
{
	struct review *r = ctx;
	if (e)
		finish(r, e);
	else if (r->want.verb == REVIEW_UNDO)
		judge(r);
	else
		job(r, "collect", NULL, false, on_job);
}

static void on_exported(void *ctx, const struct child_end *end)
{
	struct review *r = ctx;
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
	char a0[] = "skep-review", a1[] = "bundle", a2[] = "--socket", a4[] = "--ticket", a6[] = "--work", a8[] = "--ref", dir[] = "--dir",
	     branch[] = "--branch", base[] = "--base", most[] = "--most";
	auto_free char *bytes = xasprintf("%llu", (unsigned long long)(b ? bundle_most(&b->row) : 0));
	char *argv[] = {a0, a1, a2, sock, a4, ticket, a6, work, a8, r->ref, most, bytes, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
	size_t n = 12;
	auto_free char *commit = b && base_commit(&b->row) ? xstrdup(base_commit(&b->row)) : NULL;
	if (b && b->row.repo)
		argv[n++] = dir, argv[n++] = b->row.repo;
	if (r->want.branch)
		argv[n++] = branch, argv[n++] = r->want.branch;
	if (commit)
		argv[n++] = base, argv[n++] = commit;
	if (!e && b && !ticket)
		err_set(&why, ERR_BUG, "an exec without a ticket");
	if (!e && (!b || !ticket || spawn(r, argv, NULL, on_exported, &why)))
		e = &why;
	if (e)
		finish(r, e);
}

static void export_begin(struct review *r, struct box *b)
{
	struct exec_request x = {0};
	r->ref = export_ref();
	export_command(&x, r->ref, head_of(&b->row), base_commit(&b->row), r->want.subject, r->want.bundle);
	engine_exec(r->g, r->box, &x, (struct done){on_bundling, r});
}

static void begin(struct review *r)
{
	struct err e;
	struct box *b = box_of(r, &e);
	r->running = true;
	if (!b)
		finish(r, &e);
	else if (r->want.branch || r->want.bundle)
		export_begin(r, b);
	else if (r->want.verb == REVIEW_UNDO && b->row.base_pin != PIN_INHERITED)
		judge(r);
	else
		pin_wait(b, on_pinned, r);
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

void engine_review(struct engine *g, const char *id, struct review_want *w, struct review_done d)
{
	struct err e;
	struct box *b = box_find(g, id, &e);
	if (!b || check(b, w, &e)) {
		review_want_done(w);
		d.fn(d.ctx, &e, NULL);
		return;
	}
	struct review *r = xcalloc(1, sizeof *r), **p = &g->reviews;
	*r = (struct review){.g = g, .want = *w, .done = d, .actor = g->actor, .out = BUF_INIT(OUT_MAX)};
	*w = (struct review_want){0};
	memcpy(r->box, b->row.id, sizeof r->box);
	bool busy = false;
	for (; *p; p = &(*p)->next)
		busy |= !strcmp((*p)->box, r->box);
	*p = r;
	if (!busy)
		begin(r);
}

// --- after a crash ---

static void on_recovered(void *ctx, const struct child_end *end)
{
	struct review *r = ctx;
	struct err e;
	auto_json json_t *answer = child_json(end, "skep-review", &e);
	if (!answer)
		log_line(LOG_ERROR, "sandbox=%s an apply that was under way could not be settled: %s", r->box, e.msg);
	else if (strcmp(json_str(answer, "recovered"), "nothing"))
		log_line(LOG_INFO, "sandbox=%s an apply that was under way was %s", r->box, json_str(answer, "recovered"));
	finish(r, NULL);
}

void review_recover(struct engine *g)
{
	for (struct box *b = g->boxes; b; b = b->next) {
		struct err e;
		auto_free char *log = xasprintf("%s/apply", b->row.id);
		if (!fs_exists(g->sandboxes, log))
			continue;
		struct review *r = xcalloc(1, sizeof *r);
		*r = (struct review){.g = g, .running = true, .want.verb = REVIEW_UNDO, .out = BUF_INIT(OUT_MAX), .next = g->reviews};
		memcpy(r->box, b->row.id, sizeof r->box);
		g->reviews = r;
		auto_buf struct buf in = BUF_INIT(REQUEST_MAX);
		char a0[] = "skep-review", a1[] = "recover", *argv[] = {a0, a1, NULL};
		review_request(r, &b->row, &in);
		if (spawn(r, argv, &in, on_recovered, &e)) {
			log_line(LOG_ERROR, "sandbox=%s %s", r->box, e.msg);
			finish(r, NULL);
		}
	}
}

void review_free(struct engine *g)
{
	while (g->reviews)
		review_drop(g->reviews);
}

// SPDX-License-Identifier: Apache-2.0
// Forks: new sandboxes as one is now, each started and with a box of its own.
#include "api/e2b_int.h"
#include "api/auth.h"
#include "api/e2b_routes.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define FORKS_MAX 100

struct forking {
	struct request *r;
	char id[ID_SIZE];
	uint64_t timeout_ms;
	char **ids; // of the forks
	size_t at;  // the one that is being started
	struct err *errs;
};

static void start_next(struct forking *f);

static struct e2b_box *fork_box(const struct e2b_box *of, const char *id, uint64_t timeout_ms)
{
	struct e2b_box *b = e2b_box_new(id);
	b->template_id = xstrdup(of->template_id);
	b->alias = of->alias ? xstrdup(of->alias) : NULL;
	b->user = xstrdup(of->user);
	b->workdir = xstrdup(of->workdir);
	b->network = of->network ? xstrdup(of->network) : NULL;
	b->has_internet = of->has_internet;
	b->internet = of->internet;
	b->auto_pause = of->auto_pause;
	b->auto_resume = of->auto_resume;
	b->drops_memory = of->drops_memory;
	b->mask_host = of->mask_host ? xstrdup(of->mask_host) : NULL;
	strv_free(b->metadata);
	b->metadata = strv_copy(of->metadata);
	for (char **v = of->env; *v; v++)
		if (!str_has_prefix(*v, "E2B_"))
			strv_add(&b->env, *v);
	e2b_settle_env(b, NULL);
	b->timeout_ms = timeout_ms;
	b->started = clock_unix_ms();
	if (*of->token)
		key_make(b->token);
	if (*of->traffic)
		key_make(b->traffic);
	return b;
}

static void answer_forks(struct forking *f)
{
	struct request *r = f->r;
	struct jsonw w = answer_json(r);
	jw_open(&w, '[');
	for (size_t i = 0; f->ids[i]; i++) {
		struct e2b_box *b = f->errs[i].kind ? NULL : e2b_box_get(r->engine, f->ids[i]);
		jw_open(&w, '{');
		jw_key(&w, b ? "sandbox" : "error");
		if (b) {
			e2b_put_sandbox(r, &w, b);
		} else {
			jw_open(&w, '{');
			jw_ku64(&w, "code", (uint64_t)e2b_status(&f->errs[i]));
			jw_kstr(&w, "message", f->errs[i].kind ? f->errs[i].msg : "it ended at once");
			jw_close(&w, '}');
		}
		jw_close(&w, '}');
	}
	jw_close(&w, ']');
	strv_free(f->ids);
	free(f->errs);
	free(f);
	request_answer(r, 201);
}

static void on_fork_up(void *ctx, const struct err *e, const struct outcome *o)
{
	struct forking *f = ctx;
	(void)o;
	if (e)
		f->errs[f->at] = *e;
	f->at++;
	start_next(f);
}

static void start_next(struct forking *f)
{
	struct err e;
	const char *id = f->ids[f->at];
	struct e2b_box *of = e2b_box_get(f->r->engine, f->id);
	if (!id) {
		answer_forks(f);
		return;
	}
	if (!of)
		err_set(&e, ERR_NOT_FOUND, "sandbox %s was killed", f->id);
	struct e2b_box *b = of ? fork_box(of, id, f->timeout_ms) : NULL;
	if (!b || e2b_box_add(f->r->engine, b, &e) || e2b_end_set(f->r->engine, b, clock_unix_ms() + f->timeout_ms, &e))
		on_fork_up(f, &e, NULL);
	else
		engine_start(f->r->engine, id, (struct done){on_fork_up, f});
}

static void on_going_on(void *ctx, const struct err *e)
{
	struct forking *f = ctx;
	struct request *r = f->r;
	if (!e) {
		start_next(f);
		return;
	}
	strv_free(f->ids);
	free(f->errs);
	free(f);
	request_fail(r, e);
}

static void on_forked(void *ctx, const struct err *e, const struct outcome *o)
{
	struct forking *f = ctx;
	for (const struct sandbox *const *s = e ? NULL : o->forks; s && *s; s++)
		strv_add(&f->ids, (*s)->id);
	f->errs = xcalloc(strv_len(f->ids) + 1, sizeof *f->errs);
	e2b_release(f->r->engine, f->id, e, on_going_on, f);
}

void e2b_post_fork(struct request *r)
{
	uint64_t timeout_s = 300, count = 1;
	struct e2b_box *b = e2b_named(r);
	if (!b || !e2b_timeout_of(r, "timeout", &timeout_s) || !e2b_number(r, "count", 1, &count))
		return;
	struct err e;
	if (rights_fork(r, &e)) {
		request_fail(r, &e);
		return;
	}
	if (count > FORKS_MAX) {
		e2b_error(r, 400, "count is at most %d", FORKS_MAX);
		return;
	}
	if (!e2b_is_running(r->engine, b)) {
		e2b_error(r, 409, "sandbox \"%s\" is paused: only a running one can be forked", b->id);
		return;
	}
	struct forking *f = xcalloc(1, sizeof *f);
	*f = (struct forking){.r = r, .timeout_ms = timeout_s * 1000};
	memcpy(f->id, b->id, sizeof f->id);
	b->held++;
	engine_fork(r->engine, f->id, NULL, (uint32_t)count, (struct done){on_forked, f});
}

// SPDX-License-Identifier: Apache-2.0
// race: the same command in several copies of one sandbox at once, judged by a test.
#include "cli/compare.h"

#include "base/mem.h"
#include "cli/out.h"
#include "cli/request.h"
#include "cli/verbs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUNNERS 3
#define RUNNERS_MAX 64

struct race_opts {
	struct create_opts create; // first: its rows count from here
	const char *test, *base;
	bool keep, rm_losers, json;
	uint64_t count;
};

#define O(member) AT(struct race_opts, member)
static const struct opt race_opts[] = {
	VALUE(OPT_COUNT, O(count), "count", 'n', "N", "how many run (default 3)"),
	VALUE(OPT_STR, O(test), "test", 0, "CMD", "what decides: run in each afterwards (default: test of .skep.yaml)"),
	HINTED(OPT_STR, HINT_SANDBOX, O(base), "base", 0, "ID", "start where this sandbox is (default: a new one here)"),
	FLAG(O(rm_losers), "rm-losers", 0, "remove all but the winner"),
	FLAG(O(keep), "keep", 0, "keep all of them (this is the default)"),
	FLAG(O(json), "json", 0, "print the result as JSON"),
	CREATE_ROWS,
	OPTS_END,
};

struct race {
	struct api a;
	struct contender *v;
	size_t n;
	const char *test;
	bool terminal, drawn;
};

static int fork_all(struct race *r, const char *base, struct err *e)
{
	auto_free char *path = api_path("/v1/sandboxes", base, "fork"), *body = xasprintf("{\"count\":%zu}", r->n);
	auto_json json_t *made = api_json(&r->a, "POST", path, body, e);
	if (!made)
		return -1;
	for (size_t i = 0; i < r->n; i++)
		r->v[i].id = xstrdup(json_str(json_array_get(json_object_get(made, "sandboxes"), i), "id"));
	return 0;
}

static int start_all(struct race *r, char *const *argv, struct err *e)
{
	for (size_t i = 0; i < r->n; i++) {
		auto_free char *number = xasprintf("SKEP_RACE=%zu", i + 1);
		char *env[] = {number, NULL};
		if (job_start(&r->a, r->v[i].id, argv, env, &r->v[i].run, e))
			return -1;
	}
	return 0;
}

static const char *phase(const struct contender *c)
{
	if (!c->run.ended || c->fork)
		return c->fork ? "is tested" : "runs";
	if (!c->has_test)
		return c->run.status ? "failed" : "done";
	return c->passed ? "passed" : "failed the test";
}

// One line each, drawn over the last ones on a terminal.
static void draw(struct race *r)
{
	auto_buf struct buf b = BUF_INIT(64 << 10);
	if (!r->terminal)
		return;
	if (r->drawn)
		buf_fmt(&b, "\033[%zuA", r->n);
	for (size_t i = 0; i < r->n; i++) {
		const struct contender *c = &r->v[i];
		uint64_t ms = c->run.ms + c->test.ms;
		buf_fmt(&b, "\r\033[K%zu  %s  %s  %llu.%llu s\n", i + 1, c->id, phase(c), (unsigned long long)(ms / 1000),
			(unsigned long long)(ms % 1000 / 100));
	}
	r->drawn = true;
	out_stderr(&b);
}

// The command has ended: what it changed is looked at before the test, which runs elsewhere.
static int go_on(struct race *r, struct contender *c, bool *busy, struct err *e)
{
	if (!c->run.ended) {
		*busy = true;
		if (job_look(&r->a, &c->run, e) || !c->run.ended)
			return c->run.ended ? -1 : 0;
		if (contender_look(&r->a, c, e))
			return -1;
		auto_free char *cmd = contender_command(&r->a, c, r->test, e);
		return cmd ? contender_test(&r->a, c, cmd, e) : 0;
	}
	if (contender_tested(&r->a, c, e))
		return -1;
	*busy |= c->fork != NULL;
	return 0;
}

static int watch_all(struct race *r, struct err *e)
{
	for (bool busy = true; busy;) {
		busy = false;
		for (size_t i = 0; i < r->n; i++)
			if (go_on(r, &r->v[i], &busy, e))
				return -1;
		draw(r);
		if (compare_stopped())
			return err_set(e, ERR_TIMEOUT, "stopped");
		if (busy)
			compare_pause();
	}
	return 0;
}

static void stop_all(struct race *r)
{
	for (size_t i = 0; i < r->n; i++) {
		struct err ignored;
		auto_free char *path = r->v[i].id ? api_path("/v1/sandboxes", r->v[i].id, "stop") : NULL;
		job_kill(&r->a, &r->v[i].run);
		if (path && api_do(&r->a, "POST", path, "{}", &ignored))
			continue;
		if (r->v[i].fork)
			box_remove(&r->a, r->v[i].fork);
	}
}

static bool has_won(const struct contender *c)
{
	return c->has_test ? c->passed : !c->run.status;
}

static int by_rank(const void *a, const void *b)
{
	const struct contender *x = a, *y = b;
	const json_t *p = json_object_get(x->diff, "summary"), *q = json_object_get(y->diff, "summary");
	if (has_won(x) != has_won(y))
		return has_won(x) ? -1 : 1;
	const uint64_t keys[][2] = {{x->run.status != 0, y->run.status != 0},
				    {x->run.ms, y->run.ms},
				    {json_u64(p, "added") + json_u64(p, "removed"), json_u64(q, "added") + json_u64(q, "removed")},
				    {json_u64(p, "risky"), json_u64(q, "risky")}};
	for (size_t i = 0; i < countof(keys); i++)
		if (keys[i][0] != keys[i][1])
			return keys[i][0] < keys[i][1] ? -1 : 1;
	return strcmp(x->id, y->id);
}

static int finish(struct race *r, const struct race_opts *o)
{
	auto_buf struct buf b = BUF_INIT(4096);
	qsort(r->v, r->n, sizeof *r->v, by_rank);
	bool won = has_won(&r->v[0]);
	int status = o->json ? compare_json(r->v, r->n) : compare_print(r->v, r->n, true);
	for (size_t i = 1; i < r->n && o->rm_losers && won; i++)
		box_remove(&r->a, r->v[i].id);
	if (!won)
		buf_str(&b, "none of them succeeded; all are kept\n");
	else if (json_u64(json_object_get(r->v[0].diff, "summary"), "files"))
		buf_fmt(&b, "take the first one with: skep diff %s, skep apply %s\n", r->v[0].id, r->v[0].id);
	out_stderr(&b);
	return status ? status : won ? 0 : 1;
}

static int race(const struct call *c, struct race *r, const char *base)
{
	const struct race_opts *o = c->opts;
	struct err e;
	compare_catch();
	if (fork_all(r, base, &e) || start_all(r, c->words, &e) || watch_all(r, &e)) {
		stop_all(r);
		return compare_stopped() ? 130 : out_fail(c, &e);
	}
	return finish(r, o);
}

// Under way no one else has seen it.
static char *make_base(const struct race_opts *o, struct err *e)
{
	auto_json json_t *box = create_sandbox(o->create, NULL, e);
	return box ? xstrdup(json_str(box, "id")) : NULL;
}

static int race_run(const struct call *c)
{
	const struct race_opts *o = c->opts;
	struct err e;
	struct race r = {.a = API_CLOSED, .test = o->test, .terminal = isatty(STDERR_FILENO)};
	r.n = o->count == OPT_UNSET ? RUNNERS : (size_t)o->count;
	if (!r.n || r.n > RUNNERS_MAX || (o->keep && o->rm_losers)) {
		err_set(&e, ERR_INVALID, o->keep && o->rm_losers ? "--keep and --rm-losers exclude each other" : "-n takes 1 to 64");
		return out_usage(c, &e);
	}
	if (request_check(&o->create, &e))
		return out_usage(c, &e);
	auto_free char *made = o->base ? NULL : make_base(o, &e);
	if ((!o->base && !made) || api_open(&r.a, &e)) {
		if (made)
			box_remove(&r.a, made);
		return out_fail(c, &e);
	}
	r.v = xcalloc(r.n, sizeof *r.v);
	int status = race(c, &r, o->base ? o->base : made);
	if (made)
		box_remove(&r.a, made);
	for (size_t i = 0; i < r.n; i++)
		contender_done(&r.v[i]);
	free(r.v);
	api_close(&r.a);
	return status;
}

const struct cmd cmd_race = {
	.name = "race",
	.args = "[--] CMD...",
	.help = "run a command in several sandboxes at once and rank them by a test",
	.notes = "Each is a copy of the same start and is told its number in SKEP_RACE. Passing the test counts first, then\n"
		 "time, lines, risks. The test runs in a copy of its own: what it writes is no change. ^C stops all of them.\n"
		 "Exit status 1 when none succeeded.",
	.opts = race_opts,
	.opts_size = sizeof(struct race_opts),
	.min_words = 1,
	.max_words = -1,
	.hint = HINT_COMMAND,
	.run = race_run,
};

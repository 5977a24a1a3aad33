// SPDX-License-Identifier: Apache-2.0
// compare: what some sandboxes did, side by side.
#include "cli/compare.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include <stdlib.h>
#include <string.h>

struct compare_opts {
	const char *test;
	bool json;
};

static const struct opt compare_opts[] = {
	VALUE(OPT_STR, AT(struct compare_opts, test), "test", 0, "CMD", "run CMD on each (default: test of .skep.yaml)"),
	FLAG(AT(struct compare_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

// A change and which of them made it.
struct shared {
	const char *id, *path; // borrowed
	uint64_t in;	       // one bit each
};

struct shares {
	struct shared *v;
	size_t n;
};

#define MOST 64 // sandboxes side by side

static int by_id(const void *a, const void *b)
{
	const struct shared *x = a, *y = b;
	int d = strcmp(x->path, y->path);
	return d ? d : strcmp(x->id, y->id);
}

static void add_hunks(struct shares *s, const json_t *diff, size_t who)
{
	size_t i, k;
	json_t *c, *h;
	json_array_foreach(json_object_get(diff, "changes"), i, c)
		json_array_foreach(json_object_get(c, "hunks"), k, h)
		{
			s->v = xrealloc(s->v, (s->n + 1) * sizeof *s->v);
			s->v[s->n++] = (struct shared){json_str(h, "id"), json_str(c, "path"), 1ull << who};
		}
}

static void shares_make(struct contender *v, size_t n, struct shares *out)
{
	*out = (struct shares){0};
	for (size_t i = 0; i < n && i < MOST; i++)
		add_hunks(out, v[i].diff, i);
	if (out->n)
		qsort(out->v, out->n, sizeof *out->v, by_id);
	size_t to = 0;
	for (size_t i = 0; i < out->n; i++) {
		struct shared *last = to ? &out->v[to - 1] : NULL;
		if (last && !by_id(last, &out->v[i]))
			last->in |= out->v[i].in;
		else
			out->v[to++] = out->v[i];
	}
	out->n = to;
}

static size_t bits(uint64_t v)
{
	return (size_t)__builtin_popcountll(v);
}

static uint64_t count(const struct shares *s, size_t who, size_t most)
{
	uint64_t n = 0;
	for (size_t i = 0; i < s->n; i++)
		n += s->v[i].in >> who & 1 && bits(s->v[i].in) <= most;
	return n;
}

static void add_time(struct table *t, const struct job *j)
{
	auto_free char *s = xasprintf("%llu.%llu s", (unsigned long long)(j->ms / 1000), (unsigned long long)(j->ms % 1000 / 100));
	table_add(t, j->exec ? s : "-");
}

static void row(struct table *t, const struct contender *c, size_t at, bool rank, const struct shares *s)
{
	const json_t *sum = json_object_get(c->diff, "summary");
	auto_free char *lines = xasprintf("+%llu -%llu", (unsigned long long)json_u64(sum, "added"), (unsigned long long)json_u64(sum, "removed"));
	auto_free char *status = xasprintf("%lld", (long long)c->run.status);
	if (rank) {
		table_add_u64(t, at + 1);
		table_add(t, status);
		add_time(t, &c->run);
	}
	table_add(t, contender_name(c));
	table_add(t, !c->has_test ? "-" : c->passed ? "passed" : "failed");
	add_time(t, &c->test);
	table_add_u64(t, json_u64(sum, "files"));
	table_add(t, lines);
	table_add_u64(t, json_u64(sum, "risky"));
	table_add_u64(t, json_u64(sum, "conflicts"));
	table_add_u64(t, count(s, at, MOST) - count(s, at, 1));
	table_add_u64(t, count(s, at, 1));
}

// One line a path: how many of its changes all of them made, and how many each.
static void put_path(struct buf *b, struct contender *v, size_t n, const struct shared *from, size_t k)
{
	uint64_t all = 0;
	for (size_t i = 0; i < k; i++)
		all += bits(from[i].in) == n;
	out_text(b, from->path);
	buf_str(b, ":");
	if (all)
		buf_fmt(b, " %llu in all", (unsigned long long)all);
	for (size_t who = 0; who < n; who++) {
		uint64_t own = 0;
		for (size_t i = 0; i < k; i++)
			own += from[i].in >> who & 1 && bits(from[i].in) < n;
		if (own)
			buf_fmt(b, "  %s %llu", contender_name(&v[who]), (unsigned long long)own);
	}
	buf_byte(b, '\n');
}

int compare_print(struct contender *v, size_t n, bool rank)
{
	static const char *const heads[] = {"RANK",  "EXIT",  "TIME",  "SANDBOX",	 "TEST",   "TEST TIME",
					    "FILES", "LINES", "RISKS", "CONFLICTS", "SHARED", "OWN"};
	size_t skip = rank ? 0 : 3;
	auto_buf struct buf b = BUF_INIT(HTTP_BODY_MAX);
	struct table t = {.n_cols = (int)(countof(heads) - skip)};
	struct shares s;
	shares_make(v, n, &s);
	for (size_t i = skip; i < countof(heads); i++)
		table_add(&t, heads[i]);
	for (size_t i = 0; i < n; i++)
		row(&t, &v[i], i, rank, &s);
	table_print(&t, &b);
	if (s.n)
		buf_byte(&b, '\n');
	for (size_t i = 0, k; i < s.n; i += k) {
		for (k = 1; i + k < s.n && !strcmp(s.v[i].path, s.v[i + k].path);)
			k++;
		put_path(&b, v, n, &s.v[i], k);
	}
	free(s.v);
	return out_flush(&b);
}

static void put_job(struct jsonw *w, const char *key, const struct job *j)
{
	jw_key(w, key);
	jw_open(w, '{');
	jw_kstr(w, "exec", j->exec);
	jw_ki64(w, "status", j->status);
	jw_ku64(w, "ms", j->ms);
	jw_close(w, '}');
}

static void put_contender(struct jsonw *w, const struct contender *c, size_t at, const struct shares *s)
{
	static const char *const sums[] = {"files", "added", "removed", "hunks", "risky", "conflicts"};
	const json_t *sum = json_object_get(c->diff, "summary");
	jw_open(w, '{');
	jw_kstr(w, "id", c->id);
	jw_kstr(w, "name", c->name);
	if (c->run.exec)
		put_job(w, "run", &c->run);
	if (c->has_test) {
		put_job(w, "test", &c->test);
		jw_kbool(w, "passed", c->passed);
	}
	for (size_t i = 0; i < countof(sums); i++)
		jw_ku64(w, sums[i], json_u64(sum, sums[i]));
	jw_ku64(w, "own", count(s, at, 1));
	jw_kstr(w, "digest", json_str(sum, "digest"));
	jw_key(w, "risks");
	jw_open(w, '[');
	size_t i, k;
	json_t *ch, *r;
	json_array_foreach(json_object_get(c->diff, "changes"), i, ch)
		json_array_foreach(json_object_get(ch, "risks"), k, r)
		{
			jw_open(w, '{');
			jw_kstr(w, "path", json_str(ch, "path"));
			jw_kstr(w, "flag", json_str(r, "flag"));
			jw_kstr(w, "reason", json_str(r, "reason"));
			jw_close(w, '}');
		}
	jw_close(w, ']');
	jw_close(w, '}');
}

int compare_json(struct contender *v, size_t n)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(API_LONG);
	struct jsonw w = {.b = &b};
	struct shares s;
	shares_make(v, n, &s);
	jw_open(&w, '{');
	jw_key(&w, "sandboxes");
	jw_open(&w, '[');
	for (size_t i = 0; i < n; i++)
		put_contender(&w, &v[i], i, &s);
	jw_close(&w, ']');
	jw_key(&w, "hunks");
	jw_open(&w, '[');
	for (size_t i = 0; i < s.n; i++) {
		jw_open(&w, '{');
		jw_kstr(&w, "id", s.v[i].id);
		jw_kstr(&w, "path", s.v[i].path);
		jw_key(&w, "in");
		jw_open(&w, '[');
		for (size_t k = 0; k < n; k++)
			if (s.v[i].in >> k & 1)
				jw_str(&w, v[k].id, strlen(v[k].id));
		jw_close(&w, ']');
		jw_close(&w, '}');
	}
	jw_close(&w, ']');
	jw_close(&w, '}');
	free(s.v);
	auto_json json_t *all = json_read(buf_cstr(&b), b.n, &e);
	return all ? out_json(all) : 1;
}

static int find(struct api *a, const char *word, struct contender *out, struct err *e)
{
	auto_free char *path = api_path("/v1/sandboxes", word, NULL);
	auto_json json_t *box = api_json(a, "GET", path, NULL, e);
	if (!box)
		return -1;
	*out = (struct contender){.id = xstrdup(json_str(box, "id")), .name = xstrdup(json_str(box, "name"))};
	return 0;
}

// All tests at once, then until the last has ended.
static int run_tests(struct api *a, struct contender *v, size_t n, const char *given, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		auto_free char *cmd = contender_command(a, &v[i], given, e);
		if (cmd && contender_test(a, &v[i], cmd, e))
			return -1;
	}
	for (bool busy = true; busy && !compare_stopped();) {
		busy = false;
		for (size_t i = 0; i < n; i++) {
			if (contender_tested(a, &v[i], e))
				return -1;
			busy |= v[i].fork != NULL;
		}
		if (busy)
			compare_pause();
	}
	return compare_stopped() ? err_set(e, ERR_TIMEOUT, "stopped") : 0;
}

static int look_all(struct api *a, const struct call *c, struct contender *v, size_t n, struct err *e)
{
	const struct compare_opts *o = c->opts;
	for (size_t i = 0; i < n; i++)
		if (find(a, c->words[i], &v[i], e) || contender_look(a, &v[i], e))
			return -1;
	compare_catch();
	return run_tests(a, v, n, o->test, e);
}

static int compare_run(const struct call *c)
{
	const struct compare_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	size_t n = (size_t)c->n_words;
	if (n > MOST) {
		err_set(&e, ERR_INVALID, "no more than %d sandboxes fit beside each other", MOST);
		return out_usage(c, &e);
	}
	struct contender *v = xcalloc(n, sizeof *v);
	int status;
	if (api_open(&a, &e) || look_all(&a, c, v, n, &e))
		status = compare_stopped() ? 130 : out_fail(c, &e);
	else
		status = o->json ? compare_json(v, n) : compare_print(v, n, false);
	for (size_t i = 0; i < n; i++) {
		if (v[i].fork)
			box_remove(&a, v[i].fork);
		contender_done(&v[i]);
	}
	free(v);
	return status;
}

const struct cmd cmd_compare = {
	.name = "compare",
	.args = "ID ID...",
	.help = "show what sandboxes changed, side by side",
	.notes = "The test runs in a copy of each, all at once; the sandboxes stay as they are. SHARED counts changes that\n"
		 "another one made as well, OWN those that no other made.",
	.opts = compare_opts,
	.opts_size = sizeof(struct compare_opts),
	.min_words = 2,
	.max_words = -1,
	.tail = -1,
	.hint = HINT_SANDBOX,
	.run = compare_run,
};

// SPDX-License-Identifier: Apache-2.0
// Sandboxes as lists, details and logs.
#include "api/e2b_int.h"
#include "api/auth.h"
#include "api/e2b_routes.h"

#include "api/route.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIST_MAX 100
#define LOGS_MAX 1000

static uint64_t cpus_of(const struct sandbox *s)
{
	long all = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t some = (s->limits.cpus_milli + 999) / 1000;
	return some ? some : all > 0 ? (uint64_t)all : 1;
}

static void put_listed(struct jsonw *w, struct request *r, const struct e2b_box *b, bool detail)
{
	struct engine *g = r->engine;
	const struct sandbox *s = e2b_row(g, b);
	bool running = s->state == STATE_RUNNING;
	e2b_put_members(w, b);
	jw_ktime(w, "startedAt", b->started);
	jw_ktime(w, "endAt", running ? (b->ends ? b->ends : clock_unix_ms() + 365ULL * 86400000) : b->paused ? b->paused : b->started);
	jw_kstr(w, "state", running ? "running" : "paused");
	jw_ku64(w, "cpuCount", cpus_of(s));
	jw_ku64(w, "memoryMB", s->limits.memory >> 20);
	jw_ku64(w, "diskSizeMB", s->limits.disk >> 20);
	jw_key(w, "metadata");
	jw_open(w, '{');
	for (char **m = b->metadata; *m; m += 2)
		jw_kstr(w, m[0], m[1]);
	jw_close(w, '}');
	e2b_volumes_put(r, w, s);
	if (!detail)
		return;
	e2b_put_secrets(r, w, b);
	if (b->has_internet)
		jw_kbool(w, "allowInternetAccess", b->internet);
	if (b->network) {
		jw_key(w, "network");
		jw_raw(w, b->network);
	}
	jw_key(w, "lifecycle");
	jw_open(w, '{');
	jw_kstr(w, "onTimeout", b->auto_pause ? "pause" : "kill");
	jw_kbool(w, "autoResume", b->auto_resume);
	jw_close(w, '}');
}

// --- what is asked for ---

struct filter {
	char **metadata; // name, value, …
	bool running, paused;
	uint64_t started_after; // Unix ms
	const char *template_id; // NULL = any
	bool asc;
	uint64_t limit;
	uint64_t after; // paging: started, and id, of the last one given
	char after_id[ID_SIZE];
};

// Encoded once by each of: the client for a pair, the client for the list of them, the query.
static int read_metadata(struct request *r, struct filter *f)
{
	const char *text = request_query(r, "metadata");
	auto_free char *list = text ? percent_decode(str_of(text), false) : NULL;
	struct str rest = str_of(list ? list : ""), pair;
	if (text && !list)
		return -1;
	while (str_next(&rest, '&', &pair)) {
		const char *eq = memchr(pair.p, '=', pair.n);
		if (!pair.n)
			continue;
		if (!eq)
			return -1;
		auto_free char *name = percent_decode((struct str){pair.p, (size_t)(eq - pair.p)}, true);
		auto_free char *value = percent_decode((struct str){eq + 1, pair.n - (size_t)(eq - pair.p) - 1}, true);
		if (!name || !value)
			return -1;
		strv_add(&f->metadata, name);
		strv_add(&f->metadata, value);
	}
	return 0;
}

static int read_states(struct request *r, struct filter *f)
{
	struct str rest = str_of(request_query(r, "state") ? request_query(r, "state") : "running,paused"), s;
	for (; str_next(&rest, ',', &s);) {
		bool running = str_is(s, "running"), paused = str_is(s, "paused");
		if (!running && !paused)
			return -1;
		f->running |= running;
		f->paused |= paused;
	}
	return 0;
}

// 2026-01-31T10:20:30[.123…](Z|+hh:mm)
static int read_time(const char *s, uint64_t *out_ms)
{
	struct tm t = {0};
	const char *at = strptime(s, "%Y-%m-%dT%H:%M:%S", &t);
	uint64_t ms = 0, digit = 100, hours, minutes;
	if (!at)
		return -1;
	if (*at == '.')
		for (at++; *at >= '0' && *at <= '9'; at++, digit /= 10)
			ms += (uint64_t)(*at - '0') * digit;
	int64_t unix_ms = (int64_t)timegm(&t) * 1000 + (int64_t)ms;
	if ((*at == '+' || *at == '-' || *at == ' ') && strlen(at) == 6 && at[3] == ':' &&
	    at[1] >= '0' && at[1] <= '1' && at[2] >= '0' && at[2] <= '9' && at[4] >= '0' && at[4] <= '5' && at[5] >= '0' && at[5] <= '9') {
		hours = (uint64_t)(at[1] - '0') * 10 + (uint64_t)(at[2] - '0');
		minutes = hours * 60 + (uint64_t)(at[4] - '0') * 10 + (uint64_t)(at[5] - '0');
		unix_ms -= (*at == '-' ? -1 : 1) * (int64_t)minutes * 60000;
	} else if (strcmp(at, "Z")) {
		return -1;
	}
	*out_ms = unix_ms > 0 ? (uint64_t)unix_ms : 0;
	return 0;
}

// "MS-ID", as next_token writes it.
static int read_token(struct request *r, struct filter *f)
{
	const char *s = request_query(r, "nextToken"), *dash = s ? strchr(s, '-') : NULL;
	if (!s || !*s)
		return 0;
	if (!dash || str_to_u64((struct str){s, (size_t)(dash - s)}, 0, INT64_MAX, &f->after) || !id_is(dash + 1) || strlen(dash + 1) >= ID_SIZE)
		return -1;
	memcpy(f->after_id, dash + 1, strlen(dash + 1));
	return 0;
}

// 1: answered with an empty list; -1: answered with an error.
static int read_template(struct request *r, struct filter *f)
{
	struct err e;
	const char *s = request_query(r, "template");
	struct e2b_template *t = s ? e2b_template_find(s, NULL, &e) : NULL;
	if (s && strchr(s, ':')) {
		e2b_error(r, 400, "template filter takes no tag");
		return -1;
	}
	if (s && !t) {
		buf_str(&r->answer, "[]");
		request_answer(r, 200);
		return 1;
	}
	f->template_id = t ? t->id : NULL;
	return 0;
}

static bool read_filter(struct request *r, struct filter *f)
{
	const char *limit = request_query(r, "limit"), *order = request_query(r, "order"), *after = request_query(r, "startedAfter");
	const char *bad = read_metadata(r, f) ? "metadata"
			  : read_states(r, f) ? "state"
			  : limit && str_to_u64(str_of(limit), 1, LIST_MAX, &f->limit) ? "limit"
			  : order && strcmp(order, "asc") && strcmp(order, "desc") ? "order"
			  : after && read_time(after, &f->started_after) ? "startedAfter"
			  : read_token(r, f) ? "nextToken"
					     : NULL;
	f->asc = order && !strcmp(order, "asc");
	if (bad)
		e2b_error(r, 400, "invalid value of query parameter %s", bad);
	return !bad && !read_template(r, f);
}

// --- the list ---

static bool has_metadata(const struct e2b_box *b, char *const *want)
{
	for (; want && *want; want += 2) {
		bool found = false;
		for (char **m = b->metadata; *m && !found; m += 2)
			found = !strcmp(m[0], want[0]) && !strcmp(m[1], want[1]);
		if (!found)
			return false;
	}
	return true;
}

// Places are unique: the id decides among those of one millisecond.
static int order_of(uint64_t a, const char *a_id, uint64_t b, const char *b_id)
{
	return a < b ? -1 : a > b ? 1 : strcmp(a_id, b_id);
}

static bool fits(const struct request *r, const struct e2b_box *b, const struct filter *f)
{
	struct engine *g = r->engine;
	if (!e2b_box_get(g, b->id) || !request_sees(r, e2b_row(g, b)))
		return false;
	bool running = e2b_is_running(g, b);
	if (!(running ? f->running : f->paused) || b->started < f->started_after || (f->template_id && strcmp(f->template_id, b->template_id)))
		return false;
	return has_metadata(b, f->metadata);
}

static int compare(const void *x, const void *y)
{
	const struct e2b_box *const *a = x, *const *b = y;
	return order_of((*a)->started, (*a)->id, (*b)->started, (*b)->id);
}

static size_t gather(const struct request *r, const struct filter *f, const struct e2b_box ***out)
{
	struct engine *g = r->engine;
	size_t n = 0, all = 0;
	for (struct e2b_box *b = e2b_boxes(g); b; b = b->next)
		all++;
	*out = xcalloc(all + 1, sizeof **out);
	for (struct e2b_box *b = e2b_boxes(g); b; b = b->next)
		if (fits(r, b, f))
			(*out)[n++] = b;
	if (n)
		qsort(*out, n, sizeof **out, compare);
	for (size_t i = 0; !f->asc && i < n / 2; i++) {
		const struct e2b_box *b = (*out)[i];
		(*out)[i] = (*out)[n - 1 - i];
		(*out)[n - 1 - i] = b;
	}
	return n;
}

static void put_list(struct request *r, const struct filter *f)
{
	const struct e2b_box **list;
	size_t n = gather(r, f, &list), given = 0, running = 0;
	const struct e2b_box *last = NULL;
	struct jsonw w = answer_json(r);
	bool more = false;
	jw_open(&w, '[');
	for (size_t i = 0; i < n; i++) {
		int at = *f->after_id ? order_of(list[i]->started, list[i]->id, f->after, f->after_id) : 0;
		running += e2b_is_running(r->engine, list[i]);
		if (*f->after_id && (f->asc ? at <= 0 : at >= 0))
			continue;
		if (given == f->limit) {
			more = true;
			continue;
		}
		jw_open(&w, '{');
		put_listed(&w, r, list[i], false);
		jw_close(&w, '}');
		last = list[i];
		given++;
	}
	jw_close(&w, ']');
	free(list);
	auto_free char *next = more && last ? xasprintf("%llu-%s", (unsigned long long)last->started, last->id) : NULL;
	auto_free char *total = xasprintf("%zu", running);
	if (next)
		request_set_header(r, "X-Next-Token", next);
	if (f->running)
		request_set_header(r, "X-Total-Running", total);
	request_answer(r, 200);
}

static void list(struct request *r, bool v1)
{
	struct filter f = {.limit = LIST_MAX};
	if (read_filter(r, &f)) {
		f.paused &= !v1;
		put_list(r, &f);
	}
	strv_free(f.metadata);
}

void e2b_list_v2(struct request *r)
{
	list(r, false);
}

void e2b_list_v1(struct request *r)
{
	list(r, true);
}

void e2b_get_sandbox(struct request *r)
{
	struct e2b_box *b = e2b_named(r);
	struct jsonw w = answer_json(r);
	if (!b)
		return;
	jw_open(&w, '{');
	put_listed(&w, r, b, true);
	jw_close(&w, '}');
	request_answer(r, 200);
}

// --- logs: the journal, a line for each event ---

struct logs {
	uint64_t from_ms, limit;
	struct buf lines, entries; // JSON, without the brackets
	struct jsonw lw, ew;
	uint64_t n;
};

static const char *level_of(const char *type)
{
	return !strcmp(type, "denied") || !strcmp(type, "limit.hit") ? "warn" : "info";
}

static void add_event(struct logs *l, const char *p, size_t n)
{
	struct err ignored;
	auto_json json_t *o = json_read(p, n, &ignored);
	const char *time = json_str(o, "time"), *type = json_str(o, "type");
	uint64_t ms = 0;
	if (!o || l->n >= l->limit || read_time(time, &ms) || ms < l->from_ms)
		return;
	auto_buf struct buf line = BUF_INIT(n * 6 + 4096);
	auto_free char *message = xstrndup(p, n);
	struct jsonw w = {.b = &line};
	jw_open(&w, '{');
	jw_kstr(&w, "level", level_of(type));
	jw_kstr(&w, "logger", "skep");
	jw_kstr(&w, "event_type", type);
	jw_kstr(&w, "message", message);
	jw_close(&w, '}');
	jw_open(&l->lw, '{');
	jw_kstr(&l->lw, "timestamp", time);
	jw_kstr(&l->lw, "line", buf_cstr(&line));
	jw_close(&l->lw, '}');
	jw_open(&l->ew, '{');
	jw_kstr(&l->ew, "timestamp", time);
	jw_kstr(&l->ew, "level", level_of(type));
	jw_kstr(&l->ew, "message", message);
	jw_key(&l->ew, "fields");
	jw_open(&l->ew, '{');
	jw_kstr(&l->ew, "type", type);
	jw_close(&l->ew, '}');
	jw_close(&l->ew, '}');
	l->n++;
}

static bool number_of(struct request *r, const char *key, uint64_t max, uint64_t *inout)
{
	const char *s = request_query(r, key);
	if (!s || !str_to_u64(str_of(s), 0, max, inout))
		return true;
	e2b_error(r, 400, "invalid value of query parameter %s", key);
	return false;
}

static void logs(struct request *r, const char *from_key, bool v2)
{
	struct err e;
	struct e2b_box *b = e2b_named(r);
	struct logs l = {.limit = LOGS_MAX, .lines = BUF_INIT(16u << 20), .entries = BUF_INIT(16u << 20)};
	if (!b || !number_of(r, from_key, INT64_MAX, &l.from_ms) || !number_of(r, "limit", LOGS_MAX, &l.limit))
		return;
	l.lw.b = &l.lines;
	l.ew.b = &l.entries;
	auto_buf struct buf journal = BUF_INIT(ANSWER_MAX);
	uint64_t at = 0, end = 0;
	int rc = engine_journal(r->engine, b->id, at, &journal, &end, &e);
	struct str rest = {journal.p, journal.n}, line;
	while (!rc && str_next(&rest, '\n', &line))
		if (line.n)
			add_event(&l, line.p, line.n);
	buf_fmt(&r->answer, "{\"logs\":[%s]", buf_cstr(v2 ? &l.entries : &l.lines));
	if (!v2)
		buf_fmt(&r->answer, ",\"logEntries\":[%s]", buf_cstr(&l.entries));
	buf_byte(&r->answer, '}');
	buf_done(&l.lines);
	buf_done(&l.entries);
	if (rc)
		request_fail(r, &e);
	else
		request_answer(r, 200);
}

void e2b_logs_v1(struct request *r)
{
	logs(r, "start", false);
}

void e2b_logs_v2(struct request *r)
{
	logs(r, "cursor", true);
}

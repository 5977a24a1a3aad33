// SPDX-License-Identifier: Apache-2.0
// What a sandbox uses: sampled when somebody asks, by looking at its processes from inside. Samples are kept, so that who asks
// again sees a history; nobody who does not ask pays for it.
#include "api/e2b_metrics.h"
#include "api/auth.h"
#include "api/e2b_routes.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEPT 720 // samples of one sandbox

struct history {
	char id[ID_SIZE];
	struct e2b_metric *list;
	size_t n;
	struct history *next;
};

static struct history *histories;

static void history_free(struct history *h)
{
	free(h->list);
	free(h);
}

void e2b_metrics_free(void)
{
	while (histories) {
		struct history *h = histories;
		histories = h->next;
		history_free(h);
	}
}

// Those of killed sandboxes go when somebody asks for another one.
static struct history *history_of(struct engine *g, const char *id)
{
	struct history *found = NULL;
	for (struct history **p = &histories; *p;) {
		struct history *h = *p;
		bool same = !strcmp(h->id, id);
		found = same ? h : found;
		if (same || e2b_box_get(g, h->id)) {
			p = &h->next;
			continue;
		}
		*p = h->next;
		history_free(h);
	}
	if (found)
		return found;
	struct history *h = xcalloc(1, sizeof *h);
	memcpy(h->id, id, strnlen(id, ID_SIZE - 1));
	h->list = xcalloc(KEPT, sizeof *h->list);
	h->next = histories;
	return histories = h;
}

static void keep(struct history *h, struct e2b_metric *m)
{
	const struct e2b_metric *last = h->n ? &h->list[h->n - 1] : NULL;
	long hz = sysconf(_SC_CLK_TCK);
	if (last && m->at > last->at && m->ticks >= last->ticks && hz > 0)
		m->cpu_pct = 100.0 * (double)(m->ticks - last->ticks) / (double)hz * 1000.0 / (double)(m->at - last->at) / (double)m->cpus;
	if (h->n == KEPT)
		memmove(h->list, h->list + 1, --h->n * sizeof *h->list);
	h->list[h->n++] = *m;
}

// --- one sample ---

struct sampling {
	struct engine *g;
	char id[ID_SIZE];
	struct e2b_metric m;
	void (*fn)(void *ctx, const struct e2b_metric *m);
	void *ctx;
};

// A line of /proc/PID/stat. The name may hold anything: what counts stands behind its last parenthesis.
static void on_line(void *ctx, int stream, const char *p, size_t n)
{
	struct sampling *s = ctx;
	const char *close = memrchr(p, ')', n);
	uint64_t v;
	if (stream != 1 || !close || close + 2 > p + n)
		return;
	struct str rest = {close + 2, n - (size_t)(close + 2 - p)}, field;
	for (int i = 3; str_next(&rest, ' ', &field); i++) {
		if (str_to_u64(field, 0, INT64_MAX, &v))
			continue;
		if (i >= 14 && i <= 17) // utime stime cutime cstime
			s->m.ticks += v;
		if (i == 24) // rss
			s->m.mem += v * (uint64_t)sysconf(_SC_PAGESIZE);
	}
}

static void on_done(void *ctx, const struct err *e, int status)
{
	struct sampling *s = ctx;
	struct e2b_box *b = e2b_box_get(s->g, s->id);
	const struct sandbox *row = b ? e2b_row(s->g, b) : NULL;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	(void)status;
	if (!e && row) {
		s->m.at = clock_unix_ms();
		s->m.cpus = row->limits.cpus_milli ? (row->limits.cpus_milli + 999) / 1000 : cpus > 0 ? (uint64_t)cpus : 1;
		s->m.mem_total = row->limits.memory;
		s->m.disk_total = row->limits.disk;
		(void)engine_size(s->g, row, &s->m.disk); // what is not counted yet comes with a later sample
		keep(history_of(s->g, s->id), &s->m);
	}
	s->fn(s->ctx, e || !row ? NULL : &s->m);
	free(s);
}

void e2b_metrics_sample(struct engine *g, const struct e2b_box *b, void (*fn)(void *ctx, const struct e2b_metric *m), void *ctx)
{
	static const char script[] = "cat /proc/[0-9]*/stat 2>/dev/null; exit 0";
	char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)script, NULL};
	struct sampling *s = xcalloc(1, sizeof *s);
	*s = (struct sampling){.g = g, .fn = fn, .ctx = ctx};
	memcpy(s->id, b->id, sizeof s->id);
	e2b_command(g, &(struct e2b_command){.sandbox = s->id, .user = "root", .cwd = "/", .argv = argv, .input = -1, .timeout_ms = 10000,
					     .line = on_line, .done = on_done, .ctx = s});
}

// --- requests ---

static void put(struct jsonw *w, const struct e2b_metric *m)
{
	char pct[32];
	jw_open(w, '{');
	jw_ktime(w, "timestamp", m->at);
	jw_ku64(w, "timestampUnix", m->at / 1000);
	jw_ku64(w, "cpuCount", m->cpus);
	jw_key(w, "cpuUsedPct");
	jw_raw(w, fmt_to(pct, sizeof pct, "%.2f", m->cpu_pct) ? "0" : pct);
	jw_ku64(w, "memUsed", m->mem);
	jw_ku64(w, "memTotal", m->mem_total);
	jw_ku64(w, "memCache", 0);
	jw_ku64(w, "diskUsed", m->disk);
	jw_ku64(w, "diskTotal", m->disk_total);
	jw_close(w, '}');
}

static void answer(struct request *r)
{
	struct jsonw w = answer_json(r);
	const char *start = request_query(r, "start"), *end = request_query(r, "end");
	uint64_t from = 0, to = INT64_MAX;
	struct e2b_box *b = e2b_named(r);
	if (!b)
		return;
	if ((start && str_to_u64(str_of(start), 0, INT64_MAX, &from)) || (end && str_to_u64(str_of(end), 0, INT64_MAX, &to))) {
		e2b_error(r, 400, "start and end are Unix seconds");
		return;
	}
	const struct history *h = history_of(r->engine, b->id);
	jw_open(&w, '[');
	for (size_t i = 0; i < h->n; i++)
		if (h->list[i].at / 1000 >= from && h->list[i].at / 1000 <= to)
			put(&w, &h->list[i]);
	jw_close(&w, ']');
	request_answer(r, 200);
}

static void on_sampled(void *ctx, const struct e2b_metric *m)
{
	(void)m; // what there is is answered
	answer(ctx);
}

void e2b_get_metrics(struct request *r)
{
	struct e2b_box *b = e2b_named(r);
	if (!b)
		return;
	if (e2b_is_running(r->engine, b))
		e2b_metrics_sample(r->engine, b, on_sampled, r);
	else
		answer(r);
}

// Of several, as they are known: the newest sample of each.
void e2b_get_all_metrics(struct request *r)
{
	const char *ids = request_query(r, "sandbox_ids");
	struct str rest = str_of(ids ? ids : ""), id;
	struct jsonw w = answer_json(r);
	jw_open(&w, '{');
	jw_key(&w, "sandboxes");
	jw_open(&w, '{');
	while (str_next(&rest, ',', &id)) {
		auto_free char *one = xstrndup(id.p, id.n);
		struct e2b_box *b = e2b_box_get(r->engine, one);
		b = b && request_sees_id(r, b->id) ? b : NULL;
		const struct history *h = b ? history_of(r->engine, b->id) : NULL;
		if (!h || !h->n)
			continue;
		jw_key(&w, b->id);
		put(&w, &h->list[h->n - 1]);
	}
	jw_close(&w, '}');
	jw_close(&w, '}');
	request_answer(r, 200);
}

// SPDX-License-Identifier: Apache-2.0
#include "api/events.h"

#include "api/auth.h"
#include "api/event_line.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine.h"
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define BEAT_MS 15000
#define WDS 256
#define CHUNK (128u << 10)

struct stream;

// One stream's place in one journal.
struct feed {
	struct source *source;
	struct stream *stream;
	uint64_t offset;
	struct feed *of_source, *of_stream; // next ones
};

// A journal that somebody reads.
struct source {
	char id[ID_SIZE];
	int wd;
	uint64_t end; // all that is before it was given to those who keep up
	bool ended;   // its sandbox was removed
	struct feed *feeds;
	struct source *next, *same_slot;
};

struct stream {
	struct request *r;
	bool all, behind; // behind: its reader is slow, on_drain goes on
	bool dead;	   // its client is gone, its request too
	char **types;	   // NULL = all
	struct feed *feeds;
	struct stream *next;
};

static struct {
	struct loop *loop;
	struct engine *engine;
	struct watch news;
	struct timer beat;
	struct source *sources, *by_wd[WDS];
	struct stream *streams;
	int n;
	int busy;   // inside a walk: a write may end any stream, so nothing is freed
	bool waste; // something is dead
} all = {.news.fd = -1}; // one server in a process

static bool send_line(struct feed *f, const struct event_line *l)
{
	struct stream *s = f->stream;
	auto_buf struct buf b = BUF_INIT(1 << 20);
	f->offset = l->after;
	if (s->dead || !event_is_of(l->type, s->types))
		return true;
	if (s->all)
		buf_fmt(&b, "id: %.*s-%s-%llu\n", (int)l->time.n, l->time.p, f->source->id, (unsigned long long)l->after);
	else
		buf_fmt(&b, "id: %llu\n", (unsigned long long)l->after);
	buf_fmt(&b, "event: %.*s\ndata: ", (int)l->type.n, l->type.p);
	if (s->all)
		buf_fmt(&b, "{\"sandbox\":\"%s\",\"event\":", f->source->id);
	buf_add(&b, l->text.p, l->text.n);
	buf_str(&b, s->all ? "}\n\n" : "\n\n");
	return request_write(s->r, b.p, b.n);
}

// --- reading ---

static void enter(void)
{
	all.busy++;
}

static void sweep(void);

static void leave(void)
{
	if (!--all.busy && all.waste)
		sweep();
}

// What one stream has missed of one journal; false: its reader is slow.
static bool catch_up(struct feed *f)
{
	struct err e;
	struct event_line l;
	while (!f->stream->dead) {
		auto_buf struct buf b = BUF_INIT(CHUNK);
		uint64_t at = f->offset, end;
		if (engine_journal_peek(all.engine, f->source->id, f->offset, &b, &end, &e))
			return true; // no longer kept
		struct str rest = {b.p, b.n};
		if (!b.n)
			return true;
		while (event_line_next(&rest, &at, &l))
			if (!send_line(f, &l))
				return false;
	}
	return true;
}

static void catch_up_all(struct stream *s)
{
	enter();
	s->behind = false;
	for (struct feed *f = s->feeds; f && !s->behind; f = f->of_stream)
		s->behind = !catch_up(f);
	leave();
}

static void on_drain(struct request *r)
{
	struct stream *s = r->ctx;
	if (s->behind)
		catch_up_all(s);
}

// New bytes of a journal, read once for all who keep up.
static void pump(struct source *src)
{
	struct err e;
	struct event_line l;
	enter();
	for (;;) {
		auto_buf struct buf b = BUF_INIT(CHUNK);
		uint64_t at = src->end, end;
		if (engine_journal_peek(all.engine, src->id, src->end, &b, &end, &e) || !b.n)
			break;
		struct str rest = {b.p, b.n};
		while (event_line_next(&rest, &at, &l)) {
			uint64_t before = src->end;
			src->end = l.after;
			for (struct feed *f = src->feeds; f; f = f->of_source)
				if (f->offset == before && !f->stream->behind && !send_line(f, &l))
					f->stream->behind = true;
		}
	}
	leave();
}

// --- sources ---

static void on_news(struct watch *w, uint32_t events);

static int open_news(struct err *e)
{
	if (all.news.fd >= 0)
		return 0;
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	all.news.fn = on_news;
	return fd < 0 ? err_sys(e, "inotify") : loop_add(all.loop, &all.news, fd, LOOP_IN, e);
}

static struct source *source_get(const char *id, struct err *e)
{
	char path[48];
	for (struct source *s = all.sources; s; s = s->next)
		if (!strcmp(s->id, id))
			return s;
	uint64_t end, changed;
	if (open_news(e))
		return NULL;
	auto_fd int dir = engine_journal_dir(all.engine, id, e);
	if (dir < 0 || fmt_to(path, sizeof path, "/proc/self/fd/%d", dir))
		return NULL;
	int wd = inotify_add_watch(all.news.fd, path, IN_MODIFY | IN_CREATE | IN_MOVE_SELF | IN_DELETE_SELF);
	if (wd < 0) {
		err_sys(e, "watch the journal of %s (fs.inotify.max_user_watches)", id);
		return NULL;
	}
	if (engine_journal_end(all.engine, id, &end, &changed, e)) { // behind the watch: nothing is missed
		inotify_rm_watch(all.news.fd, wd);
		return NULL;
	}
	struct source *s = xcalloc(1, sizeof *s);
	*s = (struct source){.wd = wd, .end = end, .next = all.sources, .same_slot = all.by_wd[wd % WDS]};
	memcpy(s->id, id, strlen(id) + 1);
	all.sources = all.by_wd[wd % WDS] = s;
	return s;
}

static void source_drop(struct source *s)
{
	list_unlink(&all.sources, s, next);
	list_unlink(&all.by_wd[s->wd % WDS], s, same_slot);
	inotify_rm_watch(all.news.fd, s->wd);
	free(s);
}

static void feed_drop(struct feed *f)
{
	list_unlink(&f->stream->feeds, f, of_stream);
	struct source *src = f->source;
	list_unlink(&src->feeds, f, of_source);
	free(f);
	if (!src->feeds)
		source_drop(src);
}

static struct feed *feed_new(struct stream *s, const char *id, struct err *e)
{
	struct source *src = source_get(id, e);
	if (!src)
		return NULL;
	struct feed *f = xcalloc(1, sizeof *f);
	*f = (struct feed){.source = src, .stream = s, .offset = src->end, .of_source = src->feeds, .of_stream = s->feeds};
	src->feeds = s->feeds = f;
	return f;
}

static void stream_done(struct request *r);

// Its sandbox is gone: no more will come. The last events lie in the journal that is kept.
static void source_end(struct source *src)
{
	enter();
	pump(src);
	src->ended = all.waste = true;
	for (struct feed *f = src->feeds; f; f = f->of_source) {
		struct request *r = f->stream->r;
		if (f->stream->dead || f->stream->all)
			continue;
		stream_done(r);
		request_finish(r);
	}
	leave();
}

static void on_news(struct watch *w, uint32_t events)
{
	char bytes[8192] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n = read(w->fd, bytes, sizeof bytes);
	(void)events;
	enter();
	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *ev = (const struct inotify_event *)(bytes + at);
		at += (ssize_t)(sizeof *ev + ev->len);
		for (struct source *s = ev->mask & IN_Q_OVERFLOW ? all.sources : NULL, *next; s; s = next) {
			next = s->next;
			pump(s);
		}
		struct source *s = ev->wd >= 0 ? all.by_wd[ev->wd % WDS] : NULL;
		while (s && s->wd != ev->wd)
			s = s->same_slot;
		if (s && ev->mask & (IN_MOVE_SELF | IN_DELETE_SELF))
			source_end(s);
		else if (s)
			pump(s);
	}
	leave();
}

// --- streams ---

static void stream_free(struct stream *s)
{
	while (s->feeds)
		feed_drop(s->feeds);
	strv_free(s->types);
	free(s);
}

static void sweep(void)
{
	all.waste = false;
	for (struct stream **p = &all.streams; *p;) {
		struct stream *s = *p;
		if (!s->dead) {
			p = &s->next;
			continue;
		}
		*p = s->next;
		stream_free(s);
	}
	for (struct source *s = all.sources, *next; s; s = next) {
		next = s->next;
		for (struct feed *f = s->ended ? s->feeds : NULL, *rest; f; f = rest) {
			rest = f->of_source;
			feed_drop(f); // s goes with the last
		}
	}
}

static void stream_done(struct request *r)
{
	struct stream *s = r->ctx;
	r->ctx = NULL;
	r->on_gone = r->on_drain = NULL;
	s->dead = all.waste = true;
	s->r = NULL;
	if (!--all.n)
		timer_clear(all.loop, &all.beat);
	if (!all.busy)
		sweep();
}

static void on_new(void *ctx, const struct sandbox *row)
{
	struct err e;
	(void)ctx;
	for (struct stream *s = all.streams; s; s = s->next) {
		if (!s->all || s->dead || !request_sees(s->r, row))
			continue;
		struct feed *f = feed_new(s, row->id, &e);
		if (!f)
			log_line(LOG_WARN, "events: %s", e.msg);
	}
}

// So that both sides, and what is between them, know that the other is there.
static void on_beat(struct timer *t)
{
	timer_set(all.loop, t, BEAT_MS);
	enter();
	for (struct stream *s = all.streams; s; s = s->next)
		if (!s->dead && !s->behind)
			request_write(s->r, ":\n\n", 3);
	leave();
}

static void begin(struct request *r, struct stream *s)
{
	static const char hello[] = "retry: 2000\n\n";
	s->next = all.streams;
	all.streams = s;
	if (!all.n++) {
		all.beat.fn = on_beat;
		timer_set(all.loop, &all.beat, BEAT_MS);
	}
	engine_on_new(r->engine, on_new, NULL);
	r->ctx = s;
	r->type = "text/event-stream";
	r->trickles = true;
	r->on_drain = on_drain;
	r->on_gone = stream_done;
	request_set_header(r, "X-Accel-Buffering", "no"); // nginx would keep them to itself
	request_stream(r, 200);
	request_write(r, hello, sizeof hello - 1);
	catch_up_all(s);
}

static struct stream *stream_new(struct request *r, bool of_all, struct err *e)
{
	const char *types = request_query(r, "type");
	all.loop = request_loop(r);
	all.engine = r->engine;
	if (all.n >= STREAMS_MAX) {
		err_set(e, ERR_LIMIT, "%d clients follow events already", STREAMS_MAX);
		return NULL;
	}
	struct stream *s = xcalloc(1, sizeof *s);
	*s = (struct stream){.r = r, .all = of_all};
	struct str rest = str_of(types ? types : ""), one;
	while (str_next(&rest, ',', &one)) {
		auto_free char *t = xstrndup(one.p, one.n);
		if (one.n)
			strv_add(&s->types, t);
	}
	return s;
}

static void give_up(struct request *r, struct stream *s, const struct err *e)
{
	if (s)
		stream_free(s);
	request_fail(r, e);
}

void get_sandbox_events(struct request *r)
{
	struct err e;
	const char *last = request_header(r, "Last-Event-ID"), *from = last ? last : request_query(r, "offset");
	const struct sandbox *row = engine_peek(r->engine, r->parts[0], &e);
	struct stream *s = row ? stream_new(r, false, &e) : NULL;
	struct feed *f = s ? feed_new(s, row->id, &e) : NULL;
	uint64_t offset = 0;
	if (!f) {
		give_up(r, s, &e);
	} else if (from && str_to_u64(str_of(from), 0, f->source->end, &offset)) {
		err_set(&e, ERR_INVALID, "%s is not the id of an event of this sandbox", last ? "Last-Event-ID" : "offset");
		give_up(r, s, &e);
	} else {
		if (from)
			f->offset = offset;
		begin(r, s);
	}
}

// --- all of them ---

struct resume {
	struct stream *s;
	struct event_id last; // time.n 0 = there was none
	struct err e;
	bool failed;
};

// The offset of the first event at or behind that time.
static uint64_t offset_at(const struct feed *f, struct str time)
{
	struct err e;
	struct event_line l;
	uint64_t at = 0, end;
	for (;;) {
		auto_buf struct buf b = BUF_INIT(ANSWER_MAX);
		uint64_t start = at;
		if (engine_journal_peek(all.engine, f->source->id, at, &b, &end, &e) || !b.n)
			return at;
		struct str rest = {b.p, b.n};
		for (uint64_t before = at; event_line_next(&rest, &at, &l); before = at)
			if (l.time.n == time.n && memcmp(l.time.p, time.p, time.n) >= 0)
				return before;
		if (at == start)
			return at;
	}
}

static void add_feed(void *ctx, const struct sandbox *row)
{
	struct resume *m = ctx;
	uint64_t end, changed;
	char iso[32];
	if (m->failed || !request_sees(m->s->r, row))
		return;
	struct feed *f = feed_new(m->s, row->id, &m->e);
	m->failed = !f;
	if (!f || !m->last.time.n)
		return;
	if (str_is(m->last.sandbox, row->id)) {
		f->offset = m->last.offset < f->source->end ? m->last.offset : f->source->end;
	} else if (!engine_journal_end(all.engine, row->id, &end, &changed, &m->e)) {
		clock_iso(changed, iso);
		if (strlen(iso) != m->last.time.n || memcmp(iso, m->last.time.p, m->last.time.n) >= 0) // else nothing has come since
			f->offset = offset_at(f, m->last.time);
	}
}

void get_events(struct request *r)
{
	struct err e;
	const char *last = request_header(r, "Last-Event-ID");
	struct stream *s = stream_new(r, true, &e);
	struct resume m = {.s = s};
	if (!s || (last && event_id_parse(last, &m.last, &e))) {
		give_up(r, s, &e);
		return;
	}
	engine_each(r->engine, add_feed, &m);
	if (m.failed)
		give_up(r, s, &m.e);
	else
		begin(r, s);
}

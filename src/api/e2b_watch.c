// SPDX-License-Identifier: Apache-2.0
// Watching directories: as a stream (WatchDir), or by asking again (CreateWatcher, GetWatcherEvents). Both are one inotify
// operation inside, whose records are told in their order; an event that shall carry its entry waits until that was looked up.
#include "api/e2b_entry.h"
#include "api/e2b_envd_int.h"
#include "base/mem.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WATCHERS_MAX 256    // of all sandboxes
#define RECORD_MAX (1u << 20) // of one event that has not come whole
#define KEPT_MAX (4u << 20) // bytes of events that nobody has asked for
#define QUEUE_MAX 4096	    // events that wait for their entries; more of them go without

struct event {
	enum file_event what;
	char *name;
	struct event *next;
};

struct watcher {
	struct watcher *next;
	struct envd_call *c; // until the watch has begun
	struct engine *g;
	struct loop *loop;
	char sandbox[ID_SIZE], id[ID_SIZE];
	char *user, *path;
	bool include, polled, looking, lost, over;
	struct job_run *job; // NULL once it has ended
	struct buf in;
	struct event *first, **last;
	size_t n_queued;
	struct rpc_stream s;
	struct e2b_stream live;
	struct buf kept; // polled: events as JSON, with commas
	struct envd_call *asked; // polled: answered when all that has happened was told
	bool told;		 // all was told, but perhaps not looked up
};

static struct watcher *all;

static void watcher_free(void *obj)
{
	struct watcher *w = obj;
	while (w->first) {
		struct event *ev = w->first;
		w->first = ev->next;
		free(ev->name);
		free(ev);
	}
	buf_done(&w->in);
	buf_done(&w->kept);
	free(w->user);
	free(w->path);
	free(w);
}

static void drop(struct watcher *w)
{
	if (w->over)
		return;
	w->over = true;
	if (w->asked)
		envd_error(w->asked, RPC_NOT_FOUND, "the watcher is gone");
	w->asked = NULL;
	list_unlink(&all, w, next);
	e2b_stream_del(&w->live);
	if (w->job)
		job_close(w->job);
	w->job = NULL;
	if (!w->looking) // else the look does it
		loop_bury(w->loop, w, watcher_free);
}

// --- telling ---

static const char *name_of(enum file_event ev)
{
	switch (ev) {
	case FILE_CREATE:
		return "EVENT_TYPE_CREATE";
	case FILE_WRITE:
		return "EVENT_TYPE_WRITE";
	case FILE_REMOVE:
		return "EVENT_TYPE_REMOVE";
	case FILE_RENAME:
		return "EVENT_TYPE_RENAME";
	case FILE_CHMOD:
		return "EVENT_TYPE_CHMOD";
	case FILE_READY:
	case FILE_OVERFLOW:
	case FILE_EVENTS:
		break;
	}
	return NULL;
}

static void write_event(struct jsonw *j, const struct event *ev, const struct entry *n)
{
	jw_open(j, '{');
	jw_kstr(j, "name", ev->name);
	jw_kstr(j, "type", name_of(ev->what));
	if (n) {
		jw_key(j, "entry");
		entry_info(j, n);
	}
	jw_close(j, '}');
}

static void keep(struct watcher *w, const struct event *ev, const struct entry *n)
{
	struct jsonw j = {.b = &w->kept, .comma = w->kept.n > 0};
	if (w->kept.n > KEPT_MAX - RECORD_MAX)
		w->lost = true;
	else
		write_event(&j, ev, n);
}

static void tell(struct watcher *w, const struct event *ev, const struct entry *n)
{
	auto_buf struct buf b = BUF_INIT(RECORD_MAX);
	struct jsonw j = {.b = &b};
	if (w->polled) {
		keep(w, ev, n);
		return;
	}
	jw_open(&j, '{');
	jw_key(&j, "filesystem");
	write_event(&j, ev, n);
	jw_close(&j, '}');
	rpc_stream_send(&w->s, &b);
	if (w->s.full && w->job)
		job_pause(w->job, true);
}

static void pump(struct watcher *w);

static void answer_events(struct watcher *w)
{
	struct envd_call *c = w->asked;
	if (!c || !w->told || w->first)
		return;
	w->asked = NULL;
	if (w->lost) {
		w->lost = false;
		buf_clear(&w->kept);
		envd_error(c, RPC_INTERNAL, "more happened than could be kept: look at the directory itself");
		return;
	}
	buf_str(&c->r->answer, "{\"events\":[");
	buf_add(&c->r->answer, w->kept.p, w->kept.n);
	buf_str(&c->r->answer, "]}");
	buf_clear(&w->kept);
	envd_answer(c, 200);
}

static void on_entry(void *ctx, const struct err *e, struct buf *out)
{
	struct watcher *w = ctx;
	struct event *ev = w->first;
	struct entry n;
	struct wire wire = {.p = out ? (const uint8_t *)out->p : NULL, .n = out ? out->n : 0};
	w->looking = false;
	if (w->over) {
		loop_bury(w->loop, w, watcher_free);
		return;
	}
	bool found = !e && !entry_read(&wire, &n);
	w->first = ev->next;
	w->n_queued--;
	if (!w->first)
		w->last = &w->first;
	tell(w, ev, found ? &n : NULL);
	if (found)
		entry_done(&n);
	free(ev->name);
	free(ev);
	if (!w->over)
		pump(w);
}

static void look(struct watcher *w, const struct event *ev)
{
	auto_free char *path = xasprintf("%s/%s", w->path, ev->name);
	const char *argv[] = {"for", w->user, "entry", path, NULL};
	w->looking = true;
	engine_job(w->loop, w->g, &(struct job){.sandbox = w->sandbox, .argv = (char *const *)argv, .max = 256 << 10},
		   (struct job_done){on_entry, w});
}

static void pump(struct watcher *w)
{
	while (w->first && !w->looking && !w->over) {
		struct event *ev = w->first;
		bool there = ev->what == FILE_CREATE || ev->what == FILE_WRITE || ev->what == FILE_CHMOD;
		if (w->include && there && w->n_queued < QUEUE_MAX) {
			look(w, ev);
			return;
		}
		w->first = ev->next;
		w->n_queued--;
		if (!w->first)
			w->last = &w->first;
		tell(w, ev, NULL);
		free(ev->name);
		free(ev);
	}
	answer_events(w);
}

// --- the operation ---

static void on_ready(struct watcher *w)
{
	auto_buf struct buf b = BUF_INIT(64);
	struct envd_call *c = w->c;
	struct request *r = c->r;
	w->c = NULL;
	if (w->polled) {
		struct jsonw j = {.b = &r->answer};
		jw_open(&j, '{');
		jw_kstr(&j, "watcherId", w->id);
		jw_close(&j, '}');
		envd_answer(c, 200);
		return;
	}
	envd_call_free(c);
	buf_str(&b, "{\"start\":{}}");
	e2b_stream_add(&w->live, w->sandbox);
	rpc_stream_begin(&w->s, r);
	rpc_stream_send(&w->s, &b);
}

static void on_lost(struct watcher *w)
{
	if (w->polled) {
		w->lost = true;
		return;
	}
	rpc_stream_end(&w->s, RPC_INTERNAL, "error watching path: more happened than could be told");
	drop(w);
}

static void on_record(struct watcher *w, enum file_event what, char *name)
{
	if (what == FILE_READY && w->c) {
		on_ready(w);
	} else if (what == FILE_READY) {
		w->told = true;
		answer_events(w);
	} else if (what == FILE_OVERFLOW && !w->c) {
		on_lost(w);
	}
	if (!name_of(what) || !*name || w->c) {
		free(name);
		return;
	}
	struct event *ev = xcalloc(1, sizeof *ev);
	*ev = (struct event){what, name, NULL};
	*w->last = ev;
	w->last = &ev->next;
	w->n_queued++;
	pump(w);
}

static void on_data(void *ctx, const void *p, size_t n)
{
	struct watcher *w = ctx;
	buf_add(&w->in, p, n);
	struct wire rest = {.p = (const uint8_t *)w->in.p, .n = w->in.n};
	while (!w->over && rest.n) {
		struct wire one = rest;
		enum file_event what = (enum file_event)wire_get_u8(&one);
		(void)wire_get_u8(&one); // whether it is a directory
		char *name = wire_get_str(&one);
		if (one.bad || !name) {
			free(name);
			break; // not whole yet
		}
		rest = one;
		on_record(w, what, name);
	}
	if (!w->over)
		buf_cut(&w->in, w->in.n - rest.n);
	if (!w->over && (w->in.n > RECORD_MAX || w->in.overflow))
		on_lost(w);
}

static void on_end(void *ctx, const struct err *e)
{
	struct watcher *w = ctx;
	w->job = NULL;
	if (w->c) {
		struct err none;
		err_set(&none, ERR_SYSTEM, "the watch ended before it began");
		envd_fail(w->c, e ? e : &none);
		w->c = NULL;
	} else if (!w->polled) { // without an end: the client looks whether the sandbox lives
		rpc_stream_cut(&w->s);
	}
	drop(w);
}

static const struct job_ops ops = {.data = on_data, .end = on_end};

static void on_gone(struct rpc_stream *s)
{
	drop(container_of(s, struct watcher, s));
}

static void on_drained(struct rpc_stream *s)
{
	struct watcher *w = container_of(s, struct watcher, s);
	if (w->job)
		job_pause(w->job, false);
}

static void on_cut(struct e2b_stream *l)
{
	struct watcher *w = container_of(l, struct watcher, live);
	rpc_stream_cut(&w->s);
	drop(w);
}

static bool too_many(void)
{
	size_t n = 0;
	for (const struct watcher *w = all; w; w = w->next)
		n++;
	return n >= WATCHERS_MAX;
}

static void begin(struct envd_call *c, bool polled)
{
	const char *path = NULL;
	bool recursive = false, include = false;
	struct err e;
	if (proto_str(c->msg, "path", &path, &e) || proto_bool(c->msg, "recursive", &recursive, &e) ||
	    proto_bool(c->msg, "includeEntry", &include, &e)) {
		envd_fail(c, &e);
		return;
	}
	if (too_many()) {
		envd_error(c, RPC_RESOURCE_EXHAUSTED, "too many directories are watched: end other watches first");
		return;
	}
	struct watcher *w = xcalloc(1, sizeof *w);
	*w = (struct watcher){.c = c, .g = c->g, .loop = c->loop, .user = xstrdup(c->user), .path = xstrdup(path && *path ? path : "~"),
			      .include = include, .polled = polled, .in = BUF_INIT(2 * RECORD_MAX), .kept = BUF_INIT(KEPT_MAX),
			      .next = all, .live.cut = on_cut,
			      .s = {.keepalive = "{\"keepalive\":{}}", .gone = on_gone, .drained = on_drained}};
	memcpy(w->sandbox, c->sandbox, sizeof w->sandbox);
	w->last = &w->first;
	id_make('w', w->id);
	all = w;
	const char *argv[] = {"for", w->user, "inotify", w->path, recursive ? "recursive" : NULL, NULL};
	w->job = job_open(w->loop, w->g, &(struct job){.sandbox = w->sandbox, .argv = (char *const *)argv}, &ops, w);
}

void filesystem_watch_dir(struct envd_call *c)
{
	begin(c, false);
}

void filesystem_create_watcher(struct envd_call *c)
{
	begin(c, true);
}

static struct watcher *polled(struct envd_call *c)
{
	const char *id = NULL;
	struct err e;
	struct watcher *w = all;
	if (proto_str(c->msg, "watcherId", &id, &e)) {
		envd_fail(c, &e);
		return NULL;
	}
	while (w && (!w->polled || w->c || strcmp(w->id, id ? id : "") || strcmp(w->sandbox, c->sandbox)))
		w = w->next;
	if (!w) {
		auto_free char *why = xasprintf("watcher with id %.40s not found", id ? id : "");
		envd_error(c, RPC_NOT_FOUND, why);
	}
	return w;
}

void filesystem_get_watcher_events(struct envd_call *c)
{
	struct watcher *w = polled(c);
	if (!w)
		return;
	if (w->asked) {
		envd_error(c, RPC_ABORTED, "its events are being asked for already");
		return;
	}
	w->asked = c;
	w->told = false;
	job_send(w->job, "", 1);
}

void filesystem_remove_watcher(struct envd_call *c)
{
	struct watcher *w = polled(c);
	if (!w)
		return;
	drop(w);
	envd_answer(c, 200);
}

void watches_forget(void)
{
	while (all) {
		struct watcher *w = all;
		rpc_stream_cut(&w->s);
		drop(w);
	}
}

// SPDX-License-Identifier: Apache-2.0
// watch: what changes in a sandbox, while it happens.
//
// Nothing is left out and nothing told twice, whatever breaks. A line that breaks goes on where it was (cli/live.h). Where the job
// itself has ended, a new one is begun, and what was recorded meanwhile is told from the journal: changes behind the last number
// that was shown, and commands behind the last one that was shown, which come in the journal's order but have no number of their own.
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/live.h"
#include "cli/out.h"
#include "cli/term.h"
#include "cli/verbs.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BURST_MAX 2000 // changes held back to find renames among them
#define BURST_BYTES (32u << 20)
#define RESTARTS 5 // of a watch that was ended inside

struct held {
	struct live_state s;
	uint64_t number;
	char *body;
	bool over; // shown with another
};

struct watch {
	const struct call *call;
	const struct watch_opts *o;
	struct api *api;
	char *id, *repo;
	bool colour, ready, quit;
	uint64_t from;	   // what has a number up to here was never asked for
	uint64_t told;	   // changes up to this number were shown
	uint64_t shown_to; // numbers up to here were told from the journal
	char *mark;	   // the last command's start or end that was shown
	char **past;	   // those told from the journal, which the job may yet tell
	struct held *held;
	size_t n_held, bytes;
};

#define O(member) AT(struct watch_opts, member)
static const struct opt watch_opts[] = {
	FLAG(O(ask), "interactive", 'i', "ask about each change: apply, dismiss or leave it"),
	VALUE(OPT_COUNT, O(from), "from", 0, "SEQ", "first tell what was recorded behind this number"),
	CHOICE(O(color), "color", 0, "WHEN", "colour the changes", "auto|always|never"),
	FLAG(O(json), "json", 0, "print JSON, a line each, with the number to go on from"),
	OPTS_END,
};

// --- a burst ---

static void hold(struct watch *w, const struct live_record *r)
{
	struct held h = {.number = r->number, .body = xcalloc(1, r->n + 1)};
	memcpy(h.body, r->body, r->n);
	if (live_read_state(h.body, r->n, &h.s)) {
		free(h.body);
		return;
	}
	if (!(w->n_held & (w->n_held - 1)))
		w->held = xrealloc(w->held, (w->n_held ? w->n_held * 2 : 1) * sizeof *w->held);
	w->held[w->n_held++] = h;
	w->bytes += r->n;
}

// The same content under another name.
static struct held *find_from(struct watch *w, const struct held *to)
{
	for (size_t i = 0; to->s.kind == 'A' && to->s.has_after && to->s.size && i < w->n_held; i++) {
		struct held *h = &w->held[i];
		if (!h->over && h->s.kind == 'D' && h->s.has_before && !memcmp(h->s.before, to->s.after, sizeof to->s.after))
			return h;
	}
	return NULL;
}

static int show(struct watch *w, const struct held *h, const char *from)
{
	auto_buf struct buf b = BUF_INIT(32u << 20);
	const struct shown *was = shown_find(from ? from : h->s.path);
	if (w->o->json) {
		watch_json(&b, was, &h->s, from, h->number);
		return out_json_line(&b);
	}
	watch_text(&b, was, &h->s, from, w->colour);
	return out_flush(&b);
}

static int end_burst(struct watch *w, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < w->n_held; i++) { // both ends of a rename are known before either is shown
		struct held *from = find_from(w, &w->held[i]);
		if (from && !rc && !(w->shown_to && w->held[i].number <= w->shown_to)) {
			from->over = w->held[i].over = true;
			rc = show(w, &w->held[i], from->s.path);
		}
	}
	for (size_t i = 0; i < w->n_held; i++) {
		struct held *h = &w->held[i];
		bool past = w->shown_to && h->number <= w->shown_to;
		if (!h->over && !past && !rc)
			rc = show(w, h, NULL);
		shown_put(&h->s);
		if (!rc && h->number > w->told)
			w->told = h->number;
	}
	for (size_t i = 0; i < w->n_held && !rc && !w->quit && w->o->ask; i++)
		if (!w->held[i].s.base) {
			int asked = watch_ask(w->call, w->api, w->id, w->repo, w->held[i].s.path, e);
			if (asked < 0)
				return -1;
			w->quit = asked;
		}
	while (w->n_held)
		free(w->held[--w->n_held].body);
	w->bytes = 0;
	return rc ? err_set(e, ERR_SYSTEM, "output failed") : 0;
}

// --- commands ---

static void put_command(struct buf *b, const json_t *argv)
{
	size_t i;
	json_t *v;
	json_array_foreach(argv, i, v)
	{
		buf_str(b, i ? " " : "");
		out_text(b, json_string_value(v) ? json_string_value(v) : "?");
	}
}

static char *name_event(const json_t *ev, bool end)
{
	return xasprintf("%s %s", end ? "exit" : "start", json_str(ev, "exec"));
}

static void set_mark(struct watch *w, const char *name)
{
	free(w->mark);
	w->mark = xstrdup(name);
}

// They come in order: the first one that the journal did not tell is behind all that it told.
static bool was_told(struct watch *w, const char *name)
{
	for (char **p = w->past; p && *p; p++)
		if (!strcmp(*p, name))
			return true;
	strv_free(w->past);
	w->past = NULL;
	return false;
}

static int show_exec(struct watch *w, const json_t *ev, uint64_t number)
{
	auto_buf struct buf b = BUF_INIT(1 << 20), argv = BUF_INIT(1 << 20);
	bool end = !strcmp(json_str(ev, "event"), "exit");
	auto_free char *name = name_event(ev, end);
	if (was_told(w, name))
		return 0;
	set_mark(w, name);
	if (w->o->json) {
		struct jsonw j = {.b = &b};
		jw_open(&j, '{');
		jw_ku64(&j, "seq", number);
		jw_kstr(&j, "type", end ? "exec.exit" : "exec.start");
		jw_kstr(&j, "exec", json_str(ev, "exec"));
		json_print(&argv, json_object_get(ev, "argv"), 0);
		jw_key(&j, "argv");
		jw_raw(&j, buf_cstr(&argv));
		if (end)
			jw_ku64(&j, "status", json_u64(ev, "status"));
		jw_close(&j, '}');
		return out_json_line(&b);
	}
	if (!end)
		return 0;
	buf_str(&b, w->colour ? "\033[2m" : "");
	buf_str(&b, "== after `");
	put_command(&b, json_object_get(ev, "argv"));
	buf_fmt(&b, "`, status %llu%s\n", (unsigned long long)json_u64(ev, "status"), w->colour ? "\033[m" : "");
	return out_flush(&b);
}

static int tell_ready(struct watch *w, uint64_t number)
{
	auto_buf struct buf b = BUF_INIT(256);
	if (w->ready)
		return 0;
	w->ready = true;
	if (w->o->from == OPT_UNSET)
		w->from = number;
	if (w->o->json) {
		buf_fmt(&b, "{\"seq\":%llu,\"type\":\"ready\"}", (unsigned long long)number);
		return out_json_line(&b);
	}
	buf_fmt(&b, "watching %s%s\n", w->id, w->o->ask ? " (q and Enter ends)" : "");
	if (isatty(STDERR_FILENO))
		out_stderr(&b);
	return 0;
}

static int on_record(struct watch *w, const struct live_record *r, struct err *e)
{
	struct live_state s;
	struct err bad;
	if (r->type == 'B' && !live_read_state(r->body, r->n, &s) && !shown_find(s.path))
		shown_put(&s);
	if (r->type == 'C')
		hold(w, r);
	if (r->type == 'K' || r->type == 'E' || w->n_held >= BURST_MAX || w->bytes >= BURST_BYTES)
		if (end_burst(w, e))
			return -1;
	if (r->type == 'K' && tell_ready(w, r->number))
		return err_set(e, ERR_SYSTEM, "output failed");
	if (r->type != 'E')
		return 0;
	auto_json json_t *ev = json_read(r->body, r->n, &bad);
	return ev && show_exec(w, ev, r->number) ? err_set(e, ERR_SYSTEM, "output failed") : 0;
}

// --- what was recorded ---

// behind: the mark was met, or there is none.
static bool is_missed(struct watch *w, const json_t *ev, bool *behind)
{
	uint64_t seq = json_u64(ev, "seq");
	const char *type = json_str(ev, "type");
	if (!strcmp(type, "file.changed"))
		return seq > w->told && seq > w->from;
	bool end = !strcmp(type, "exec.exit");
	if (!end && strcmp(type, "exec.start"))
		return false;
	auto_free char *name = name_event(ev, end);
	if (!*behind) {
		*behind = !strcmp(name, w->mark);
		return false;
	}
	if (seq <= w->from)
		return false;
	set_mark(w, name);
	strv_add(&w->past, name);
	return true;
}

static int show_past(struct watch *w, const json_t *ev)
{
	static const char *const members[] = {"path", "path_b64", "kind",  "before", "after",	"executable", "as_base",
					      "exec", "execs",	  "count", "argv",   "status"};
	auto_buf struct buf b = BUF_INIT(1 << 20);
	struct jsonw j = {.b = &b};
	const char *type = json_str(ev, "type");
	bool file = !strcmp(type, "file.changed");
	if (!w->o->json) {
		if (!file)
			return 0;
		buf_str(&b, json_object_get(ev, "count") ? "(more changed than was recorded one by one: see skep diff)" : json_str(ev, "kind"));
		buf_byte(&b, ' ');
		out_text(&b, json_str(ev, "path"));
		buf_byte(&b, '\n');
		return out_flush(&b);
	}
	jw_open(&j, '{');
	jw_ku64(&j, "seq", json_u64(ev, "seq"));
	jw_kstr(&j, "type", !file ? type : json_object_get(ev, "count") ? "more" : "change");
	for (size_t i = 0; i < countof(members); i++) {
		const json_t *v = json_object_get(ev, members[i]);
		auto_buf struct buf text = BUF_INIT(1 << 20);
		if (!v)
			continue;
		json_print(&text, v, 0);
		jw_key(&j, members[i]);
		jw_raw(&j, buf_cstr(&text));
	}
	jw_close(&j, '}');
	return out_json_line(&b);
}

static int show_lines(struct watch *w, struct str rest, bool *behind)
{
	struct str line;
	struct err bad;
	while (str_next(&rest, '\n', &line)) {
		auto_json json_t *ev = json_read(line.p, line.n, &bad);
		if (ev && is_missed(w, ev, behind) && show_past(w, ev))
			return -1;
		if (ev)
			w->shown_to = json_u64(ev, "seq");
	}
	return 0;
}

// The watch is on already: what comes by it with a number told here is not told twice.
static int tell_past(struct watch *w, struct err *e)
{
	bool behind = !w->mark;
	for (uint64_t at = 0;;) {
		auto_http_reply struct http_reply r = {0};
		auto_free char *query = xasprintf("journal?offset=%llu", (unsigned long long)at);
		auto_free char *path = api_path("/v1/sandboxes", w->id, query);
		if (api_bytes(w->api, path, &r, e))
			return -1;
		const char *last = r.body.n ? memrchr(r.body.p, '\n', r.body.n) : NULL;
		if (!last)
			break;
		at += (size_t)(last - r.body.p) + 1;
		if (show_lines(w, (struct str){r.body.p, (size_t)(last - r.body.p)}, &behind))
			return err_set(e, ERR_SYSTEM, "output failed");
	}
	return 0;
}

// --- the watch ---

static int attach(struct watch *w, struct live *l, struct err *e)
{
	auto_free char *path = api_path("/v1/sandboxes", w->id, "jobs");
	auto_json json_t *job = api_json(w->api, "POST", path, "{\"argv\":[\"watch\"]}", e);
	const json_t *at = job ? json_object_get(job, "attach") : NULL;
	if (!job)
		return -1;
	return live_open(l, json_str(at, "socket"), json_str(at, "ticket"), e);
}

static int wait_more(struct watch *w, struct live *l, struct err *e)
{
	struct pollfd fds[] = {{.fd = l->fd, .events = POLLIN}, {.fd = w->o->ask ? STDIN_FILENO : -1, .events = POLLIN}};
	int n = poll(fds, 2, live_wait_ms(l));
	if (n < 0)
		return errno == EINTR ? 0 : err_sys(e, "poll");
	if (!n)
		live_alive(l);
	if (fds[1].revents && watch_ask_quits())
		w->quit = true;
	return fds[0].revents && !w->quit ? live_read(l, e) : 0;
}

static int follow(struct watch *w, struct live *l, struct err *e)
{
	struct live_record r;
	int rc = 0;
	while (!rc && !w->quit) {
		while (!w->quit && (rc = live_next(l, &r, e)) > 0)
			if (on_record(w, &r, e))
				return -1;
		if (rc < 0 || w->quit || l->ended)
			break;
		rc = wait_more(w, l, e);
	}
	return rc < 0 ? -1 : 0;
}

// 1, or 0; -1: nobody can say.
static int is_running(struct watch *w, struct err *e)
{
	auto_free char *path = api_path("/v1/sandboxes", w->id, NULL);
	auto_json json_t *box = api_json(w->api, "GET", path, NULL, e);
	const char *state = box ? json_str(box, "state") : "";
	if (!box)
		return e->kind == ERR_NOT_FOUND ? 0 : -1;
	return !strcmp(state, "running") || !strcmp(state, "paused");
}

static int watch(struct watch *w, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(256);
	for (int i = 0; i < RESTARTS; i++) {
		struct live l = LIVE_CLOSED;
		bool past = i || w->o->from != OPT_UNSET;
		int rc = attach(w, &l, e) || (past && tell_past(w, e)) || follow(w, &l, e) || end_burst(w, e) ? -1 : 0;
		live_close(&l);
		if (rc || w->quit)
			return rc;
		poll(NULL, 0, 200); // its cell may be ending with it
		int runs = is_running(w, e);
		if (runs < 0)
			return -1;
		if (!runs) {
			buf_fmt(&b, "skep: sandbox %s is no longer running\n", w->id);
			out_stderr(&b);
			return 0;
		}
	}
	return err_set(e, ERR_UNAVAILABLE, "a process inside ends the watch again and again");
}

static int open_box(struct watch *w, const char *word, struct err *e)
{
	auto_free char *id = word ? xstrdup(word) : api_default_id(w->api, e);
	auto_free char *path = id ? api_path("/v1/sandboxes", id, NULL) : NULL;
	auto_json json_t *box = path ? api_json(w->api, "GET", path, NULL, e) : NULL;
	if (!box)
		return -1;
	w->id = xstrdup(json_str(box, "id"));
	w->repo = xstrdup(json_str(box, "repo"));
	auto_free char *start = api_path("/v1/sandboxes", w->id, "start");
	return strcmp(json_str(box, "state"), "stopped") ? 0 : api_do(w->api, "POST", start, "{}", e);
}

static int watch_run(const struct call *c)
{
	struct err e;
	auto_api struct api a = API_CLOSED;
	struct watch w = {.call = c, .o = c->opts, .api = &a};
	w.colour = term_colour(w.o->color);
	if (w.o->ask && w.o->json) {
		err_set(&e, ERR_INVALID, "-i asks a person, --json is for programs: one of them");
		return out_usage(c, &e);
	}
	w.from = w.o->from == OPT_UNSET ? 0 : w.o->from;
	int rc = api_open(&a, &e) || open_box(&w, c->n_words ? c->words[0] : NULL, &e) || watch(&w, &e);
	while (w.n_held)
		free(w.held[--w.n_held].body);
	free(w.held);
	free(w.mark);
	strv_free(w.past);
	free(w.id);
	free(w.repo);
	return rc ? out_fail(c, &e) : 0;
}

const struct cmd cmd_watch = {
	.name = "watch",
	.args = "[ID]",
	.help = "show what changes in a sandbox, while it happens",
	.notes = "Each change is shown against what was shown before of that file, and each command when it has ended.\n"
		 "A sandbox that is stopped is started. With --json each line has a number: --from goes on behind it.\n"
		 "Whatever breaks, skepd too, it goes on by itself; nothing is left out or told twice.",
	.opts = watch_opts,
	.opts_size = sizeof(struct watch_opts),
	.max_words = 1,
	.tail = -1,
	.hint = HINT_SANDBOX,
	.run = watch_run,
};

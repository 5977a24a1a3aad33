// SPDX-License-Identifier: Apache-2.0
// Commands: one starts, and after a while the caller has its turn again, whether it has ended or not. What it says meanwhile is
// kept by the cell; another call goes on from the offset where the last one stopped.
#include "api/mcp_site_int.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/tap.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS 1000

struct running {
	struct mcp_call *c;
	struct tap *tap;
	struct timer yield, tick;
	struct excerpt out[2];
	char exec[ID_SIZE], sandbox[ID_SIZE];
	char *input; // for stdin; NULL = none
	size_t n_input, sent;
	bool eof;	// and then no more
	bool ours;	// this call started it: who cancels the call ends it
	bool begun;	// it has an id
	uint64_t since, yield_ms;
};

static void running_free(struct running *r)
{
	timer_clear(r->c->loop, &r->yield);
	timer_clear(r->c->loop, &r->tick);
	if (r->tap)
		tap_close(r->tap);
	excerpt_done(&r->out[0]);
	excerpt_done(&r->out[1]);
	free(r->input);
	free(r);
}

static void put_result(struct jsonw *w, const struct exec_result *res)
{
	jw_kstr(w, "state", res ? "exited" : "running");
	if (!res)
		return;
	jw_ku64(w, "exit_code", res->status);
	if (res->signal)
		jw_ku64(w, "signal", res->signal);
	if (res->timed_out)
		jw_kbool(w, "timed_out", true);
	if (res->reason)
		mcp_text(w, "reason", res->reason, strlen(res->reason));
}

static void put_stream(struct running *r, struct jsonw *w, const char *name, const struct excerpt *x)
{
	auto_free char *next = xasprintf("%s_next", name), *omitted = xasprintf("%s_omitted", name);
	excerpt_put(w, name, x);
	jw_ku64(w, next, x->next);
	if (!excerpt_omitted(x))
		return;
	jw_ku64(w, omitted, excerpt_omitted(x));
	auto_free char *uri = xasprintf("skep://exec/%s/%s", r->exec, name);
	mcp_answer_link(r->c, uri, name, "text/plain", x->next);
}

// res NULL: it goes on.
static void answer(struct running *r, const struct exec_result *res)
{
	struct mcp_call *c = r->c;
	struct jsonw w = mcp_answer_begin(c);
	jw_kstr(&w, "exec", r->exec);
	jw_kstr(&w, "sandbox", r->sandbox);
	put_result(&w, res);
	put_stream(r, &w, "stdout", &r->out[0]);
	put_stream(r, &w, "stderr", &r->out[1]);
	if (!res)
		jw_kstr(&w, "next", "It is still running: call run_poll with this exec, stdout_offset = stdout_next and stderr_offset = stderr_next; run_kill ends it.");
	else if (excerpt_omitted(&r->out[0]) || excerpt_omitted(&r->out[1]))
		jw_kstr(&w, "next", "Some output was omitted: call run_poll with this exec and stdout_offset or stderr_offset, or read the resource skep://exec/ID/STREAM.");
	running_free(r);
	mcp_answer_end(c, &w);
}

static void fail(struct running *r, const struct err *e)
{
	struct mcp_call *c = r->c;
	running_free(r);
	mcp_refuse_kind(c, e);
}

static void ignore(void *ctx, const struct err *e, const struct outcome *o)
{
	(void)ctx, (void)e, (void)o;
}

static void on_cancel(struct mcp_call *c)
{
	struct running *r = c->ctx;
	if (!r->begun)
		return; // on_exec sees it
	if (r->ours)
		engine_kill(c->engine, r->exec, SIGKILL, (struct done){ignore, NULL});
	answer(r, NULL);
}

static void on_yield(struct timer *t)
{
	answer(container_of(t, struct running, yield), NULL);
}

// The last line that was said.
static char *last_words(const struct running *r)
{
	const struct excerpt *x = r->out[1].next > r->out[0].next ? &r->out[1] : &r->out[0];
	const struct buf *b = x->tail.n ? &x->tail : &x->head;
	size_t end = b->n, at;
	while (end && (b->p[end - 1] == '\n' || b->p[end - 1] == '\r'))
		end--;
	for (at = end; at && b->p[at - 1] != '\n' && end - at < 200;)
		at--;
	return xstrndup(b->n ? b->p + at : "", end - at);
}

static void on_tick(struct timer *t)
{
	struct running *r = container_of(t, struct running, tick);
	auto_free char *words = last_words(r);
	timer_set(r->c->loop, &r->tick, TICK_MS);
	mcp_progress(r->c, clock_ms() - r->since + 1, 0, words); // may end it all
}

static void on_data(void *ctx, int stream, uint64_t offset, const void *p, size_t n)
{
	struct running *r = ctx;
	excerpt_add(&r->out[stream - 1], offset, p, n);
}

static void on_room(void *ctx, uint64_t received)
{
	struct running *r = ctx;
	(void)received;
	if (!r->tap || !r->input)
		return;
	r->sent += tap_send(r->tap, r->input + r->sent, r->n_input - r->sent);
	if (r->sent == r->n_input && r->eof)
		tap_eof(r->tap);
}

static void on_end(void *ctx, const struct err *e, const struct exec_result *res)
{
	struct running *r = ctx;
	struct err unread;
	r->tap = NULL; // closes itself
	if (res && !r->ours && r->sent < r->n_input) { // it ended before skepd knew
		err_set(&unread, ERR_CONFLICT, "exec %s has ended: there is nobody to read stdin", r->exec);
		e = &unread;
		res = NULL;
	}
	if (res)
		answer(r, res);
	else
		fail(r, e);
}

static const struct tap_ops ops = {.data = on_data, .room = on_room, .end = on_end};

// From here on it has an id, a ticket and a time.
static void begin(struct running *r, const struct outcome *o)
{
	struct err e;
	const uint64_t from[2] = {r->out[0].next, r->out[1].next};
	r->begun = true;
	r->since = clock_ms();
	if (r->c->cancelled) {
		on_cancel(r->c);
		return;
	}
	r->tap = tap_open(r->c->loop, r->c->engine, r->sandbox, o->ticket, from, &ops, r, &e);
	if (!r->tap) {
		fail(r, &e);
		return;
	}
	timer_set(r->c->loop, &r->yield, r->yield_ms ? r->yield_ms : 1);
	if (mcp_progress_token(r->c))
		timer_set(r->c->loop, &r->tick, TICK_MS);
}

static void on_exec(void *ctx, const struct err *e, const struct outcome *o)
{
	struct running *r = ctx;
	if (e) {
		fail(r, e);
		return;
	}
	if (fmt_to(r->exec, sizeof r->exec, "%s", o->exec_id) || fmt_to(r->sandbox, sizeof r->sandbox, "%s", o->sandbox->id))
		r->exec[0] = 0;
	begin(r, o);
}

static struct running *running_new(struct mcp_call *c, const json_t *args)
{
	struct running *r = xcalloc(1, sizeof *r);
	size_t max = mcp_arg_num(args, "max_output", MCP_OUTPUT_DEFAULT);
	const char *input = mcp_arg(args, "stdin");
	r->c = c;
	r->yield.fn = on_yield;
	r->tick.fn = on_tick;
	r->yield_ms = mcp_arg_num(args, "yield_ms", MCP_YIELD_DEFAULT);
	excerpt_init(&r->out[0], max, mcp_arg_num(args, "stdout_offset", 0));
	excerpt_init(&r->out[1], max, mcp_arg_num(args, "stderr_offset", 0));
	r->input = input ? xstrdup(input) : NULL;
	r->n_input = input ? strlen(input) : 0;
	c->ctx = r;
	c->on_cancel = on_cancel;
	return r;
}

void mcp_run(struct mcp_call *c, const json_t *args)
{
	static char shell[] = "/bin/sh", flag[] = "-c", script[] = "if command -v bash >/dev/null; then exec bash -c \"$1\"; else exec sh -c \"$1\"; fi", name[] = "sh";
	const char *cwd = mcp_arg(args, "cwd");
	const struct sandbox *s = mcp_box(c, args, SCOPE_RUN);
	if (!s)
		return;
	auto_free char *command = xstrdup(mcp_arg(args, "command"));
	char *argv[] = {shell, flag, script, name, command, NULL};
	struct running *r = running_new(c, args);
	bool open = mcp_arg_bool(args, "interactive");
	r->ours = true;
	r->eof = !open;
	struct exec_request x = {
		.argv = strv_copy(argv),
		.cwd = cwd ? *cwd == '/' ? xstrdup(cwd) : xasprintf("%s/%s", s->ws_path, cwd) : NULL,
		.want_stdin = open || r->input,
		.timeout_ms = mcp_arg_num(args, "timeout_ms", 0),
		.has_timeout = mcp_arg_num(args, "timeout_ms", 0),
	};
	if (x.want_stdin && !r->input)
		r->input = xstrdup("");
	engine_exec(c->engine, s->id, &x, (struct done){on_exec, r});
}

// --- another look ---

// Of a command that has ended: what was kept of it.
static int look_back(struct running *r, const char *stream, struct excerpt *x, struct err *e)
{
	auto_buf struct buf head = BUF_INIT(x->head.max), tail = BUF_INIT(x->tail.max / 2);
	uint64_t first, end, tail_first;
	if (engine_output(r->c->engine, r->exec, stream, x->next, &head, &first, &end, e))
		return -1;
	if (end > first)
		excerpt_add(x, first, head.p, head.n);
	uint64_t from = first + head.n > end - (end < tail.max ? end : tail.max) ? first + head.n : end - tail.max;
	if (from >= end)
		return 0;
	if (engine_output(r->c->engine, r->exec, stream, from, &tail, &tail_first, &end, e))
		return -1;
	excerpt_add(x, tail_first, tail.p, tail.n);
	return 0;
}

static void answer_ended(struct running *r, const struct exec_result *res)
{
	struct err e;
	if (look_back(r, "stdout", &r->out[0], &e) || look_back(r, "stderr", &r->out[1], &e))
		fail(r, &e);
	else
		answer(r, res);
}

static void on_attached(void *ctx, const struct err *e, const struct outcome *o)
{
	struct running *r = ctx;
	struct exec_row row;
	struct err other;
	if (!e) {
		begin(r, o);
		return;
	}
	if (e->kind != ERR_CONFLICT || engine_exec_get(r->c->engine, r->exec, &row, &other)) {
		fail(r, e);
		return;
	}
	if (row.running)
		fail(r, e);
	else
		answer_ended(r, &row.result); // it ended in between
	exec_row_done(&row);
}

void mcp_run_poll(struct mcp_call *c, const json_t *args)
{
	struct exec_row row;
	struct err e;
	if (mcp_exec(c, mcp_arg(args, "exec"), SCOPE_RUN, &row))
		return;
	struct running *r = running_new(c, args);
	r->eof = mcp_arg_bool(args, "eof");
	if (r->eof && !r->input)
		r->input = xstrdup("");
	memcpy(r->exec, row.id, sizeof r->exec);
	memcpy(r->sandbox, row.sandbox, sizeof r->sandbox);
	if (row.running) {
		engine_attach(c->engine, r->exec, (struct done){on_attached, r});
	} else if (r->n_input) {
		err_set(&e, ERR_CONFLICT, "exec %s has ended: there is nobody to read stdin", r->exec);
		fail(r, &e);
	} else {
		r->begun = true;
		answer_ended(r, &row.result);
	}
	exec_row_done(&row);
}

static void on_killed(void *ctx, const struct err *e, const struct outcome *o)
{
	struct mcp_call *c = ctx;
	(void)o;
	if (e) {
		mcp_refuse_kind(c, e);
		return;
	}
	struct jsonw w = mcp_answer_begin(c);
	jw_kstr(&w, "exec", mcp_arg(json_object_get(c->m.params, "arguments"), "exec"));
	jw_kbool(&w, "signalled", true);
	mcp_answer_end(c, &w);
}

void mcp_run_kill(struct mcp_call *c, const json_t *args)
{
	static const struct {
		const char *name;
		uint32_t number;
	} signals[] = {{"TERM", SIGTERM}, {"INT", SIGINT}, {"HUP", SIGHUP}, {"KILL", SIGKILL}};
	const char *name = mcp_arg(args, "signal");
	struct exec_row row;
	uint32_t number = SIGTERM;
	if (mcp_exec(c, mcp_arg(args, "exec"), SCOPE_RUN, &row))
		return;
	for (size_t i = 0; i < countof(signals); i++)
		if (name && !strcmp(name, signals[i].name))
			number = signals[i].number;
	engine_kill(c->engine, row.id, number, (struct done){on_killed, c});
	exec_row_done(&row);
}

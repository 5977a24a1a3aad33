// SPDX-License-Identifier: Apache-2.0
// One tap for each process, and any number of subscribers behind it. While nobody listens what it writes is thrown away; a
// slow listener makes it wait. A process outlives its listeners, and is remembered for a while after its end.
#include "api/e2b_process_int.h"

#include "base/base64.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define REMEMBERED_MS 30000
#define KILL_WAIT_MS 1000
#define CHUNK (32u << 10)
#define INPUT_MAX (16u << 20) // bytes that wait for a process that does not read

struct subscriber {
	struct rpc_stream s;
	struct e2b_stream live; // cut with its sandbox
	struct process *p;
	bool binds, gone;
	struct subscriber *next;
};

struct input {
	uint64_t upto; // of all bytes ever given
	void (*done)(void *ctx, const char *why);
	void *ctx;
	struct input *next;
};

struct killer {
	struct timer late;
	struct process *p;
	void (*done)(void *ctx);
	void *ctx;
	struct killer *next;
};

struct process {
	struct process *next;
	struct engine *g;
	struct loop *loop;
	char sandbox[ID_SIZE], exec[ID_SIZE];
	uint32_t pid;
	char *config, *tag;
	bool tty, has_stdin, closing, ended;
	struct tap *tap; // NULL once it has ended
	struct subscriber *subscribers;
	struct buf in;
	uint64_t in_given, in_taken;
	struct input *inputs;
	struct killer *killers;
	struct buf end; // the event
	bool timed_out;
	struct timer forget;
	void (*failed)(void *ctx, const char *why);
	void *failed_ctx;
};

static struct process *all; // one server in a process

// --- finding ---

struct process *process_by_pid(const char *sandbox, uint32_t pid)
{
	struct process *p = all; // newest first: a pid may be used again
	while (p && (p->pid != pid || strcmp(p->sandbox, sandbox)))
		p = p->next;
	return p;
}

struct process *process_by_tag(const char *sandbox, const char *tag)
{
	struct process *p = all;
	while (p && (!p->tag || strcmp(p->tag, tag) || strcmp(p->sandbox, sandbox)))
		p = p->next;
	return p;
}

struct process *process_by_exec(const char *exec)
{
	struct process *p = all;
	while (p && strcmp(p->exec, exec))
		p = p->next;
	return p;
}

void process_each(const char *sandbox, void (*each)(void *ctx, const struct process *p), void *ctx)
{
	for (const struct process *p = all; p; p = p->next)
		if (!p->ended && !strcmp(p->sandbox, sandbox))
			each(ctx, p);
}

bool process_has_ended(const struct process *p)
{
	return p->ended;
}

uint32_t process_pid(const struct process *p)
{
	return p->pid;
}

bool process_is_tty(const struct process *p)
{
	return p->tty;
}

bool process_has_stdin(const struct process *p)
{
	return p->has_stdin && !p->closing;
}

void process_write_info(struct jsonw *w, const struct process *p)
{
	jw_open(w, '{');
	jw_key(w, "config");
	jw_raw(w, p->config);
	jw_ku64(w, "pid", p->pid);
	jw_kstr(w, "tag", p->tag);
	jw_close(w, '}');
}

// --- input ---

static void input_done(struct process *p, const char *why)
{
	while (p->inputs && (why || p->inputs->upto <= p->in_taken)) {
		struct input *i = p->inputs;
		p->inputs = i->next;
		i->done(i->ctx, why);
		free(i);
	}
}

static void input_pump(struct process *p)
{
	size_t n = p->in.n ? tap_send(p->tap, p->in.p, p->in.n) : 0;
	buf_cut(&p->in, n);
	p->in_taken += n;
	if (p->closing && !p->in.n)
		tap_eof(p->tap);
	input_done(p, NULL);
}

void process_input(struct process *p, const void *bytes, size_t n, void (*done)(void *ctx, const char *why), void *ctx)
{
	struct input *i, **at = &p->inputs;
	if (p->in.n + n > INPUT_MAX) {
		done(ctx, "the process does not read its input");
		return;
	}
	i = xcalloc(1, sizeof *i);
	buf_add(&p->in, bytes, n);
	p->in_given += n;
	*i = (struct input){.upto = p->in_given, .done = done, .ctx = ctx};
	while (*at)
		at = &(*at)->next;
	*at = i;
	input_pump(p);
}

void process_close(struct process *p)
{
	p->closing = true;
	input_pump(p);
}

void process_resize(struct process *p, uint32_t rows, uint32_t cols)
{
	tap_resize(p->tap, rows, cols);
}

// --- the end ---

static void killer_end(struct killer *k)
{
	for (struct killer **at = &k->p->killers; *at; at = &(*at)->next)
		if (*at == k) {
			*at = k->next;
			break;
		}
	timer_clear(k->p->loop, &k->late);
	k->done(k->ctx);
	free(k);
}

static void on_kill_late(struct timer *t)
{
	killer_end(container_of(t, struct killer, late));
}

static void process_free(void *obj)
{
	struct process *p = obj;
	free(p->config);
	free(p->tag);
	buf_done(&p->in);
	buf_done(&p->end);
	free(p);
}

static void forget(struct process *p)
{
	for (struct process **at = &all; *at; at = &(*at)->next)
		if (*at == p) {
			*at = p->next;
			break;
		}
	timer_clear(p->loop, &p->forget);
	loop_bury(p->loop, p, process_free);
}

static void on_forget(struct timer *t)
{
	forget(container_of(t, struct process, forget));
}

static void unsubscribe(struct subscriber *s)
{
	struct process *p = s->p;
	bool full = false;
	if (s->gone)
		return;
	s->gone = true;
	for (struct subscriber **at = &p->subscribers; *at;)
		if (*at == s) {
			*at = s->next;
		} else {
			full |= (*at)->s.full;
			at = &(*at)->next;
		}
	e2b_stream_del(&s->live);
	loop_bury(p->loop, s, free);
	if (p->tap && !full)
		tap_pause(p->tap, false); // perhaps it was the slow one
}

static void cut_all(struct process *p)
{
	while (p->subscribers) {
		struct subscriber *s = p->subscribers;
		rpc_stream_cut(&s->s);
		unsubscribe(s);
	}
}

static void end_stream(struct subscriber *s)
{
	struct process *p = s->p;
	if (!p->timed_out)
		rpc_stream_send(&s->s, &p->end);
	rpc_stream_end(&s->s, p->timed_out ? RPC_DEADLINE_EXCEEDED : RPC_OK, "context deadline exceeded");
	unsubscribe(s);
}

static const char *signal_text(uint32_t n)
{
	static const char *const names[] = {
		[SIGHUP] = "hangup", [SIGINT] = "interrupt", [SIGQUIT] = "quit", [SIGILL] = "illegal instruction",
		[SIGTRAP] = "trace/breakpoint trap", [SIGABRT] = "aborted", [SIGBUS] = "bus error",
		[SIGFPE] = "floating point exception", [SIGKILL] = "killed", [SIGUSR1] = "user defined signal 1",
		[SIGSEGV] = "segmentation fault", [SIGUSR2] = "user defined signal 2", [SIGPIPE] = "broken pipe",
		[SIGALRM] = "alarm clock", [SIGTERM] = "terminated",
	};
	return n < countof(names) ? names[n] : NULL;
}

void process_end_event(struct buf *b, const struct exec_result *r)
{
	const char *text = r->signal ? signal_text(r->signal) : NULL;
	auto_free char *status = !r->signal ? xasprintf("exit status %u", r->status)
				 : text	    ? xasprintf("signal: %s", text)
					    : xasprintf("signal: signal %u", r->signal);
	struct jsonw w = {.b = b};
	jw_open(&w, '{');
	jw_key(&w, "event");
	jw_open(&w, '{');
	jw_key(&w, "end");
	jw_open(&w, '{');
	if (r->signal || r->status)
		jw_ki64(&w, "exitCode", r->signal ? -1 : (int64_t)r->status);
	if (!r->signal)
		jw_kbool(&w, "exited", true);
	jw_kstr(&w, "status", status);
	if (r->signal || r->status)
		jw_kstr(&w, "error", status);
	jw_close(&w, '}');
	jw_close(&w, '}');
	jw_close(&w, '}');
}

static void over(struct process *p)
{
	p->ended = true;
	p->tap = NULL;
	input_done(p, "the process has ended");
	while (p->killers)
		killer_end(p->killers);
}

// --- the tap ---

static void on_data(void *ctx, int stream, uint64_t offset, const void *bytes, size_t n)
{
	struct process *p = ctx;
	const char *name = p->tty ? "pty" : stream == 1 ? "stdout" : "stderr";
	(void)offset;
	for (size_t at = 0; at < n && p->subscribers; at += CHUNK) {
		auto_buf struct buf b = BUF_INIT(CHUNK * 2);
		buf_fmt(&b, "{\"event\":{\"data\":{\"%s\":\"", name);
		base64_add(&b, (const char *)bytes + at, n - at < CHUNK ? n - at : CHUNK);
		buf_str(&b, "\"}}}");
		for (struct subscriber *s = p->subscribers, *next; s; s = next) {
			next = s->next;
			rpc_stream_send(&s->s, &b);
		}
	}
	for (struct subscriber *s = p->subscribers; s; s = s->next)
		if (s->s.full && p->tap) {
			tap_pause(p->tap, true);
			return;
		}
}

static void on_room(void *ctx, uint64_t received)
{
	struct process *p = ctx;
	(void)received;
	if (p->tap)
		input_pump(p);
}

static void on_end(void *ctx, const struct err *e, const struct exec_result *r)
{
	struct process *p = ctx;
	if (p->failed) {
		p->failed(p->failed_ctx, r && r->reason ? r->reason : e ? e->msg : "the command did not start");
		p->failed = NULL;
	}
	over(p);
	if (!r || !p->pid) { // the sandbox went, and everything in it
		cut_all(p);
		forget(p);
		return;
	}
	p->timed_out = r->timed_out;
	process_end_event(&p->end, r);
	while (p->subscribers)
		end_stream(p->subscribers);
	p->forget.fn = on_forget;
	timer_set(p->loop, &p->forget, REMEMBERED_MS);
}

static const struct tap_ops ops = {.data = on_data, .room = on_room, .end = on_end};

struct process *process_add(struct process_new *n, struct err *e)
{
	static const uint64_t end[2] = {UINT64_MAX, UINT64_MAX};
	struct process *p = xcalloc(1, sizeof *p);
	*p = (struct process){.g = n->g, .loop = n->loop, .pid = n->exec->pid, .config = take(&n->config), .tag = take(&n->tag),
			      .tty = n->tty, .has_stdin = n->has_stdin, .in = BUF_INIT(INPUT_MAX), .end = BUF_INIT(1024)};
	memcpy(p->sandbox, n->sandbox, strnlen(n->sandbox, ID_SIZE - 1));
	memcpy(p->exec, n->exec->id, sizeof p->exec);
	p->tap = tap_open(n->loop, n->g, p->sandbox, n->ticket, n->later ? end : NULL, &ops, p, e);
	if (!p->tap) {
		process_free(p);
		return NULL;
	}
	p->next = all;
	all = p;
	return p;
}

void process_on_failed(struct process *p, void (*fn)(void *ctx, const char *why), void *ctx)
{
	p->failed = fn;
	p->failed_ctx = ctx;
}

// --- listeners ---

static void on_gone(struct rpc_stream *s)
{
	unsubscribe(container_of(s, struct subscriber, s));
}

static void on_drained(struct rpc_stream *s)
{
	struct process *p = container_of(s, struct subscriber, s)->p;
	for (struct subscriber *o = p->subscribers; o; o = o->next)
		if (o->s.full)
			return;
	if (p->tap)
		tap_pause(p->tap, false);
}

static void on_killed(void *ctx, const struct err *e, const struct outcome *o)
{
	(void)ctx, (void)o;
	if (e && e->kind != ERR_CONFLICT) // it has ended: as wanted
		log_line(LOG_WARN, "kill: %s", e->msg);
}

static void on_late(struct rpc_stream *s)
{
	struct subscriber *u = container_of(s, struct subscriber, s);
	if (u->binds && !u->p->ended)
		engine_kill(u->p->g, u->p->exec, SIGKILL, (struct done){on_killed, NULL});
}

static void on_cut(struct e2b_stream *l)
{
	struct subscriber *s = container_of(l, struct subscriber, live);
	rpc_stream_cut(&s->s);
	unsubscribe(s);
}

void process_subscribe(struct process *p, struct request *r, bool binds)
{
	auto_buf struct buf b = BUF_INIT(256);
	struct subscriber *s = xcalloc(1, sizeof *s);
	*s = (struct subscriber){.p = p, .binds = binds, .live.cut = on_cut, .next = p->subscribers,
				 .s = {.keepalive = "{\"event\":{\"keepalive\":{}}}", .gone = on_gone, .drained = on_drained, .late = on_late}};
	p->subscribers = s;
	e2b_stream_add(&s->live, p->sandbox);
	buf_fmt(&b, "{\"event\":{\"start\":{\"pid\":%u}}}", p->pid);
	rpc_stream_begin(&s->s, r);
	rpc_stream_send(&s->s, &b);
	if (p->ended && s->s.r)
		end_stream(s);
}

void process_term(struct process *p)
{
	tap_signal(p->tap, SIGTERM);
}

void process_kill(struct process *p, void (*done)(void *ctx), void *ctx)
{
	struct killer *k = xcalloc(1, sizeof *k);
	*k = (struct killer){.p = p, .done = done, .ctx = ctx, .late.fn = on_kill_late, .next = p->killers};
	p->killers = k;
	timer_set(p->loop, &k->late, KILL_WAIT_MS);
	engine_kill(p->g, p->exec, SIGKILL, (struct done){on_killed, NULL});
}

void processes_forget(void)
{
	while (all) {
		struct process *p = all;
		if (p->tap)
			tap_close(p->tap);
		over(p);
		cut_all(p);
		forget(p);
	}
}

// SPDX-License-Identifier: Apache-2.0
// What goes to the journal while the cell lives. Events that the workload causes at will (every process it executes)
// are rationed by a token bucket; what did not fit is counted and said.
#include "base/clock.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include "cell/cell_int.h"
#include "cell/denied.h"
#include "cell/moves.h"
#include "cell/ports.h"
#include <string.h>

// For each event a second that is allowed: 1 GiB, and when that is used up 32 KiB a second. A kernel build takes half of it.
#define ROOM_BYTES (512ULL << 10)
#define ROOM_REFILL 16u // a second
#define ROOM_HEAD 256u	// of a line, beside what an event says
#define ROOM_TELL_MS 60000u

static bool is_of_workload(const char *type)
{
	static const char *const types[] = {"proc.exec", "denied", "net.request", "file.changed", "port.open", "port.closed"};
	for (size_t i = 0; i < countof(types); i++)
		if (!strcmp(type, types[i]))
			return true;
	return false;
}

static void tell_room(struct cell *c)
{
	if (!c->unrecorded)
		return;
	auto_free char *msg = xasprintf("%llu events of the workload were not recorded: they filled what the journal has for them",
					(unsigned long long)c->unrecorded);
	c->unrecorded = 0;
	c->told_room_ms = clock_ms();
	record_limit(c, "journal", msg, NULL);
}

// The journal lies on the host's disk, where the sandbox's own limit does not count it: a program that does nothing but
// execute what is not there, with long arguments, would fill it.
static bool has_room(struct cell *c, const char *type, size_t n)
{
	uint64_t rate = c->spec.limits.event_rate, most = rate * ROOM_BYTES, now = clock_ms();
	if (!rate || !is_of_workload(type))
		return true;
	if (!c->room_ms)
		c->room = most > c->journal.bytes ? most - c->journal.bytes : 0;
	else
		c->room += (now - c->room_ms) * rate * ROOM_REFILL / 1000;
	c->room_ms = now;
	c->room = c->room > most ? most : c->room;
	bool fits = c->room >= n + ROOM_HEAD;
	c->room -= fits ? n + ROOM_HEAD : 0;
	c->unrecorded += !fits;
	if (c->unrecorded && now - c->told_room_ms >= ROOM_TELL_MS)
		tell_room(c);
	return fits;
}

// A journal that can not be written must not stop the agent's work half way: it is said on the operator's log, and the
// gap shows in the chain's own numbers as soon as writing works again.
void record(struct cell *c, const char *type, const char *by, struct buf *body, bool durable)
{
	struct err e;
	c->eventful |= !strcmp(type, "denied") || !strcmp(type, "limit.hit");
	if (!c->journal.is_open || !has_room(c, type, body ? body->n : 0))
		return;
	const char *said = !body ? "" : body->overflow ? "\"truncated\":true" : buf_cstr(body); // half a value would be no JSON
	if (journal_append(&c->journal, type, by, said, durable, &e))
		log_line(LOG_ERROR, "sandbox=%s journal: %s", c->spec.sandbox, e.msg);
}

// Members go after the head of the line: a writer that starts as if something stood before.
static struct jsonw members(struct buf *b)
{
	return (struct jsonw){.b = b, .comma = false};
}

void record_cell_up(struct cell *c)
{
	auto_buf struct buf b = BUF_INIT(8192), iso = BUF_INIT(4096);
	struct jsonw w = members(&b);
	isolation_json(&iso, &c->iso);
	jw_kstr(&w, "profile", profile_name(c->profile));
	jw_key(&w, "isolation");
	jw_raw(&w, buf_cstr(&iso));
	record(c, "cell.up", "skep-cell", &b, false);
	if (!c->spec.was)
		return;
	buf_clear(&b);
	w = members(&b);
	jw_kstr(&w, "from", c->spec.was);
	jw_kstr(&w, "to", "running");
	jw_kstr(&w, "reason", NULL);
	record(c, "sandbox.state", c->spec.by ? c->spec.by : "skepd", &b, false);
}

void record_cell_gone(struct cell *c)
{
	auto_buf struct buf b = BUF_INIT(8192);
	struct jsonw w = members(&b);
	denied_flush(c);
	tell_room(c);
	jw_kstr(&w, "reason", c->gone_reason);
	if (c->walk_done)
		jw_ku64(&w, "pending", c->pending);
	record(c, "cell.gone", "skep-cell", &b, false);
}

static void exec_members(struct buf *b, const struct exec_spec *s, char *const *argv, char *const *env)
{
	struct jsonw w = members(b);
	jw_kstr(&w, "exec", s->id);
	jw_kstrv(&w, "argv", argv);
	jw_kstr(&w, "cwd", s->cwd);
	jw_kstr(&w, "user", s->user);
	jw_kbool(&w, "tty", s->tty);
	jw_key(&w, "env"); // names: values may be secrets
	jw_open(&w, '[');
	for (; env && *env; env++)
		jw_str(&w, *env, strcspn(*env, "="));
	jw_close(&w, ']');
}

void record_exec_start(struct sx *x)
{
	auto_buf struct buf b = BUF_INIT(60 << 10);
	exec_members(&b, &x->spec, x->spec.argv, x->spec.env);
	if (b.overflow) { // too long for a line: which command it was, and that there is more
		auto_free char *first = xstrndup(x->spec.argv[0], strnlen(x->spec.argv[0], LIMIT_PROC_ARGV));
		buf_clear(&b);
		exec_members(&b, &x->spec, (char *[]){first, NULL}, NULL);
		jw_kbool(&(struct jsonw){.b = &b, .comma = true}, "cut", true);
	}
	record(x->cell, "exec.start", x->spec.by ? x->spec.by : "skepd", &b, false);
}

// How much went through a stream; never the bytes.
static void record_stream(struct sx *x, const char *type, const char *stream, uint64_t length)
{
	auto_buf struct buf b = BUF_INIT(1024);
	struct jsonw w = members(&b);
	if (!length)
		return;
	jw_kstr(&w, "exec", x->spec.id);
	jw_kstr(&w, "stream", stream);
	jw_ku64(&w, "offset", 0);
	jw_ku64(&w, "length", length);
	record(x->cell, type, "skep-cell", &b, false);
}

void record_exec_exit(struct sx *x)
{
	record_stream(x, "exec.input", "stdin", x->in_received);
	record_stream(x, "exec.output", "stdout", x->out[0].total);
	record_stream(x, "exec.output", "stderr", x->out[1].total);
	auto_buf struct buf b = BUF_INIT(4096);
	struct jsonw w = members(&b);
	jw_kstr(&w, "exec", x->spec.id);
	jw_ku64(&w, "status", x->result.status);
	if (x->result.signal)
		jw_ku64(&w, "signal", x->result.signal);
	if (x->result.timed_out)
		jw_kbool(&w, "timed_out", true);
	jw_kstr(&w, "reason", x->result.reason);
	jw_ku64(&w, "stdout", x->result.out_bytes);
	jw_ku64(&w, "stderr", x->result.err_bytes);
	jw_ku64(&w, "started", x->result.started_unix_ms);
	jw_ku64(&w, "ended", x->result.ended_unix_ms);
	record(x->cell, "exec.exit", "skep-cell", &b, false);
}

void record_limit(struct cell *c, const char *limit, const char *message, const struct sx *x)
{
	auto_buf struct buf b = BUF_INIT(4096);
	struct jsonw w = members(&b);
	jw_kstr(&w, "limit", limit);
	jw_kstr(&w, "message", message);
	if (x)
		jw_kstr(&w, "exec", x->spec.id);
	record(c, "limit.hit", "skep-cell", &b, false);
}

bool record_may(struct cell *c)
{
	uint64_t now = clock_ms(), rate = c->spec.limits.event_rate ? c->spec.limits.event_rate : UINT64_MAX;
	if (now - c->bucket_ms >= 1000) {
		uint64_t dropped = c->dropped;
		c->bucket_ms = now;
		c->bucket = rate;
		c->dropped = 0;
		if (dropped) {
			auto_free char *msg = xasprintf("%llu process events in one second were not recorded",
							(unsigned long long)dropped);
			record_limit(c, "event_rate", msg, NULL);
		}
	}
	if (!c->bucket) {
		c->dropped++;
		return false;
	}
	c->bucket--;
	return true;
}

// The first process of an exec still shares init's memory, which nobody may read: but then we know what it runs.
static char **argv_of_starting(const struct cell *c)
{
	for (const struct sx *x = c->execs; x; x = x->next)
		if (!x->begun && !x->ended)
			return x->spec.argv;
	return NULL;
}

static void go_on(const struct cell *c, int listener, const struct seccomp_event *ev)
{
	struct err e;
	if (seccomp_answer(listener, ev, &e))
		log_line(LOG_WARN, "sandbox=%s %s", c->spec.sandbox, e.msg);
}

static void record_one(struct cell *c, int listener, const struct seccomp_event *ev)
{
	auto_buf struct buf path = BUF_INIT(LIMIT_PROC_ARGV + 16), b = BUF_INIT(60 << 10);
	struct jsonw w = members(&b);
	char **argv = NULL, **known = NULL;
	struct err e;
	int rc = seccomp_read_argv(listener, ev, LIMIT_PROC_ARGV, &path, &argv, &e);
	go_on(c, listener, ev); // what it said is read: it need not wait for the disk
	if (rc < 0)
		known = argv_of_starting(c);
	jw_ku64(&w, "pid", (uint64_t)ev->pid);
	if (rc >= 0)
		jw_kbytes(&w, "path", buf_cstr(&path), path.n ? strlen(path.p) : 0);
	if (rc >= 0 || known)
		jw_kstrv(&w, "argv", rc >= 0 ? argv : known);
	else
		jw_kbool(&w, "unreadable", true);
	if (rc == 1)
		jw_kbool(&w, "cut", true);
	strv_free(argv);
	record(c, "proc.exec", "workload", &b, false);
}

// A program that does nothing but ask (refused calls, or execve of what is not there) must not have our time: it is none
// of what its cell was given. Past REPORTS in one window every call of the cell that waits for us waits for the next.
#define WINDOW_MS 10
#define REPORTS 200u // some 20,000 a second: a fifth of one core; no build comes near
#define MOVES_PER_MS 20u
#define MOVES_BURST 100000u // then they count as reports

static struct {
	struct cell *cell; // one process, one cell
	uint64_t window_ms, moves_ms;
	uint32_t reports, moves;
	struct timer over;
} pace;

static void on_window_over(struct timer *t)
{
	(void)t;
	if (pace.cell->notify.fd >= 0)
		loop_mod(&pace.cell->loop, &pace.cell->notify, LOOP_IN);
}

// Renames come in bursts: many at once, as long as there are pauses.
static bool is_fast_move(uint64_t now)
{
	uint64_t passed = (now - pace.moves_ms) * MOVES_PER_MS;
	pace.moves_ms = now;
	pace.moves -= passed < pace.moves ? (uint32_t)passed : pace.moves;
	return ++pace.moves > MOVES_BURST;
}

static void keep_pace(struct cell *c, bool move)
{
	uint64_t now = clock_ms();
	if (move && !is_fast_move(now))
		return;
	if (now - pace.window_ms >= WINDOW_MS) {
		pace.window_ms = now;
		pace.reports = 0;
	}
	if (++pace.reports < REPORTS)
		return;
	pace.cell = c;
	pace.over.fn = on_window_over;
	loop_mod(&c->loop, &c->notify, 0);
	timer_set(&c->loop, &pace.over, pace.window_ms + WINDOW_MS - now);
}

void record_end(struct cell *c)
{
	int fd = c->notify.fd;
	loop_del(&c->loop, &c->notify);
	close_fd(&fd);
}

void record_proc(struct watch *wt, uint32_t events)
{
	struct cell *c = container_of(wt, struct cell, notify);
	struct seccomp_event ev;
	struct err e;
	if (events & (LOOP_HUP | LOOP_ERR) && !(events & LOOP_IN)) { // no process is left that could ask
		record_end(c);
		return;
	}
	int rc = seccomp_recv(wt->fd, &ev, &e);
	if (rc)
		return;
	if (seccomp_is_listen(&ev)) {
		keep_pace(c, false);
		go_on(c, wt->fd, &ev);
		ports_soon(c);
		return;
	}
	bool moves = seccomp_is_rename(&ev), owns = seccomp_is_owning(&ev);
	keep_pace(c, moves || owns);
	c->eventful |= moves;
	if (owns) {
		moves_owning(c, wt->fd, &ev);
		return;
	}
	if (moves) {
		moves_call(c, wt->fd, &ev);
		return;
	}
	if (ev.error) {
		denied_call(c, wt->fd, &ev);
		return;
	}
	if (record_may(c))
		record_one(c, wt->fd, &ev);
	else
		go_on(c, wt->fd, &ev);
}

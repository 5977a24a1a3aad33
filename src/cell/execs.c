// SPDX-License-Identifier: Apache-2.0
// Execs and their captured output. Output always goes to a file; attached clients get it from memory as long as they
// keep up and from the file when they do not. A command waits only for a reader that is there (or was promised by a
// ticket); with none, the oldest bytes make room.
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "cell/cell_int.h"
#include "cell/denied.h"
#include "cell/ports.h"
#include "cell/refresh.h"
#include "cell/watching.h"
#include "model/msg.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct sx *sx_find(struct cell *c, const char *id)
{
	struct sx *x = c->execs;
	while (x && strcmp(x->spec.id, id))
		x = x->next;
	return x;
}

struct sx *sx_by_number(struct cell *c, uint32_t number)
{
	struct sx *x = c->execs;
	while (x && x->number != number)
		x = x->next;
	return x;
}

struct sx *sx_by_ticket(struct cell *c, const char *ticket)
{
	for (struct sx *x = c->execs; x; x = x->next)
		for (struct ticket *t = x->tickets; t < x->tickets + LIMIT_TICKETS; t++)
			if (t->key[0] && key_equal(t->key, ticket)) {
				t->key[0] = 0; // one use
				return clock_ms() <= t->until_ms ? x : NULL;
			}
	return NULL;
}

void sx_set_ticket(struct sx *x, const char *ticket)
{
	struct ticket *t = x->tickets;
	for (struct ticket *other = t + 1; other < x->tickets + LIMIT_TICKETS && t->key[0]; other++)
		if (!other->key[0] || other->until_ms < t->until_ms)
			t = other;
	memcpy(t->key, ticket, strnlen(ticket, KEY_SIZE - 1) + 1);
	t->key[KEY_SIZE - 1] = 0;
	t->until_ms = clock_ms() + LIMIT_TICKET_MS;
}

bool sx_expects(const struct sx *x)
{
	for (const struct ticket *t = x->tickets; t < x->tickets + LIMIT_TICKETS; t++)
		if (t->key[0] && clock_ms() <= t->until_ms)
			return true;
	return false;
}

uint32_t sx_running(const struct cell *c)
{
	uint32_t n = 0;
	for (const struct sx *x = c->execs; x; x = x->next)
		n += !x->ended;
	return n;
}

const struct sx *sx_only(const struct cell *c)
{
	const struct sx *one = NULL;
	for (const struct sx *x = c->execs; x; x = x->next) {
		if (!x->ended && one)
			return NULL;
		if (!x->ended)
			one = x;
	}
	return one;
}

static void sx_free(struct sx *x)
{
	timer_clear(&x->cell->loop, &x->timeout);
	timer_clear(&x->cell->loop, &x->promise);
	output_done(&x->out[0]);
	output_done(&x->out[1]);
	cast_close(x->cast);
	buf_done(&x->in_waiting);
	exec_spec_done(&x->spec);
	exec_result_done(&x->result);
	free(x->live);
	free(x);
}

void sx_free_all(struct cell *c)
{
	while (c->execs) {
		struct sx *x = c->execs;
		c->execs = x->next;
		sx_free(x);
	}
}

// Old finished ones nobody reads are forgotten here; their output and journal lines stay.
static void forget_oldest(struct cell *c)
{
	struct sx **oldest = NULL;
	for (struct sx **p = &c->execs; *p; p = &(*p)->next)
		if ((*p)->ended && !client_attached(*p) && !sx_expects(*p))
			oldest = p;
	if (!oldest)
		return;
	struct sx *x = *oldest;
	*oldest = x->next;
	c->n_execs--;
	sx_free(x);
}

static int send_spec(struct cell *c, struct exec_spec *s, uint32_t number, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(LIMIT_ARGV + 65536);
	if (c->spec.net.ca_cert && *c->spec.net.ca_cert && s->kind == EXEC_COMMAND)
		trust_env(&c->nursery->trust, !c->spec.image && c->spec.profile == PROFILE_USER, &s->env);
	exec_spec_write(&b, s);
	if (fault(FAULT_EXEC_SPAWN, e))
		return -1;
	if (!chan_send_buf(&c->init, M_EXEC, number, &b))
		return err_set(e, ERR_LIMIT, "arguments and environment are longer than %u bytes", LIMIT_ARGV);
	return 0;
}

bool sx_send_first(struct cell *c)
{
	struct err e;
	return !send_spec(c, &c->spec.exec, c->last_number + 1, &e);
}

// It was killed on its way here: the command need not wait for it.
static void on_promise_late(struct timer *t)
{
	sx_grant(container_of(t, struct sx, promise));
}

struct sx *sx_start(struct cell *c, struct exec_spec *s, const char *ticket, uint32_t request)
{
	struct sx *x = xcalloc(1, sizeof *x);
	if (c->n_execs >= (c->control ? LIMIT_EXECS_TOLD : LIMIT_EXECS))
		forget_oldest(c);
	*x = (struct sx){.cell = c, .spec = *s, .number = ++c->last_number, .request = request, .next = c->execs};
	x->out[0].ring.fd = x->out[1].ring.fd = -1;
	x->out[0].credit = x->out[1].credit = LIMIT_OUTPUT_WINDOW;
	if (!x->spec.want_stdin && !x->spec.tty)
		x->in_credit = UINT64_MAX; // nobody reads: bytes may be thrown away at once
	if (watching_is(&x->spec))
		watching_begin(x);
	x->result.started_unix_ms = clock_unix_ms();
	c->execs = x;
	c->n_execs++;
	if (ticket && *ticket) {
		sx_set_ticket(x, ticket);
		x->wants_reader = true;
		x->promise.fn = on_promise_late;
		timer_set(&c->loop, &x->promise, LIMIT_TICKET_MS + 500);
	}
	struct err e;
	if (!c->spec.ends_with_exec)
		refresh_overlays(c);
	if (x->spec.kind == EXEC_COMMAND)
		watching_exec(x, true); // before what it changes can be told
	int rc = c->first_sent ? 0 : send_spec(c, &x->spec, x->number, &e);
	c->first_sent = false;
	chan_flush(&c->init);
	if (x->spec.kind == EXEC_COMMAND)
		record_exec_start(x); // while it starts; nothing else of it can be written before
	if (rc) {
		sx_failed(x, &e);
		return x;
	}
	if (!x->live)
		watchdog_exec(x);
	watchdog_activity(c);
	return x;
}

void sx_begun(struct sx *x, uint32_t pid)
{
	struct cell *c = x->cell;
	struct err e;
	x->begun = true;
	x->pid = pid;
	if (x->spec.tty && !(x->cast = cast_open(cell_out_dir(c, &e), x->spec.id, x->spec.cols, x->spec.rows, &e)))
		log_line(LOG_WARN, "sandbox=%s %s", c->spec.sandbox, e.msg);
	if (!c->control)
		return;
	auto_buf struct buf b = BUF_INIT(256);
	wire_str(&b, x->spec.id);
	wire_u32(&b, pid);
	if (x->request)
		chan_send_buf(&c->control->chan, M_STARTED, x->request, &b);
	else
		chan_send_later(&c->control->chan, M_STARTED, 0, 0, b.p, b.n); // nobody waits for it
	x->request = 0;
}

// --- output ---

// At least what may be under way to an attached reader, who is promised all of it; 0 is no limit.
static uint64_t kept_bytes(const struct cell *c)
{
	uint64_t cap = c->spec.limits.output_cap;
	return !cap ? UINT64_MAX / 4 : cap > LIMIT_OUTPUT_WINDOW ? cap : LIMIT_OUTPUT_WINDOW;
}

void sx_grant(struct sx *x)
{
	for (int i = 0; i < 2; i++) {
		struct output *o = &x->out[i];
		uint64_t slow = client_slowest(x, i), room = kept_bytes(x->cell);
		if (slow == UINT64_MAX && x->wants_reader && sx_expects(x))
			slow = 0; // a reader was promised
		output_seen(o, slow);
		if (output_is_full(o) || (slow != UINT64_MAX && o->total + LIMIT_OUTPUT_WINDOW > slow + room))
			continue; // the writer waits
		if (o->credit - o->total > LIMIT_OUTPUT_WINDOW / 2)
			continue;
		auto_buf struct buf b = BUF_INIT(16);
		o->credit = o->total + LIMIT_OUTPUT_WINDOW;
		wire_u64(&b, o->credit);
		chan_send(&x->cell->init, M_CREDIT, (uint8_t)(i + 1), x->number, b.p, b.n);
	}
}

static int open_ring(struct sx *x, int i, struct err *e)
{
	struct output *o = &x->out[i];
	if (o->lost || o->ring.fd >= 0)
		return 0;
	auto_free char *name = xasprintf("%s.%s", x->spec.id, i ? "stderr" : "stdout");
	if (cell_out_dir(x->cell, e) < 0 || ring_create(&o->ring, x->cell->out_dir, name, kept_bytes(x->cell), e))
		return -1;
	if (x->live)
		unlinkat(x->cell->out_dir, name, 0); // for a slow reader, not to be kept
	return 0;
}

static void keep(struct sx *x, int i, const void *p, size_t n)
{
	struct output *o = &x->out[i];
	struct err e;
	if (open_ring(x, i, &e) || (!o->lost && fault(FAULT_EXEC_OUTPUT, &e)))
		output_lose(o, p, n);
	else if (!output_put(o, p, n, &e))
		return;
	record_limit(x->cell, "output", e.msg, x);
	log_line(LOG_WARN, "sandbox=%s exec=%s output is no longer kept: %s", x->cell->spec.sandbox, x->spec.id, e.msg);
}

void sx_output(struct sx *x, uint8_t stream, const void *p, size_t n)
{
	if (stream < 1 || stream > 2)
		return;
	int i = stream - 1;
	struct output *o = &x->out[i];
	uint64_t at = o->total;
	keep(x, i, p, n);
	if (x->cast && i == 0)
		cast_output(x->cast, p, n);
	if (x->result.out_bytes + x->result.err_bytes <= kept_bytes(x->cell) && x->out[0].total + x->out[1].total > kept_bytes(x->cell) &&
	    !client_attached(x) && !x->wants_reader)
		record_limit(x->cell, "output_cap", "output is longer than what is kept; the oldest bytes make room", x);
	x->result.out_bytes = x->out[0].total;
	x->result.err_bytes = x->out[1].total;
	for (struct client *cl = x->cell->clients; cl; cl = cl->next) {
		if (cl->exec != x || cl->off[i] != at || chan_queued(&cl->chan) > (512u << 10))
			continue;
		static char frame[8 + FRAME_MAX];
		for (int k = 0; k < 8; k++)
			frame[k] = (char)(at >> (8 * k));
		memcpy(frame + 8, p, n);
		chan_send(&cl->chan, M_DATA, stream, 0, frame, n + 8);
		cl->off[i] = o->total;
	}
	sx_grant(x);
}

// --- end ---

static void finish(struct sx *x)
{
	struct cell *c = x->cell;
	struct err e;
	x->ended = true;
	x->result.ended_unix_ms = clock_unix_ms();
	timer_clear(&c->loop, &x->timeout);
	timer_clear(&c->loop, &x->promise);
	cast_close(x->cast);
	x->cast = NULL;
	if (x->spec.kind == EXEC_COMMAND) {
		record_exec_exit(x);
		watching_exec(x, false);
	}
	if (fault(FAULT_EXEC_EXIT, &e))
		log_line(LOG_WARN, "%s", e.msg);
	client_pump_exec(x); // first: somebody waits there
	if (!c->spec.ends_with_exec)
		client_flush(x); // not even for the end of this round
	control_send_exited(c, x);
	watchdog_check_cgroup(c);
	watchdog_activity(c);
	watchdog_ended(x);
	ports_exec_ended(c);
	if (x->live)
		watching_end(x);
	if (c->spec.ends_with_exec && x->number == 1 && !watching_holds_end(c))
		cell_end(c, "exec ended", LIMIT_STOP_GRACE_MS, true);
}

void sx_ended(struct sx *x, uint32_t ws)
{
	int status = (int)ws;
	if (x->ended)
		return;
	if (WIFSIGNALED(status)) {
		x->result.signal = (uint32_t)WTERMSIG(status);
		x->result.status = 128 + x->result.signal;
	} else {
		x->result.status = (uint32_t)WEXITSTATUS(status);
	}
	finish(x);
}

// It could not be started: 127 not found, 126 not executable (both with the errno of execve), else 125 with the reason.
void sx_failed(struct sx *x, const struct err *e)
{
	if (!e->sys && (e->kind == ERR_DENIED || e->kind == ERR_NOT_FOUND)) // init's own word, not the kernel's
		denied_exec(x, e);
	x->result.status = e->sys && e->kind == ERR_NOT_FOUND ? 127 : e->sys && e->kind == ERR_DENIED ? 126 : 125;
	free(x->result.reason);
	x->result.reason = xstrdup(e->msg);
	sx_begun(x, 0);
	finish(x);
}

void sx_kill(struct sx *x, int sig, const char *reason)
{
	auto_buf struct buf b = BUF_INIT(16);
	if (x->ended)
		return;
	if (reason && !x->result.reason)
		x->result.reason = xstrdup(reason);
	wire_u32(&b, (uint32_t)sig);
	chan_send(&x->cell->init, M_SIGNAL, 1, x->number, b.p, b.n);
}

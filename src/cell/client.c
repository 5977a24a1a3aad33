// SPDX-License-Identifier: Apache-2.0
// Who is connected to the cell's socket: skepd (control) and clients attached to an exec by a ticket.
#include "base/log.h"
#include "base/mem.h"
#include "cell/away.h"
#include "cell/cell_int.h"
#include "cell/denied.h"
#include "cell/dials.h"
#include "cell/input.h"
#include "cell/watching.h"
#include "model/msg.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define QUEUE_HIGH (512u << 10)
#define CHUNK (64u << 10)

bool client_attached(const struct sx *x)
{
	for (const struct client *cl = x->cell->clients; cl; cl = cl->next)
		if (cl->exec == x)
			return true;
	return away_is(x);
}

uint64_t client_slowest(const struct sx *x, int stream)
{
	uint64_t slow = away_slowest(x, stream);
	for (const struct client *cl = x->cell->clients; cl; cl = cl->next) {
		uint64_t at = cl->line[0] ? cl->seen[stream] : cl->off[stream];
		if (cl->exec == x && at < slow)
			slow = at;
	}
	return slow;
}

// What was sent on a line that may break has come when the client says so.
static bool owes(const struct client *cl)
{
	return cl->exec && !(cl->line[0] ? cl->bye : cl->done_sent);
}

bool client_waiting(const struct cell *c)
{
	for (const struct sx *x = c->execs; x; x = x->next)
		if (x->wants_reader && sx_expects(x))
			return true; // a short command is over before its client has connected
	for (const struct client *cl = c->clients; cl; cl = cl->next)
		if (chan_is_open(&cl->chan) && (chan_queued(&cl->chan) || owes(cl)))
			return true;
	return away_any();
}

void client_tell(struct cell *c, uint8_t type, const struct buf *b)
{
	for (struct client *cl = c->clients; cl; cl = cl->next)
		if (cl->exec)
			chan_send_buf(&cl->chan, type, 0, b);
}

static void free_client(void *obj)
{
	struct client *cl = obj;
	chan_close(&cl->chan);
	free(cl);
}

static bool only_client(const struct client *cl)
{
	for (const struct client *other = cl->cell->clients; other; other = other->next)
		if (other != cl && other->exec == cl->exec)
			return false;
	return !away_is(cl->exec);
}

// As a lost line does: whoever sits at the terminal's other end hears of it, a pipe just ends.
static void hang_up(const struct client *cl)
{
	struct sx *x = cl->exec;
	auto_buf struct buf b = BUF_INIT(4);
	if (!cl->hangs_up || !x || x->ended || !only_client(cl))
		return;
	if (x->spec.tty) {
		wire_u32(&b, SIGHUP);
		chan_send(&x->cell->init, M_SIGNAL, 0, x->number, b.p, b.n);
		return;
	}
	for (uint8_t stream = 0; stream < 3; stream++)
		chan_send(&x->cell->init, M_EOF, stream, x->number, NULL, 0);
}

void client_left(struct sx *x)
{
	struct cell *c = x->cell;
	if (x->spec.kind == EXEC_JOB && !x->live && !x->ended && !client_attached(x)) { // it works for nobody now
		auto_buf struct buf b = BUF_INIT(8);
		wire_u32(&b, SIGTERM);
		chan_send(&c->init, M_SIGNAL, 0, x->number, b.p, b.n);
	}
	sx_grant(x); // perhaps it was the one everybody waited for
	watchdog_lease(c);
}

static void drop(struct client *cl)
{
	struct cell *c = cl->cell;
	struct sx *x = cl->exec;
	for (struct client **p = &c->clients; *p; p = &(*p)->next)
		if (*p == cl) {
			*p = cl->next;
			break;
		}
	if (c->control == cl)
		c->control = NULL;
	if (cl->control && c->tired)
		cell_wake(c); // nobody else will
	hang_up(cl);
	if (x && cl->line[0] && !cl->bye)
		away_begin(cl);
	if (x)
		input_client_gone(x);
	loop_bury(&c->loop, cl, free_client);
	if (c->stage == CELL_WAITING || c->stage == CELL_BUILDING) {
		if (cl->control)
			cell_kill_init(c); // nobody will ever ask for this slot
		return;
	}
	gate_client_gone(&c->gate);
	dials_client_gone(cl);
	if (x && x->live)
		watching_client_gone(x);
	if (x)
		client_left(x);
	watchdog_activity(c);
	cell_maybe_exit(c);
}

static void on_close(struct chan *ch)
{
	drop(container_of(ch, struct client, chan));
}

// --- to the client ---

static void send_gap(struct client *cl, int i, uint64_t to)
{
	auto_buf struct buf b = BUF_INIT(32);
	wire_u64(&b, cl->off[i]);
	wire_u64(&b, to);
	chan_send(&cl->chan, M_GAP, (uint8_t)(i + 1), 0, b.p, b.n);
	cl->off[i] = to;
}

static void pump_stream(struct client *cl, int i)
{
	static char frame[8 + CHUNK];
	struct output *o = &cl->exec->out[i];
	if (cl->off[i] > o->total)
		cl->off[i] = o->total;
	while (cl->off[i] < o->total && chan_queued(&cl->chan) < QUEUE_HIGH) {
		uint64_t at = cl->off[i], first = output_next(o, at);
		if (at < first) {
			send_gap(cl, i, first);
			continue;
		}
		long n = output_read(o, at, frame + 8, CHUNK);
		if (n <= 0) {
			send_gap(cl, i, o->total);
			break;
		}
		for (int k = 0; k < 8; k++)
			frame[k] = (char)(at >> (8 * k));
		chan_send(&cl->chan, M_DATA, (uint8_t)(i + 1), 0, frame, (size_t)n + 8);
		cl->off[i] += (uint64_t)n;
	}
}

static void pump_end(struct client *cl)
{
	struct sx *x = cl->exec;
	struct cell *c = cl->cell;
	if (!x->ended || cl->off[0] < x->out[0].total || cl->off[1] < x->out[1].total)
		return;
	if (!cl->exit_sent) {
		auto_buf struct buf b = BUF_INIT(8192);
		exec_result_write(&b, &x->result);
		chan_send_buf(&cl->chan, M_EXIT, 0, &b);
		cl->exit_sent = true;
	}
	if (c->stage != CELL_GONE || cl->done_sent)
		return;
	auto_buf struct buf b = BUF_INIT(1 << 20);
	uint8_t removed = c->remove_layer;
	wire_u32(&b, c->walk_done ? c->pending : CHANGES_UNKNOWN);
	wire_strv(&b, c->changed);
	changes_sum_write(&b, &c->sum);
	chan_send_buf(&cl->chan, M_CHANGES, 0, &b);
	chan_send(&cl->chan, M_DONE, 0, 0, &removed, 1);
	cl->done_sent = true;
}

static void send_credit(struct client *cl)
{
	auto_buf struct buf b = BUF_INIT(32);
	wire_u64(&b, cl->exec->in_credit);
	wire_u64(&b, cl->exec->in_received);
	if (cl->line[0]) {
		wire_u64(&b, cl->mine);
		wire_u64(&b, cl->signals);
	}
	if (cl->exec->in_credit == UINT64_MAX) // there is no stdin: nobody waits for it
		chan_send_later(&cl->chan, M_CREDIT, 0, 0, b.p, b.n);
	else
		chan_send(&cl->chan, M_CREDIT, 0, 0, b.p, b.n);
}

void client_flush(struct sx *x)
{
	for (struct client *cl = x->cell->clients; cl; cl = cl->next)
		if (cl->exec == x)
			chan_flush(&cl->chan);
}

void client_pump(struct client *cl)
{
	if (!cl->exec || !chan_is_open(&cl->chan))
		return;
	pump_stream(cl, 0);
	pump_stream(cl, 1);
	pump_end(cl);
	sx_grant(cl->exec);
}

void client_pump_exec(struct sx *x)
{
	for (struct client *cl = x->cell->clients; cl; cl = cl->next)
		if (cl->exec == x) {
			send_credit(cl);
			client_pump(cl);
		}
}

static void on_drain(struct chan *ch)
{
	struct client *cl = container_of(ch, struct client, chan);
	client_pump(cl);
	cell_maybe_exit(cl->cell);
}

// --- from the client ---

// A client's own word on what came: only then may the oldest bytes make room.
static void on_seen(struct client *cl, struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	if (!f->stream) {
		cl->bye = true;
		cell_maybe_exit(cl->cell);
		return;
	}
	uint64_t upto = wire_get_u64(&w);
	if (w.bad || f->stream > 2 || upto > cl->off[f->stream - 1] || upto < cl->seen[f->stream - 1])
		return;
	cl->seen[f->stream - 1] = upto;
	sx_grant(cl->exec);
}

// Who has a line repeats what it has no answer to.
static void on_signal(struct client *cl, struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	auto_buf struct buf b = BUF_INIT(4);
	wire_u32(&b, wire_get_u32(&w));
	uint64_t number = cl->line[0] ? wire_get_u64(&w) : 0;
	if (w.bad || (cl->line[0] && number <= cl->signals))
		return;
	cl->signals = number;
	chan_send(&cl->cell->init, M_SIGNAL, 0, cl->exec->number, b.p, b.n);
	if (cl->line[0])
		send_credit(cl);
}

static void exec_frame(struct client *cl, struct frame *f)
{
	struct sx *x = cl->exec;
	struct wire w = {.p = f->p, .n = f->n};
	switch ((enum msg_type)f->type) {
	case M_DATA:
		if (!x->live) // its stdin is the cell's
			input_data(cl, f);
		break;
	case M_EOF: // of stdin; or the client's own reader went away, which the command shall notice if nobody else reads
		if (f->stream && only_client(cl))
			chan_send(&x->cell->init, M_EOF, f->stream, x->number, NULL, 0);
		else if (!f->stream && !x->live)
			input_end(cl);
		break;
	case M_WINSIZE: {
		uint32_t rows = wire_get_u32(&w), cols = wire_get_u32(&w);
		chan_send(&x->cell->init, M_WINSIZE, 0, x->number, f->p, f->n);
		if (x->cast)
			cast_resize(x->cast, cols, rows);
		break;
	}
	case M_ANSWER:
		gate_answer(&x->cell->gate, f, cl);
		break;
	case M_HANGUP:
		cl->hangs_up = true;
		break;
	case M_SEEN:
		on_seen(cl, f);
		return; // nothing that anybody does
	case M_SIGNAL:
		on_signal(cl, f);
		break;
	default:
		break;
	}
	watchdog_activity(cl->cell);
}

static void refuse(struct client *cl, enum err_kind kind, const char *why)
{
	struct err e;
	if (kind == ERR_DENIED)
		denied_connect(cl->cell, why);
	err_set(&e, kind, "%s", why);
	control_send_err(&cl->chan, 0, &e);
	shutdown(cl->chan.fd, SHUT_RD); // the answer goes out, then the peer's close ends it
}

static void refuse_version(struct client *cl, uint32_t version)
{
	auto_buf struct buf b = BUF_INIT(256);
	buf_fmt(&b, "this cell speaks protocol version %d and was greeted in version %u: it was made by %s skep; stop the sandbox and start it again, or use that skep",
		PROTO_VERSION, version, version > PROTO_VERSION ? "an older" : "a newer");
	refuse(cl, ERR_UNSUPPORTED, buf_cstr(&b));
}

// Behind the offsets, where there is one.
static void take_line(struct client *cl, struct wire *w)
{
	if (!w->n)
		return;
	auto_free char *line = wire_get_str(w);
	uint64_t away_ms = wire_get_u64(w);
	if (w->bad || !line || strlen(line) != KEY_SIZE - 1)
		return;
	memcpy(cl->line, line, KEY_SIZE);
	cl->away_ms = away_ms < LIMIT_AWAY_MS ? away_ms : LIMIT_AWAY_MS;
}

static void greet(struct client *cl, struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	uint32_t version = wire_get_u32(&w);
	uint8_t role = wire_get_u8(&w);
	auto_free char *key = wire_get_str(&w);
	uint64_t out = wire_get_u64(&w), err = wire_get_u64(&w);
	struct cell *c = cl->cell;
	if (f->type == M_HELLO && version && version != PROTO_VERSION) { // what follows may mean something else there
		refuse_version(cl, version);
		return;
	}
	if (f->type != M_HELLO || w.bad || !key) {
		refuse(cl, ERR_INVALID, "a greeting was expected");
		return;
	}
	if (role == ROLE_CONTROL) {
		if (!key_equal(key, c->spec.key)) {
			refuse(cl, ERR_DENIED, "wrong key");
			return;
		}
		if (c->control)
			shutdown(c->control->chan.fd, SHUT_RDWR); // an older daemon
		cl->greeted = cl->control = true;
		c->control = cl;
		control_replay(c);
		return;
	}
	if (role == ROLE_DIAL && dials_admit(c, key)) {
		cl->greeted = cl->dials = true;
		return;
	}
	take_line(cl, &w);
	struct sx *x = role != ROLE_CLIENT ? NULL : *key ? sx_by_ticket(c, key) : cl->line[0] ? away_end(cl) : NULL;
	if (!x) {
		refuse(cl, ERR_DENIED, *key ? "this ticket is not valid or was used before" : "nobody with this line is expected here");
		return;
	}
	cl->greeted = true;
	cl->exec = x;
	cl->off[0] = cl->seen[0] = out;
	cl->off[1] = cl->seen[1] = err;
	x->wants_reader = false;
	timer_clear(&c->loop, &x->promise);
	send_credit(cl);
	client_pump(cl);
	watchdog_activity(c);
}

// A local client that forwards ports: any number of connections, one after the other or at once.
static void dial_frame(struct client *cl, struct frame *f)
{
	struct err e;
	int rc = f->type == M_DIAL ? dials_ask(cl, f, &e) : err_set(&e, ERR_INVALID, "only connections can be asked for here");
	if (rc < 0)
		control_send_err(&cl->chan, f->id, &e);
}

static void on_frame(struct chan *ch, struct frame *f)
{
	struct client *cl = container_of(ch, struct client, chan);
	if (!cl->greeted)
		greet(cl, f);
	else if (cl->control)
		control_frame(cl, f);
	else if (cl->dials)
		dial_frame(cl, f);
	else if (cl->exec)
		exec_frame(cl, f);
}

struct client *client_new(struct cell *c, int fd, struct err *e)
{
	struct client *cl = xcalloc(1, sizeof *cl);
	cl->cell = c;
	chan_init(&cl->chan, fd);
	cl->chan.on_frame = on_frame;
	cl->chan.on_close = on_close;
	cl->chan.on_drain = on_drain;
	if (chan_attach(&cl->chan, &c->loop, e)) {
		free_client(cl);
		return NULL;
	}
	cl->next = c->clients;
	c->clients = cl;
	return cl;
}

void client_drop_others(struct cell *c)
{
	while (c->clients) {
		struct client *cl = c->clients;
		c->clients = cl->next;
		if (cl != c->control)
			free_client(cl);
	}
}

// What it has sent and we have not looked at stays.
int client_again(struct client *control, struct err *e)
{
	control->next = NULL;
	control->chan.w.fd = -1;
	control->chan.later = (struct timer){.fn = control->chan.later.fn};
	return chan_attach(&control->chan, &control->cell->loop, e);
}

void client_accept(struct watch *w, uint32_t events)
{
	struct cell *c = container_of(w, struct cell, listen);
	struct ucred cred;
	socklen_t len = sizeof cred;
	struct err e;
	int n = 0;
	(void)events;
	auto_fd int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	for (struct client *cl = c->clients; cl; cl = cl->next)
		n++;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) || cred.uid != geteuid() || n >= LIMIT_CLIENTS)
		return;
	if (!client_new(c, take_fd(&fd), &e))
		log_line(LOG_WARN, "sandbox=%s %s", c->spec.sandbox, e.msg);
}

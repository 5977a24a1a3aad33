// SPDX-License-Identifier: Apache-2.0
// Channel K: one struct cell per slot or live cell.
#include "backend/native_int.h"
#include "base/flow.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "model/msg.h"
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void cell_free(void *p)
{
	struct cell *c = p;
	requests_drop(&c->requests);
	buf_done(&c->spec);
	buf_done(&c->key);
	close_fd(&c->secrets);
	free(c->stacked);
	free(c);
}

void cell_enter(struct cell *c, enum cell_phase phase)
{
	c->n->n_starting += (phase == CELL_STARTING) - (c->phase == CELL_STARTING);
	c->phase = phase;
}

struct cell *cell_new(struct native *n, enum cell_phase phase)
{
	struct cell *c = xcalloc(1, sizeof *c);
	c->n = n;
	cell_enter(c, phase);
	c->ch.fd = c->ch.w.fd = c->secrets = -1;
	c->spec = BUF_INIT(FRAME_MAX);
	c->key = BUF_INIT(FRAME_MAX);
	c->all = n->cells;
	n->cells = c;
	return c;
}

void cell_bury(struct cell *c)
{
	list_unlink(&c->n->cells, c, all);
	ahead_unlend(c);
	cell_enter(c, CELL_OVER);
	timer_clear(c->n->loop, &c->timer);
	chan_close(&c->ch);
	loop_bury(c->n->loop, c, cell_free);
}

static void start_failed(struct cell *c, const struct err *e)
{
	struct err copy = *e;
	ahead_unlearn(c->n); // the next one would fail as well, and for nobody
	cell_bury(c);
	c->w->up(c->w, NULL, &copy);
}

static void on_timer(struct timer *t)
{
	struct cell *c = container_of(t, struct cell, timer);
	if (c->fail.kind == ERR_NONE)
		err_set(&c->fail, ERR_TIMEOUT, "the cell did not come up in time");
	pool_forget(c->n, c);
	start_failed(c, &c->fail);
}

void cell_deadline(struct cell *c, uint64_t ms)
{
	c->timer.fn = on_timer;
	timer_set(c->n->loop, &c->timer, ms);
}

void cell_fail_later(struct cell *c, const struct err *e)
{
	c->fail = *e;
	cell_deadline(c, 0);
}

bool cell_begin(struct cell *c)
{
	cell_enter(c, CELL_STARTING);
	if (c->secrets >= 0)
		return chan_send_fd(&c->ch, M_SPEC, ++c->last_id, c->spec.p, c->spec.n, c->secrets);
	bool sent = !c->spec.overflow && chan_send(&c->ch, M_SPEC, pool_abounds(c->n), ++c->last_id, c->spec.p, c->spec.n);
	chan_flush(&c->ch);
	return sent;
}

static void on_up(struct cell *c, const struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	struct cell_up up = {.pid = wire_get_u32(&w)};
	struct err e;
	up.start = wire_get_u64(&w);
	up.paused = wire_get_u8(&w);
	int rc = isolation_read(&w, &up.isolation);
	up.seq = wire_get_u64(&w);
	auto_free char *head = wire_get_str(&w);
	if (rc || w.bad || !head || fmt_to(up.head, sizeof up.head, "%s", head)) {
		isolation_done(&up.isolation);
		err_set(&e, ERR_BUG, "the cell's first report is malformed");
		start_failed(c, &e);
		return;
	}
	timer_clear(c->n->loop, &c->timer);
	buf_done(&c->spec);
	close_fd(&c->secrets);
	cell_enter(c, CELL_UP);
	c->w->up(c->w, &up, NULL);
	pool_ask(c->n); // the processor is free for the next
	isolation_done(&up.isolation);
}

static void on_started(struct cell *c, const struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	auto_free char *exec = wire_get_str(&w);
	uint32_t pid = wire_get_u32(&w);
	if (exec && !w.bad)
		c->w->started(c->w, exec, pid);
	request_end(&c->requests, f->id, NULL);
}

static void on_exited(struct cell *c, const struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	struct exec_result r;
	auto_free char *exec = wire_get_str(&w);
	if (!exec || exec_result_read(&w, &r))
		return;
	c->w->exited(c->w, exec, &r);
	exec_result_done(&r);
}

enum again { AGAIN_NO, AGAIN_SOON, AGAIN_WOKEN }; // as in M_GONE

// Not because somebody wanted it to: what was on its way to it, and was not read, goes to the next cell.
static bool ended_by_itself(const struct cell_end *end)
{
	return !strcmp(end->reason, "exec ended") || !strcmp(end->reason, "idle");
}

static void cell_ended(struct cell *c, const struct cell_end *end, enum again again)
{
	struct err e;
	struct cell_watcher *w = c->w;
	if (again) {
		timer_clear(c->n->loop, &c->timer);
		cell_enter(c, CELL_RESTING);
		c->w = NULL;
		free(take(&c->stacked));
		if (again == AGAIN_WOKEN)
			pool_rest(c->n, c);
	} else {
		cell_bury(c);
	}
	err_set(&e, ended_by_itself(end) ? ERR_CONFLICT : ERR_UNAVAILABLE, "the cell ended: %s", end->reason);
	request_end_all(&c->requests, &e);
	w->gone(w, end);
}

// The cell has let go of the journal and of its mounts; its process may stay a while for attached clients.
static void on_end(struct cell *c, const struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	auto_free char *reason = wire_get_str(&w);
	uint32_t pending = wire_get_u32(&w);
	struct cell_end end = {.reason = reason, .pending = pending == CHANGES_UNKNOWN ? -1 : (int64_t)pending};
	end.removed = wire_get_u8(&w);
	end.seq = wire_get_u64(&w);
	auto_free char *head = wire_get_str(&w);
	if (!w.bad && reason && head && !fmt_to(end.head, sizeof end.head, "%s", head))
		cell_ended(c, &end, c->key.n ? f->stream : AGAIN_NO);
}

static void on_hit(struct cell *c, const struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	auto_free char *limit = wire_get_str(&w), *message = wire_get_str(&w);
	if (limit && message)
		c->w->hit(c->w, limit, message);
}

static void on_ask(struct cell *c, const struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	auto_free char *host = wire_get_str(&w);
	uint32_t port = wire_get_u32(&w);
	auto_free char *method = wire_get_str(&w), *path = NULL;
	path = wire_get_str(&w);
	if (w.bad || !host || port > UINT16_MAX || !c->w->asked)
		return;
	c->w->asked(c->w, &(struct cell_ask){.id = f->id, .host = host, .port = (uint16_t)port, .method = method ? method : "",
					     .path = path ? path : ""});
}

static void on_port(struct cell *c, const struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	bool is_open = wire_get_u8(&w);
	uint32_t port = wire_get_u32(&w);
	struct cell_port p = {.local = wire_get_u8(&w)};
	p.pid = wire_get_u32(&w);
	auto_free char *exec = wire_get_str(&w), *program = wire_get_str(&w);
	if (w.bad || !port || port > UINT16_MAX || !exec || !program || !c->w->port)
		return;
	p.port = (uint16_t)port;
	p.exec = exec;
	p.program = program;
	c->w->port(c->w, is_open, &p);
}

static void on_answer(struct cell *c, const struct frame *f)
{
	if (f->n == 2 && c->w->answered)
		c->w->answered(c->w, f->id, f->p[0], f->p[1]);
}

// What goes on from here is bytes from and to a TCP connection of the cell, whatever it is that the cell sent.
static void on_dialled(struct cell *c, struct frame *f)
{
	struct err e;
	int proto = 0;
	socklen_t len = sizeof proto;
	if (f->fd < 0 || getsockopt(f->fd, SOL_SOCKET, SO_PROTOCOL, &proto, &len) || proto != IPPROTO_TCP) {
		err_set(&e, ERR_BUG, "the cell gave no connection");
		request_end(&c->requests, f->id, &e);
		return;
	}
	struct flow *flow = flow_new(take_fd(&f->fd));
	if (!request_dialled(&c->requests, f->id, flow))
		flow_close(flow);
}

int layer_make(const char *layer, struct err *e)
{
	static const char *const parts[] = {"", "/ws", "/home", "/root", "/work"};
	for (size_t i = 0; i < countof(parts); i++) {
		auto_free char *dir = xasprintf("%s%s", layer, parts[i]);
		if (mkdir(dir, 0700) && errno != EEXIST)
			return err_sys(e, "make %s", dir);
	}
	return 0;
}

// The slot was made for a directory that has been replaced since: one without a place builds it from what is there.
static void start_again(struct cell *c)
{
	struct err e;
	chan_close(&c->ch);
	cell_enter(c, CELL_WAITING);
	c->pooled = false;
	buf_clear(&c->key);
	if (c->stacked && layer_make(c->stacked, &e)) {
		cell_fail_later(c, &e);
		return;
	}
	c->warm_ok &= !c->stacked;
	pool_want(c->n, c);
}

// Its process has yet to clear away: nobody shall be given it meanwhile.
static void warm_failed(struct cell *c, const struct err *e)
{
	log_line(LOG_WARN, "a warm slot failed: %s", e->msg);
	pool_slot_died(c->n, c);
	cell_bury(c);
}

// --- cells of another build ---

static void on_foreign_asked(struct timer *t)
{
	struct cell *c = container_of(t, struct cell, timer);
	request_end_all(&c->requests, &c->fail);
}

// False: it would not understand. Who asks is told so, from the loop.
bool cell_understands(struct cell *c)
{
	if (!c->foreign)
		return true;
	c->timer.fn = on_foreign_asked;
	timer_set(c->n->loop, &c->timer, 0);
	return false;
}

// It outlived a daemon of another build, and works on. What it says may mean something else than here, so nothing of it is
// read; its connection stays, for its end is seen by it.
static void take_foreign(struct cell *c, const struct err *e)
{
	struct ucred peer;
	socklen_t n = sizeof peer;
	struct err bad;
	if (getsockopt(c->ch.fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) || peer.pid <= 1) {
		err_sys(&bad, "find the process of a cell of another build");
		start_failed(c, &bad);
		return;
	}
	err_set(&c->fail, ERR_UNSUPPORTED, "its cell was made by another build of skep: stop the sandbox and start it again (%.120s)", e->msg);
	timer_clear(c->n->loop, &c->timer);
	c->foreign = peer.pid;
	cell_enter(c, CELL_UP);
	c->w->up(c->w, &(struct cell_up){.foreign = true, .pid = (uint32_t)peer.pid, .start = proc_start_time(peer.pid)}, NULL);
}

static void on_refusal(struct cell *c, const struct frame *f)
{
	struct err e;
	frame_err(f, &e);
	bool unread = e.kind == ERR_UNAVAILABLE || !f->id; // an answer to the spec repeats its id
	if (c->phase == CELL_STARTING && c->pooled && unread && c->spec.n)
		start_again(c);
	else if (c->phase == CELL_STARTING && c->adopting && e.kind == ERR_UNSUPPORTED)
		take_foreign(c, &e);
	else if (c->phase == CELL_STARTING)
		start_failed(c, &e);
	else if (c->phase == CELL_WARM)
		warm_failed(c, &e);
	else
		request_end(&c->requests, f->id, &e);
}

static void on_frame(struct chan *ch, struct frame *f)
{
	struct cell *c = container_of(ch, struct cell, ch);
	bool rests = c->phase == CELL_RESTING || c->phase == CELL_TIRED;
	if (c->foreign)
		return;
	if (rests && f->type == M_AGAIN)
		pool_again(c->n, c);
	else if (rests)
		return; // an answer that came too late
	else if (f->type == M_UP && c->phase == CELL_STARTING)
		on_up(c, f);
	else if (f->type == M_ERR)
		on_refusal(c, f);
	else if (c->phase != CELL_UP)
		log_line(LOG_WARN, "frame %u from a cell that is not up", f->type);
	else if (f->type == M_STARTED)
		on_started(c, f);
	else if (f->type == M_EXITED)
		on_exited(c, f);
	else if (f->type == M_OK || f->type == M_MEMBERS)
		request_done(&c->requests, f);
	else if (f->type == M_DIALLED)
		on_dialled(c, f);
	else if (f->type == M_PORT)
		on_port(c, f);
	else if (f->type == M_GONE)
		on_end(c, f);
	else if (f->type == M_HIT)
		on_hit(c, f);
	else if (f->type == M_ASK)
		on_ask(c, f);
	else if (f->type == M_ANSWER)
		on_answer(c, f);
	else if (f->type == M_PAUSED && f->n == 1)
		c->w->paused(c->w, f->p[0]);
	else if (f->type == M_PENDING && f->n == 4 && c->w->pending)
		c->w->pending(c->w, wire_get_u32(&(struct wire){.p = f->p, .n = f->n}));
}

// One that was killed between its last word and the end of its work.
static void drop_socket(const struct cell *c)
{
	auto_free char *name = xasprintf("%s.sock", c->sandbox);
	unlinkat(c->n->cells_dir, name, 0);
}

static void on_close(struct chan *ch)
{
	struct cell *c = container_of(ch, struct cell, ch);
	struct err e;
	if (c->phase == CELL_WARM) {
		pool_slot_died(c->n, c);
		cell_bury(c);
	} else if (c->phase == CELL_STARTING) {
		err_set(&e, ERR_UNAVAILABLE, "the cell died while it was being started");
		start_failed(c, &e);
	} else if (c->phase == CELL_UP) {
		cell_ended(c, &(struct cell_end){.died = true, .reason = c->stopped ? "stopped" : "died", .pending = -1}, AGAIN_NO);
	} else if (c->phase == CELL_RESTING || c->phase == CELL_TIRED) {
		pool_forget(c->n, c);
		drop_socket(c);
		cell_bury(c);
	}
}

int cell_connect(struct cell *c, int fd, struct err *e)
{
	chan_init(&c->ch, fd);
	c->ch.on_frame = on_frame;
	c->ch.on_close = on_close;
	if (!chan_attach(&c->ch, c->n->loop, e))
		return 0;
	chan_close(&c->ch);
	return -1;
}

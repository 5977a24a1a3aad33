// SPDX-License-Identifier: Apache-2.0
// Channel K: one struct cell per slot or live cell.
#include "backend/native_int.h"

#include "base/flow.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "model/msg.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define START_MS 60000 // the first root cell of a host builds its ownership layer
#define ADOPT_MS 5000

uint32_t request_add(struct request **list, uint32_t *last_id, struct reply r)
{
	struct request *q = xcalloc(1, sizeof *q);
	*q = (struct request){.id = ++*last_id, .reply = r, .next = *list};
	*list = q;
	return q->id;
}

static void tell(const struct request *q, const struct err *e, struct wire *w, struct flow *flow)
{
	struct layer_result r = {0};
	struct err bad;
	uint32_t count = !e && q->count.fn ? wire_get_u32(w) : 0;
	if (!e && ((q->layer.fn && layer_result_read(w, &r)) || w->bad)) {
		err_set(&bad, ERR_BUG, "malformed answer");
		e = &bad;
	}
	if (q->reply.fn)
		q->reply.fn(q->reply.ctx, e);
	else if (q->layer.fn)
		q->layer.fn(q->layer.ctx, e, e ? NULL : &r);
	else if (q->count.fn)
		q->count.fn(q->count.ctx, e, e ? 0 : count);
	else if (q->dial.fn)
		q->dial.fn(q->dial.ctx, e, flow);
}

static bool end_with(struct request **list, uint32_t id, const struct err *e, struct wire *w, struct flow *flow)
{
	for (; *list; list = &(*list)->next) {
		struct request *q = *list;
		if (q->id != id)
			continue;
		*list = q->next;
		tell(q, e, w, flow);
		buf_done(&q->again);
		free(q);
		return true;
	}
	return false;
}

bool request_end(struct request **list, uint32_t id, const struct err *e)
{
	return end_with(list, id, e, &(struct wire){0}, NULL);
}

bool request_done(struct request **list, const struct frame *f)
{
	return end_with(list, f->id, NULL, &(struct wire){.p = f->p, .n = f->n}, NULL);
}

void request_end_all(struct request **list, const struct err *e)
{
	while (*list)
		request_end(list, (*list)->id, e);
}

void frame_err(const struct frame *f, struct err *out)
{
	struct wire w = {.p = f->p, .n = f->n};
	uint32_t kind = wire_get_u32(&w), sys = wire_get_u32(&w);
	auto_free char *msg = wire_get_str(&w);
	err_set(out, kind && kind < ERR_KINDS ? (enum err_kind)kind : ERR_SYSTEM, "%s", msg ? msg : "malformed error report");
	out->sys = (int)sys;
}

// Whoever asked may be gone already: nobody is told.
static void requests_drop(struct request **list)
{
	while (*list) {
		(*list)->reply.fn = NULL;
		(*list)->layer.fn = NULL;
		(*list)->count.fn = NULL;
		(*list)->dial.fn = NULL;
		request_end(list, (*list)->id, NULL);
	}
}

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
	for (struct cell **p = &c->n->cells; *p; p = &(*p)->all)
		if (*p == c) {
			*p = c->all;
			break;
		}
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
	nursery_forget(c->n, c);
	start_failed(c, &c->fail);
}

static void deadline(struct cell *c, uint64_t ms)
{
	c->timer.fn = on_timer;
	timer_set(c->n->loop, &c->timer, ms);
}

void cell_fail_later(struct cell *c, const struct err *e)
{
	c->fail = *e;
	deadline(c, 0);
}

bool cell_begin(struct cell *c)
{
	cell_enter(c, CELL_STARTING);
	if (c->secrets >= 0)
		return chan_send_fd(&c->ch, M_SPEC, ++c->last_id, c->spec.p, c->spec.n, c->secrets);
	bool sent = !c->spec.overflow && chan_send(&c->ch, M_SPEC, nursery_abounds(c->n), ++c->last_id, c->spec.p, c->spec.n);
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
			nursery_rest(c->n, c);
	} else {
		cell_bury(c);
	}
	err_set(&e, ERR_UNAVAILABLE, "the cell ended: %s", end->reason);
	request_end_all(&c->requests, &e);
	w->gone(w, end);
}

// The cell has let go of the journal and of its mounts; its process may stay a while for attached clients.
static void on_end(struct cell *c, const struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	auto_free char *reason = wire_get_str(&w);
	uint32_t pending = wire_get_u32(&w);
	struct cell_end end = {.reason = reason, .pending = pending == UINT32_MAX ? -1 : (int64_t)pending};
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
	if (!end_with(&c->requests, f->id, NULL, &(struct wire){0}, flow))
		flow_close(flow);
}

static int make_layer(const char *layer, struct err *e)
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
	if (c->stacked && make_layer(c->stacked, &e)) {
		cell_fail_later(c, &e);
		return;
	}
	c->warm_ok = !c->stacked;
	nursery_want(c->n, c);
}

// Its process has yet to clear away: nobody shall be given it meanwhile.
static void warm_failed(struct cell *c, const struct err *e)
{
	log_line(LOG_WARN, "a warm slot failed: %s", e->msg);
	nursery_slot_died(c->n, c);
	cell_bury(c);
}

// --- cells of another build ---

static void on_foreign_asked(struct timer *t)
{
	struct cell *c = container_of(t, struct cell, timer);
	request_end_all(&c->requests, &c->fail);
}

// False: it would not understand. Who asks is told so, from the loop.
static bool understands(struct cell *c)
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
	c->phase = CELL_UP;
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
		nursery_again(c->n, c);
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
		nursery_slot_died(c->n, c);
		cell_bury(c);
	} else if (c->phase == CELL_STARTING) {
		err_set(&e, ERR_UNAVAILABLE, "the cell died while it was being started");
		start_failed(c, &e);
	} else if (c->phase == CELL_UP) {
		cell_ended(c, &(struct cell_end){.died = true, .reason = c->stopped ? "stopped" : "died", .pending = -1}, AGAIN_NO);
	} else if (c->phase == CELL_RESTING || c->phase == CELL_TIRED) {
		nursery_forget(c->n, c);
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

struct native *native_of(struct backend *b)
{
	return container_of(b, struct native, b);
}

// Takes *secrets once a slot has them.
static struct cell *take_slot(struct native *n, const char *id, const struct buf *spec, const struct buf *key, bool exact, int *secrets)
{
	struct cell *c;
	while ((c = nursery_take_warm(n, id, key, exact))) {
		buf_add(&c->spec, spec->p, spec->n);
		c->secrets = *secrets >= 0 ? fcntl(*secrets, F_DUPFD_CLOEXEC, 3) : -1;
		c->warm_ok = c->pooled = true;
		if ((*secrets < 0 || c->secrets >= 0) && cell_begin(c)) {
			close_fd(secrets);
			return c;
		}
		cell_bury(c);
	}
	return NULL;
}

// A warm slot brings a new layer of its own: it fits only a sandbox that has none yet. A sandbox with a history of its own
// is started cold: slots made for it would fit nobody else. What is hidden is judged when a cell starts: no slot brings that.
static bool fits_warm(const struct cell_spec *s, bool fresh)
{
	return fresh && !s->hide && (!s->lowers || strv_len(s->lowers) == s->n_base_lowers) && s->profile == PROFILE_USER && !s->image && !s->nested && !s->maintenance;
}

// They are mounted below home, which a slot for no place in particular has mounted already.
static bool has_caches(const struct cell_spec *s)
{
	for (uint32_t i = 0; i < s->n_mounts; i++)
		if (s->mounts[i].cache)
			return true;
	return false;
}

static struct cell *native_start(struct backend *b, const struct cell_spec *spec, bool fresh, struct cell_watcher *w)
{
	struct native *n = native_of(b);
	struct err e;
	auto_buf struct buf wire = BUF_INIT(FRAME_MAX);
	cell_spec_write(&wire, spec);
	bool warm_ok = fits_warm(spec, fresh);
	auto_buf struct buf key = BUF_INIT(FRAME_MAX);
	if (warm_ok) {
		place_write(&key, spec);
		nursery_aim(n, &key);
		ahead_learn(n, spec);
	}
	int rc = wire.overflow ? err_set(&e, ERR_LIMIT, "the request is too large for a cell") : 0;
	auto_fd int secrets = !rc && spec->net.secrets.n ? sealed_memory(&spec->net.secrets, &e) : -1;
	if (!rc && spec->net.secrets.n && secrets < 0)
		rc = -1;
	const char *stacked = (spec->lowers && spec->lowers[0]) || has_caches(spec) ? spec->layer : NULL;
	struct cell *c = warm_ok && !rc ? take_slot(n, spec->sandbox, &wire, &key, stacked, &secrets) : NULL;
	native_forsake(b, spec->sandbox); // what was built for it does not fit
	if (c) {
		c->w = w;
		c->stacked = stacked ? xstrdup(stacked) : NULL;
		memcpy(c->sandbox, spec->sandbox, sizeof c->sandbox);
		deadline(c, START_MS);
		nursery_refill_soon(n);
		return c;
	}
	c = cell_new(n, CELL_WAITING);
	c->w = w;
	memcpy(c->sandbox, spec->sandbox, sizeof c->sandbox);
	c->profile = spec->profile;
	c->warm_ok = warm_ok;
	c->secrets = take_fd(&secrets);
	if (!rc && fresh && !warm_ok)
		rc = make_layer(spec->layer, &e);
	if (rc) {
		cell_fail_later(c, &e);
		return c;
	}
	c->spec = wire;
	wire = BUF_INIT(0);
	buf_add(&c->key, key.p, key.n);
	deadline(c, START_MS);
	nursery_want(n, c);
	if (warm_ok)
		nursery_refill_soon(n);
	return c;
}

static struct cell *native_adopt(struct backend *b, const char *sandbox, const char *key, struct cell_watcher *w)
{
	struct native *n = native_of(b);
	struct err e;
	auto_free char *name = xasprintf("%s.sock", sandbox);
	auto_buf struct buf hello = BUF_INIT(256);
	struct cell *c = cell_new(n, CELL_STARTING);
	c->w = w;
	c->adopting = true;
	int fd = fs_unix_connect(n->cells_dir, name, &e);
	if (fd < 0 || cell_connect(c, fd, &e)) {
		cell_fail_later(c, &e);
		return c;
	}
	wire_u32(&hello, PROTO_VERSION);
	wire_u8(&hello, ROLE_CONTROL);
	wire_str(&hello, key);
	wire_u64(&hello, 0);
	wire_u64(&hello, 0);
	deadline(c, ADOPT_MS);
	chan_send_buf(&c->ch, M_HELLO, ++c->last_id, &hello); // a failure closes the channel: on_close tells
	return c;
}

static void ask(struct cell *c, uint8_t type, const struct buf *b, struct reply r)
{
	uint32_t id = request_add(&c->requests, &c->last_id, r);
	if (!understands(c))
		return;
	if (b->overflow)
		chan_send(&c->ch, type, 0, id, NULL, 0); // malformed on purpose: the cell answers with INVALID
	else
		chan_send_buf(&c->ch, type, id, b);
}

static void native_exec(struct cell *c, const struct exec_spec *x, const char *ticket, struct reply r)
{
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	exec_spec_write(&b, x);
	wire_str(&b, ticket);
	ask(c, M_EXEC, &b, r);
	chan_flush(&c->ch);
}

static void native_ticket(struct cell *c, const char *exec, const char *ticket, struct reply r)
{
	auto_buf struct buf b = BUF_INIT(256);
	wire_str(&b, exec);
	wire_str(&b, ticket);
	ask(c, M_TICKET, &b, r);
}

static void native_kill(struct cell *c, const char *exec, uint32_t signal, struct reply r)
{
	auto_buf struct buf b = BUF_INIT(256);
	wire_str(&b, exec);
	wire_u32(&b, signal);
	ask(c, M_KILL, &b, r);
}

static void native_pause(struct cell *c, bool on, struct reply r)
{
	struct buf none = BUF_INIT(0);
	ask(c, on ? M_PAUSE : M_RESUME, &none, r);
}

static void native_event(struct cell *c, const char *type, const char *by, const char *body, struct reply r)
{
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	wire_str(&b, type);
	wire_str(&b, by);
	wire_str(&b, body);
	ask(c, M_EVENT, &b, r);
}

static void native_policy(struct cell *c, const struct cell_net *n, struct reply r)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	auto_fd int secrets = n->secrets.n ? sealed_memory(&n->secrets, &e) : -1;
	uint32_t id = request_add(&c->requests, &c->last_id, r);
	if (!understands(c))
		return;
	buf_add(&b, n->policy.p, n->policy.n);
	wire_str(&b, n->resolver ? n->resolver : "");
	wire_str(&b, n->ca_cert ? n->ca_cert : "");
	wire_str(&b, n->ca_file ? n->ca_file : "");
	if (b.overflow || (n->secrets.n && secrets < 0))
		chan_send(&c->ch, M_POLICY, 0, id, NULL, 0); // malformed on purpose: the cell answers with INVALID
	else if (secrets >= 0)
		chan_send_fd(&c->ch, M_POLICY, id, b.p, b.n, secrets);
	else
		chan_send_buf(&c->ch, M_POLICY, id, &b);
}

static void native_limits(struct cell *c, const struct limits *l, uint64_t expires_unix_ms, uint64_t idle_ms, struct reply r)
{
	auto_buf struct buf b = BUF_INIT(256);
	limits_write(&b, l);
	wire_u64(&b, expires_unix_ms);
	wire_u64(&b, idle_ms);
	ask(c, M_LIMITS, &b, r);
}

static void native_answer(struct cell *c, uint32_t ask_id, uint8_t verdict, uint8_t scope, const char *by)
{
	auto_buf struct buf b = BUF_INIT(256);
	wire_u8(&b, verdict);
	wire_u8(&b, scope);
	wire_str(&b, by);
	if (understands(c))
		chan_send_buf(&c->ch, M_ANSWER, ask_id, &b);
}

static void native_stop(struct cell *c, uint32_t grace_ms, bool remove_layer)
{
	auto_buf struct buf b = BUF_INIT(16);
	wire_u32(&b, grace_ms);
	wire_u8(&b, remove_layer);
	c->stopped = c->foreign;
	if (c->foreign)
		kill(c->foreign, SIGKILL); // ours as long as its connection is open; all in it ends with it
	else
		chan_send_buf(&c->ch, M_STOP, ++c->last_id, &b);
}

static void native_members(struct cell *c, struct count_reply r)
{
	uint32_t id = request_add(&c->requests, &c->last_id, (struct reply){0});
	c->requests->count = r;
	if (understands(c))
		chan_send(&c->ch, M_MEMBERS, 0, id, NULL, 0);
}

static void native_dial(struct cell *c, uint16_t port, struct dial_reply r)
{
	auto_buf struct buf b = BUF_INIT(16);
	uint32_t id = request_add(&c->requests, &c->last_id, (struct reply){0});
	c->requests->dial = r;
	wire_u32(&b, port);
	wire_str(&b, NULL);
	if (understands(c))
		chan_send_buf(&c->ch, M_DIAL, id, &b);
}

static void native_dials(struct cell *c, const char *ticket, struct reply r)
{
	auto_buf struct buf b = BUF_INIT(256);
	wire_str(&b, ticket);
	ask(c, M_DIALS, &b, r);
}

static void send_job(struct native *n, uint8_t type)
{
	n->jobs->type = type;
	if (n->connected)
		chan_send_buf(&n->ch, type, n->jobs->id, &n->jobs->again);
}

static void native_remove(struct backend *b, char *const *dirs, struct reply r)
{
	struct native *n = native_of(b);
	request_add(&n->jobs, &n->last_id, r);
	n->jobs->again = BUF_INIT(FRAME_MAX);
	char **paths = NULL;
	for (char *const *d = dirs; *d; d++) {
		auto_free char *path = xasprintf("%s/%s", n->skep_home, *d);
		strv_add(&paths, path);
	}
	wire_strv(&n->jobs->again, paths);
	strv_free(paths);
	send_job(n, M_REMOVE);
}

static void native_layer(struct backend *b, const struct layer_op *op, struct layer_reply r)
{
	struct native *n = native_of(b);
	request_add(&n->jobs, &n->last_id, (struct reply){0});
	n->jobs->layer = r;
	n->jobs->again = BUF_INIT(FRAME_MAX);
	layer_op_write(&n->jobs->again, op);
	send_job(n, M_LAYER);
}

static void native_free(struct backend *b)
{
	struct native *n = native_of(b);
	nursery_close(n);
	requests_drop(&n->jobs);
	while (n->cells)
		cell_bury(n->cells); // the cells themselves live on
	close_fd(&n->cells_dir);
	free(n->skep_home);
	free(n->home);
	free(n->base);
	free(n->cell_program);
	free(n);
}

static const struct backend_ops native_ops = {
	.expects = native_expects,
	.forsake = native_forsake,
	.start = native_start,
	.adopt = native_adopt,
	.exec = native_exec,
	.ticket = native_ticket,
	.kill = native_kill,
	.pause = native_pause,
	.dial = native_dial,
	.dials = native_dials,
	.members = native_members,
	.event = native_event,
	.policy = native_policy,
	.answer = native_answer,
	.limits = native_limits,
	.stop = native_stop,
	.remove = native_remove,
	.layer = native_layer,
	.free = native_free,
};

struct backend *backend_native_new(struct loop *l, const struct native_config *cfg, struct err *e)
{
	struct native *n = xcalloc(1, sizeof *n);
	n->b = (struct backend){.name = "native", .can_pause = true, .ops = &native_ops};
	n->loop = l;
	n->skep_home = xstrdup(cfg->skep_home);
	n->home = xstrdup(cfg->home);
	n->cell_program = xstrdup(cfg->cell_program);
	auto_free char *cells = xasprintf("%s/run/cells", cfg->skep_home);
	n->cells_dir = fs_open(AT_FDCWD, cells, O_RDONLY | O_DIRECTORY, 0, e);
	n->child.fd = -1;
	if (n->cells_dir < 0 || nursery_open(n, cfg->nursery_fd, e)) {
		native_free(&n->b);
		return NULL;
	}
	return &n->b;
}

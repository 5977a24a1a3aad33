// SPDX-License-Identifier: Apache-2.0
// Pausing, and the channel to init.
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cell/cell_int.h"
#include "cell/changed.h"
#include "cell/dials.h"
#include "cell/input.h"
#include "cell/moves.h"
#include "cell/ports.h"
#include "cell/refresh.h"
#include "cell/watching.h"
#include "isolate/contain.h"
#include "model/msg.h"
#include <string.h>
#include <unistd.h>

// --- pausing ---

static bool freezes_group(const struct cell *c)
{
	return c->has_cgroup && cgroup_can_freeze(&c->nursery->cgroups);
}

int cell_pause(struct cell *c, bool on, uint32_t request, struct err *e)
{
	uint8_t v = on;
	if (c->stage != CELL_UP)
		return err_set(e, ERR_CONFLICT, "the cell is ending");
	if (c->pause_request) { // what init says next is about this one
		err_set(e, ERR_CONFLICT, "the cell was asked to be paused and to go on at once");
		if (c->control)
			control_send_err(&c->control->chan, c->pause_request, e);
		c->pause_request = 0;
	}
	if (c->paused == on)
		return 0;
	if (freezes_group(c)) {
		if (cgroup_freeze(&c->cgroup, on, e))
			return -1;
		c->paused = on;
		return 0;
	}
	c->paused = on;
	c->pause_request = request;
	chan_send(&c->init, M_FREEZE, 0, 0, &v, 1);
	return 1;
}

static void on_freeze(struct cell *c, struct wire *w)
{
	uint32_t request = c->pause_request;
	bool done = wire_get_u8(w);
	struct err e;
	c->pause_request = 0;
	if (!done)
		c->paused = false; // it let everything go on
	if (!done && !request && c->spec.expires_unix_ms && c->spec.expires_unix_ms <= clock_unix_ms())
		watchdog_expire(c); // it was to be paused at the end of its time
	if (!request || !c->control)
		return;
	err_set(&e, ERR_TIMEOUT, "a process of the sandbox would not stop");
	if (done)
		chan_send(&c->control->chan, M_OK, 0, request, NULL, 0);
	else
		control_send_err(&c->control->chan, request, &e);
}

static void send_members(struct cell *c, uint32_t request, uint32_t count)
{
	auto_buf struct buf b = BUF_INIT(8);
	wire_u32(&b, count);
	if (c->control)
		chan_send_buf(&c->control->chan, M_MEMBERS, request, &b);
}

int cell_members(struct cell *c, uint32_t request, struct err *e)
{
	uint32_t count;
	if (c->stage != CELL_UP)
		return err_set(e, ERR_CONFLICT, "the cell is ending");
	if (!c->paused || !freezes_group(c)) {
		chan_send(&c->init, M_MEMBERS, 0, request, NULL, 0);
		return 1;
	}
	if (cgroup_members(&c->cgroup, &count, e)) // pid 1 is frozen with the rest
		return -1;
	uint32_t ours = 1 + (c->mold.chan.fd >= 0);
	send_members(c, request, count > ours ? count - ours : 0);
	return 1;
}

// --- frames of init ---

static void on_init_error(struct cell *c, struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	struct err e = {.kind = wire_get_u32(&w), .sys = (int)wire_get_u32(&w)};
	auto_free char *msg = wire_get_str(&w);
	if (fmt_to(e.msg, sizeof e.msg, "%s", msg ? msg : "unknown failure"))
		e.msg[sizeof e.msg - 1] = 0;
	struct sx *x = f->id ? sx_by_number(c, f->id) : NULL;
	if (x)
		sx_failed(x, &e);
	else if (c->stage == CELL_WAITING || c->stage == CELL_BUILDING)
		cell_build_failed(c, &e);
}

static void on_changes(struct cell *c, struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	if (f->id) { // a look while the cell lives
		if (c->control && f->n >= 4)
			chan_send(&c->control->chan, M_PENDING, 0, 0, f->p, 4);
		wire_get_u32(&w);
		strv_free(wire_get_strv(&w));
		changed_walk(c, &w);
		return;
	}
	c->pending = wire_get_u32(&w);
	strv_free(c->changed);
	c->changed = wire_get_strv(&w);
	c->walk_done = !w.bad;
	changed_walk(c, &w);
	changes_sum_done(&c->sum);
	changes_sum_read(&w, &c->sum);
	c->sum.home = xstrdup(c->spec.home ? c->spec.home : "/home/skep");
	// Every process but pid 1 is dead. What is left is the kernel's work of taking namespaces apart, a millisecond
	// that a sandbox which goes anyway need not wait for.
	if (c->stage == CELL_ENDING && c->spec.remove_if_clean && c->walk_done && !c->pending)
		cell_goodbye(c);
	if (c->parked && !c->tired)
		cell_wake(c);
}

// About one exec, which may be one that nobody knows any more.
static void on_exec_frame(struct cell *c, struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	struct sx *x = f->id ? sx_by_number(c, f->id) : NULL;
	if (f->type == M_EXIT) {
		c->init_ends |= f->stream;
		c->parked = c->init_ends && c->no_hurry;
	}
	if (!x)
		return;
	if (f->type == M_BEGUN) {
		sx_begun(x, wire_get_u32(&w));
	} else if (f->type == M_DATA && x->live && f->stream == 1) {
		watching_output(x, f->p, f->n);
	} else if (f->type == M_DATA) {
		sx_output(x, f->stream, f->p, f->n);
	} else if (f->type == M_CREDIT) {
		x->in_credit = wire_get_u64(&w);
		if (x->live)
			watching_room(x);
		else
			input_room(x);
		client_pump_exec(x);
	} else if (f->type == M_SUSPENDED) {
		for (struct client *cl = c->clients; cl; cl = cl->next)
			if (cl->exec == x)
				chan_send(&cl->chan, M_SUSPENDED, 0, 0, NULL, 0);
	} else if (f->type == M_EXIT) {
		sx_ended(x, wire_get_u32(&w));
	}
}

static void on_usage(struct cell *c, struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	uint64_t used = wire_get_u64(&w);
	uint32_t killed = wire_get_u32(&w);
	watchdog_usage(c, used, killed, wire_get_u32(&w));
}

void cell_on_init_frame(struct chan *ch, struct frame *f)
{
	struct cell *c = container_of(ch, struct cell, init);
	struct wire w = {.p = f->p, .n = f->n};
	switch ((enum msg_type)f->type) {
	case M_READY:
		cell_ready(c, f);
		break;
	case M_ERR:
		on_init_error(c, f);
		break;
	case M_CHANGES:
		on_changes(c, f);
		break;
	case M_USAGE:
		on_usage(c, f);
		break;
	case M_SOCKET:
		slot_take_socket(&c->net, f);
		break;
	case M_TURN:
		mold_leave(c); // not before: until then its end is the cell's
		break;
	case M_MOVABLE:
		moves_answer(f->id);
		break;
	case M_WHO:
		gate_who(&c->gate, f);
		break;
	case M_AGENT:
		gate_agent(&c->gate, f);
		break;
	case M_ROOT:
		refresh_root(c, f);
		break;
	case M_PORTS:
		ports_answer(c, f);
		break;
	case M_DIALLED:
		dials_answer(c, f);
		break;
	case M_FREEZE:
		on_freeze(c, &w);
		break;
	case M_MEMBERS:
		send_members(c, f->id, wire_get_u32(&w));
		break;
	case M_BEGUN:
	case M_DATA:
	case M_CREDIT:
	case M_SUSPENDED:
	case M_EXIT:
		on_exec_frame(c, f);
		break;
	default:
		break;
	}
}

void cell_on_init_close(struct chan *ch)
{
	struct cell *c = container_of(ch, struct cell, init);
	cell_kill_init(c); // its end is seen by the pidfd
}

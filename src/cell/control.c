// SPDX-License-Identifier: Apache-2.0
// The channel to skepd. A cell lives on without it: what happens meanwhile is told to the next skepd that greets with
// the cell's key.
#include "base/fault.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "cell/away.h"
#include "cell/cell_int.h"
#include "cell/dials.h"
#include "cell/ports.h"
#include "cell/refresh.h"
#include "model/msg.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int slot_name(const struct cell *c, char *out, size_t size, struct err *e)
{
	return fmt_to(out, size, ".slot-%u-%d", c->seat.n, (int)getpid()) ? err_set(e, ERR_BUG, "socket name") : 0;
}

// A file is made now, and only gets its name when somebody waits.
int control_bind(struct cell *c, struct err *e)
{
	struct stat st;
	if (slot_name(c, c->socket_name, sizeof c->socket_name, e))
		return -1;
	int fd = fs_unix_listen(c->nursery->cells_dir, c->socket_name, e);
	if (fd < 0)
		return -1;
	c->listen.fn = client_accept;
	if (loop_add(&c->loop, &c->listen, fd, LOOP_IN, e))
		return -1;
	if (fstatat(c->nursery->cells_dir, c->socket_name, &st, AT_SYMLINK_NOFOLLOW))
		return err_sys(e, "socket of the cell");
	c->socket_ino = st.st_ino;
	return 0;
}

void control_sweep(int cells_dir)
{
	int fd = openat(cells_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	while (d && (ent = readdir(d))) {
		const char *dash = strrchr(ent->d_name, '-');
		uint64_t pid;
		if (str_has_prefix(ent->d_name, ".slot-") && dash && !str_to_u64(str_of(dash + 1), 1, INT32_MAX, &pid) &&
		    kill((pid_t)pid, 0) && errno == ESRCH)
			unlinkat(cells_dir, ent->d_name, 0);
	}
	if (d)
		closedir(d);
}

int control_listen(struct cell *c, struct err *e)
{
	char name[sizeof c->socket_name];
	if (fault(FAULT_CELL_SOCKET, e))
		return -1;
	if (fmt_to(name, sizeof name, "%s.sock", c->spec.sandbox))
		return err_set(e, ERR_BUG, "socket name");
	if (renameat(c->nursery->cells_dir, c->socket_name, c->nursery->cells_dir, name))
		return err_sys(e, "socket of the cell");
	memcpy(c->socket_name, name, sizeof name);
	return 0;
}

// Only our own: the sandbox's next cell may have put its socket there while we were serving a late client.
static bool is_ours(const struct cell *c)
{
	struct stat st;
	return c->listen.fd >= 0 && !fstatat(c->nursery->cells_dir, c->socket_name, &st, AT_SYMLINK_NOFOLLOW) &&
	       st.st_ino == c->socket_ino;
}

void control_unlisten(struct cell *c)
{
	if (is_ours(c))
		unlinkat(c->nursery->cells_dir, c->socket_name, 0);
}

int control_rest(struct cell *c, struct err *e)
{
	char name[sizeof c->socket_name];
	if (!is_ours(c))
		return err_set(e, ERR_CONFLICT, "the cell's socket is another's");
	if (slot_name(c, name, sizeof name, e))
		return -1;
	if (renameat(c->nursery->cells_dir, c->socket_name, c->nursery->cells_dir, name))
		return err_sys(e, "socket of the cell");
	memcpy(c->socket_name, name, sizeof name);
	return 0;
}

void control_send_err(struct chan *ch, uint32_t id, const struct err *e)
{
	auto_buf struct buf b = BUF_INIT(4096);
	wire_u32(&b, e->kind);
	wire_u32(&b, (uint32_t)e->sys);
	wire_str(&b, e->msg);
	chan_send_buf(ch, M_ERR, id, &b);
}

void control_send_up(struct cell *c, uint32_t id)
{
	auto_buf struct buf b = BUF_INIT(8192);
	if (!c->control)
		return;
	wire_u32(&b, (uint32_t)getpid());
	wire_u64(&b, c->start_time);
	wire_u8(&b, c->paused);
	isolation_write(&b, &c->iso);
	wire_u64(&b, c->journal.seq);
	wire_str(&b, c->journal.head);
	chan_send_buf(&c->control->chan, M_UP, id, &b);
}

void control_send_exited(struct cell *c, const struct sx *x)
{
	auto_buf struct buf b = BUF_INIT(8192);
	if (!c->control || x->spec.kind != EXEC_COMMAND)
		return;
	wire_str(&b, x->spec.id);
	exec_result_write(&b, &x->result);
	if (c->spec.ends_with_exec && x->number == 1 && !b.overflow)
		chan_send_later(&c->control->chan, M_EXITED, 0, 0, b.p, b.n); // the cell's own end comes with it
	else
		chan_send_buf(&c->control->chan, M_EXITED, 0, &b);
}

void control_send_gone(struct cell *c)
{
	auto_buf struct buf b = BUF_INIT(4096);
	if (!c->control)
		return;
	c->told = true;
	wire_str(&b, c->gone_reason);
	wire_u32(&b, c->walk_done ? c->pending : CHANGES_UNKNOWN);
	wire_u8(&b, c->remove_layer);
	wire_u64(&b, c->journal.seq);
	wire_str(&b, c->journal.head);
	c->tired = c->parked && again_may(c);
	if (c->tired)
		timer_clear(&c->loop, &c->ending);
	chan_send(&c->control->chan, M_GONE, c->tired ? 2 : again_may(c), 0, b.p, b.n);
}

void control_replay(struct cell *c)
{
	control_send_up(c, 0);
	for (struct sx *x = c->execs; x; x = x->next) {
		auto_buf struct buf b = BUF_INIT(256);
		if (x->spec.kind != EXEC_COMMAND)
			continue;
		wire_str(&b, x->spec.id);
		wire_u32(&b, x->pid);
		chan_send_buf(&c->control->chan, M_STARTED, 0, &b);
		if (x->ended)
			control_send_exited(c, x);
	}
	if (c->stage == CELL_GONE) {
		control_send_gone(c); // it waits for a client only: a daemon that came late must not take its exit for a death
		return;
	}
	gate_replay(&c->gate);
	ports_replay(c);
}

static int do_exec(struct cell *c, struct frame *f, struct wire *w, struct err *e)
{
	struct exec_spec s;
	if (c->stage != CELL_UP)
		return err_set(e, ERR_CONFLICT, "the cell is ending");
	if (exec_spec_read(w, &s, e))
		return -1;
	auto_free char *ticket = wire_get_str(w);
	bool known = sx_find(c, s.id);
	if (w->bad || known) {
		exec_spec_done(&s);
		return known ? err_set(e, ERR_INVALID, "there is an exec of this id already")
			     : err_set(e, ERR_UNSUPPORTED, "this cell was started by another version of skep, which is asked otherwise: stop the sandbox, then try again");
	}
	bool early = s.early;
	sx_start(c, &s, ticket, early ? 0 : f->id); // else answered when it has begun
	return !early;
}

static int do_ticket(struct cell *c, struct wire *w, struct err *e)
{
	auto_free char *id = wire_get_str(w), *ticket = wire_get_str(w);
	struct sx *x = id && ticket ? sx_find(c, id) : NULL;
	if (!x)
		return err_set(e, ERR_NOT_FOUND, "this cell does not know exec %s", id ? id : "?");
	sx_set_ticket(x, ticket);
	return 0;
}

static int do_kill(struct cell *c, struct wire *w, struct err *e)
{
	auto_free char *id = wire_get_str(w);
	uint32_t sig = wire_get_u32(w);
	struct sx *x = id ? sx_find(c, id) : NULL;
	if (!x || w->bad || sig < 1 || sig > 64)
		return err_set(e, ERR_NOT_FOUND, "this cell does not know exec %s", id ? id : "?");
	if (c->paused && cell_pause(c, false, 0, e) < 0)
		return -1;
	if (x->spec.kind == EXEC_JOB) { // who had it begun does not come any more
		memset(x->tickets, 0, sizeof x->tickets);
		x->wants_reader = false;
	}
	sx_kill(x, (int)sig, NULL);
	return 0;
}

static int do_stop(struct cell *c, struct wire *w)
{
	uint32_t grace = wire_get_u32(w);
	c->remove_layer = wire_get_u8(w);
	if (c->remove_layer)
		away_forget(); // who removes it does not wait for a line
	cell_end(c, c->remove_layer ? "removed" : "stopped", grace, !c->remove_layer);
	return 1; // M_GONE is the answer
}

static int do_event(struct cell *c, struct wire *w)
{
	auto_free char *type = wire_get_str(w), *by = wire_get_str(w), *body = wire_get_str(w);
	auto_buf struct buf b = BUF_INIT(60 << 10);
	if (w->bad || !type || !by)
		return 0;
	buf_str(&b, body ? body : "");
	record(c, type, by, &b, false);
	return 0;
}

static int do_limits(struct cell *c, struct wire *w, struct err *e)
{
	struct limits l;
	limits_read(w, &l);
	uint64_t expires = wire_get_u64(w), idle = wire_get_u64(w);
	if (w->bad)
		return err_set(e, ERR_INVALID, "malformed limits");
	bool changed = memcmp(&l, &c->spec.limits, sizeof l); // a lease that is renewed changes none of them
	if (c->has_cgroup && changed && cgroup_set_limits(&c->cgroup, &l, e))
		return -1;
	c->spec.limits = l;
	c->spec.expires_unix_ms = expires;
	c->spec.idle_ms = idle;
	watchdog_start(c);
	return 0;
}

void control_frame(struct client *cl, struct frame *f)
{
	struct cell *c = cl->cell;
	struct wire w = {.p = f->p, .n = f->n};
	struct err e = {0};
	int rc; // 0: answer M_OK, 1: answered elsewhere
	if (c->stage == CELL_WAITING && f->type != M_SPEC && f->type != M_EXPECT)
		return; // meant for the cell that was
	switch ((enum msg_type)f->type) {
	case M_SPEC:
		rc = cell_build(c, f, &e) ? -1 : 1;
		break;
	case M_EXPECT:
		rc = c->stage == CELL_WAITING && ahead_expect(c, f, &e) ? -1 : 1;
		break;
	case M_WAKE:
		if (c->tired)
			cell_wake(c);
		rc = 1;
		break;
	case M_EXEC:
		rc = do_exec(c, f, &w, &e);
		break;
	case M_TICKET:
		rc = do_ticket(c, &w, &e);
		break;
	case M_KILL:
		rc = do_kill(c, &w, &e);
		break;
	case M_STOP:
		rc = do_stop(c, &w);
		break;
	case M_PAUSE:
		rc = cell_pause(c, true, f->id, &e);
		break;
	case M_RESUME:
		rc = cell_pause(c, false, f->id, &e);
		break;
	case M_MEMBERS:
		rc = cell_members(c, f->id, &e);
		break;
	case M_EVENT:
		rc = do_event(c, &w);
		break;
	case M_LIMITS:
		rc = do_limits(c, &w, &e);
		break;
	case M_POLICY:
		rc = gate_policy(&c->gate, f, &e);
		break;
	case M_DIAL:
		rc = dials_ask(cl, f, &e);
		break;
	case M_DIALS:
		rc = dials_allow(c, f, &e);
		break;
	case M_ANSWER:
		gate_answer(&c->gate, f, cl);
		rc = 1;
		break;
	case M_REFRESH:
		refresh_now(c);
		rc = 1;
		break;
	default:
		rc = err_set(&e, ERR_INVALID, "unknown request %u", f->type);
	}
	if (rc < 0)
		control_send_err(&cl->chan, f->id, &e);
	else if (!rc)
		chan_send(&cl->chan, M_OK, 0, f->id, NULL, 0);
	if (rc < 0 && f->type == M_SPEC) {
		cell_kill_init(c); // a slot that could not be built is of no use
		c->control = NULL;	     // told already
	}
}

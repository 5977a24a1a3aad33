// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cell/cell_int.h"
#include "cell/changed.h"
#include "cell/denied.h"
#include "cell/dials.h"
#include "cell/input.h"
#include "cell/moves.h"
#include "cell/ports.h"
#include "cell/watching.h"
#include "isolate/contain.h"
#include "model/msg.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// --- building ---

// The slot was made for a place; it must still be that place.
static int check_place(struct cell *c, struct err *e)
{
	struct stat st;
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	if (!c->place)
		return 0;
	place_write(&b, &c->spec);
	if (b.n != c->place->n || memcmp(b.p, c->place->p, b.n))
		return err_set(e, ERR_UNAVAILABLE, "this slot was made for another place");
	if (c->spec.base && (stat(c->spec.base, &st) || st.st_dev != c->base_dev || st.st_ino != c->base_ino))
		return err_set(e, ERR_UNAVAILABLE, "%s was replaced since the slot was made", c->spec.base);
	if (slot_mark_lowers(c->spec.lowers) != c->lowers_mark)
		return err_set(e, ERR_UNAVAILABLE, "a sealed layer was replaced since the slot was made");
	return 0;
}

static int send_sources(struct cell *c, struct err *e)
{
	return fault(FAULT_CELL_SOURCES, e) ? -1 : slot_send_sources(c, &c->init, &c->spec, c->has, e);
}

int cell_out_dir(struct cell *c, struct err *e)
{
	if (c->out_dir < 0 && !fs_mkdirs(c->sandbox_dir, "out", 0700, e))
		c->out_dir = fs_open(c->sandbox_dir, "out", O_RDONLY | O_DIRECTORY, 0, e);
	return c->out_dir;
}

static int open_places(struct cell *c, struct err *e)
{
	c->sandbox_dir = fs_open(AT_FDCWD, c->spec.sandbox_dir, O_RDONLY | O_DIRECTORY, 0, e);
	if (c->sandbox_dir < 0)
		return -1;
	if (fault(FAULT_CELL_JOURNAL, e) || journal_open(&c->journal, c->sandbox_dir, e))
		return err_wrap(e, "journal");
	return control_listen(c, e);
}

static void describe(struct cell *c)
{
	const struct nursery *n = c->nursery;
	c->iso.backend = xstrdup("native");
	c->iso.userns = xstrdup(n->ids.root ? "own range" : n->ids.subids ? "caller+subuids" : "caller");
	c->iso.limits = xstrdup(c->has_cgroup ? cgroup_describe(&n->cgroups) : "supervised");
	c->iso.disk = xstrdup("supervised");
	c->iso.freeze = xstrdup(c->has_cgroup && cgroup_can_freeze(&n->cgroups) ? "cgroup" : "signals");
	c->iso.network = xstrdup(c->spec.net.on ? "gate" : "closed");
	c->iso.cgroup = xstrdup(c->has_cgroup ? c->cgroup.name : "");
}

bool cell_is_supervised(const struct cell *c)
{
	return !c->has_cgroup || !strcmp(cgroup_describe(&c->nursery->cgroups), "supervised");
}

// The layer that waited with the slot becomes the sandbox's.
static int take_over_layer(struct cell *c, struct err *e)
{
	if (!c->fresh_layer)
		return 0;
	if (syscall(SYS_renameat2, AT_FDCWD, c->fresh_layer, AT_FDCWD, c->spec.layer, 1 /* RENAME_NOREPLACE */))
		return err_sys(e, "new layer %s", c->spec.layer);
	c->fresh_layer = NULL;
	c->took_layer = true;
	close_fd(&c->fresh_lock);
	return 0;
}

static int send_build(struct cell *c, const struct frame *f, struct err *e)
{
	if (!chan_send(&c->init, M_BUILD, cell_is_supervised(c), 0, f->p, f->n) || send_sources(c, e))
		return e->kind ? -1 : err_set(e, ERR_SYSTEM, "the cell died while it was built");
	chan_send(&c->init, M_OK, 0, 0, NULL, 0);
	return 0;
}

static void go_live(struct cell *c);

int cell_build(struct cell *c, struct frame *f, struct err *e)
{
	if (c->stage != CELL_WAITING)
		return err_set(e, ERR_CONFLICT, "this cell has its spec");
	if (cell_spec_read(f->p, f->n, &c->spec, e))
		return -1;
	c->secrets = take_fd(&f->fd);
	c->stage = CELL_BUILDING;
	c->spec_request = f->id;
	c->remove_layer = false;
	c->no_hurry = f->stream;
	if (c->spec.profile != c->profile)
		return err_set(e, ERR_BUG, "a %s slot was given a %s spec", profile_name(c->profile), profile_name(c->spec.profile));
	if (c->spec.strict && cell_is_supervised(c))
		return err_set(e, ERR_DENIED, "min_isolation strict needs cgroup limits, and this host gives none (see: skep doctor)");
	c->limits_changed = memcmp(&c->spec.limits, &LIMITS_DEFAULT, sizeof c->spec.limits);
	if (c->has_cgroup && c->limits_changed && cgroup_set_limits(&c->cgroup, &c->spec.limits, e))
		return -1; // the slot came with the default ones
	int built = check_place(c, e) ? -1 : ahead_turn(c, e);
	if (built < 0 || take_over_layer(c, e) || (!built && send_build(c, f, e)))
		return -1;
	// It can do nothing before we have answered for its execve, which needs the listener that comes with M_READY.
	c->first_sent = c->spec.has_exec && c->spec.exec.kind == EXEC_COMMAND && !c->spec.trace_off && sx_send_first(c);
	chan_flush(&c->init);
	// While the cell builds itself: what it will report to.
	if (open_places(c, e))
		return -1;
	if (c->ahead.listener >= 0)
		go_live(c);
	return 0;
}

// By its descriptor: it may be a mold's child, and its number somebody else's by now.
void cell_kill_init(const struct cell *c)
{
	if (c->init_pidfd >= 0)
		syscall(SYS_pidfd_send_signal, c->init_pidfd, SIGKILL, NULL, 0);
	else if (c->init_pid > 0)
		kill(c->init_pid, SIGKILL);
}

// The word is out last: whoever hears it may try again with another slot, in the same place.
static void build_failed(struct cell *c, const struct err *e)
{
	struct err ignored;
	if (e->kind == ERR_DENIED)
		denied_start(c, e);
	control_unlisten(c);
	cell_kill_init(c);
	mold_leave(c);
	while (waitpid(c->init_pid, NULL, 0) < 0 && errno == EINTR)
		;
	journal_close(&c->journal);
	const char *layer = c->took_layer ? c->spec.layer : c->fresh_layer; // nobody has written to it
	if (layer && fs_remove_tree(AT_FDCWD, layer, &ignored))
		log_line(LOG_WARN, "%s", ignored.msg); // gc finds it
	if (c->control)
		control_send_err(&c->control->chan, c->spec_request, e);
	loop_flush(&c->loop);
	if (c->has_cgroup && cgroup_close_remove(&c->cgroup, &ignored))
		log_line(LOG_WARN, "%s", ignored.msg); // the next nursery sweeps it
	seat_leave(&c->seat);
	_exit(1);
}

static int open_gate(struct cell *c, struct err *e)
{
	const struct cell_net *n = &c->spec.net;
	if (c->net.tcp < 0)
		return n->on ? err_set(e, ERR_UNSUPPORTED, "this kernel lacks what the gate needs (nf_tables with tproxy); see: skep doctor")
			     : 0;
	if (c->spec.maintenance) {
		net_sockets_close(&c->net);
		return 0;
	}
	if (gate_init(&c->gate, c, &c->net, e))
		return -1;
	gate_set(&c->gate, n, take_fd(&c->secrets));
	return 0;
}

// It is built and its sandbox is known.
static void go_live(struct cell *c)
{
	struct err e = {0};
	isolation_done(&c->iso);
	c->iso = c->ahead.iso;
	c->ahead.iso = (struct isolation){0};
	describe(c);
	c->notify.fn = record_proc;
	seccomp_listen(c->ahead.listener);
	if (loop_add(&c->loop, &c->notify, take_fd(&c->ahead.listener), LOOP_IN, &e))
		build_failed(c, &e);
	if (open_gate(c, &e))
		build_failed(c, &e);
	c->stage = CELL_UP;
	if (!c->spec.remove_if_clean && !c->ahead.who.id[0])
		mold_leave(c); // it will hardly be what it was, and a live cell shall be small
	record_cell_up(c);
	if (fault(FAULT_CELL_UP, &e))
		build_failed(c, &e);
	watchdog_start(c);
	if (c->spec.has_exec) {
		struct exec_spec first = c->spec.exec;
		c->spec.exec = (struct exec_spec){0};
		sx_start(c, &first, c->spec.ticket, 0);
	}
	if (!c->took_layer || strv_len(c->spec.lowers) > c->spec.n_base_lowers)
		watchdog_look(c, true); // what is pending from before, so that it is not news later
	control_send_up(c, c->spec_request);
}

static void on_ready(struct cell *c, struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	struct err e = {0};
	if (isolation_read(&w, &c->ahead.iso) || f->fd < 0 || fault(FAULT_CELL_READY, &e)) {
		if (!e.kind)
			err_set(&e, ERR_BUG, "malformed message from the cell");
		build_failed(c, &e);
	}
	close_fd(&c->ahead.listener);
	c->ahead.listener = take_fd(&f->fd);
	if (c->stage == CELL_BUILDING)
		go_live(c);
}

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
		build_failed(c, &e);
}

static void say_goodbye(struct cell *c);

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
	// Every process but pid 1 is dead. What is left is the kernel's work of taking namespaces apart, a millisecond
	// that a sandbox which goes anyway need not wait for.
	if (c->stage == CELL_ENDING && c->spec.remove_if_clean && c->walk_done && !c->pending)
		say_goodbye(c);
	if (c->parked && !c->tired)
		cell_wake(c);
}

void cell_on_init_frame(struct chan *ch, struct frame *f)
{
	struct cell *c = container_of(ch, struct cell, init);
	struct wire w = {.p = f->p, .n = f->n};
	struct sx *x = f->id && f->type != M_CHANGES && f->type != M_MEMBERS ? sx_by_number(c, f->id) : NULL;
	switch ((enum msg_type)f->type) {
	case M_READY:
		on_ready(c, f);
		break;
	case M_ERR:
		on_init_error(c, f);
		break;
	case M_CHANGES:
		on_changes(c, f);
		break;
	case M_USAGE: {
		uint64_t used = wire_get_u64(&w);
		uint32_t killed = wire_get_u32(&w);
		watchdog_usage(c, used, killed, wire_get_u32(&w));
		break;
	}
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
	case M_PORTS:
		ports_answer(c, f);
		break;
	case M_DIALLED:
		dials_answer(c, f);
		break;
	case M_BEGUN:
		if (x)
			sx_begun(x, wire_get_u32(&w));
		break;
	case M_DATA:
		if (x && x->live && f->stream == 1)
			watching_output(x, f->p, f->n);
		else if (x)
			sx_output(x, f->stream, f->p, f->n);
		break;
	case M_CREDIT:
		if (x) {
			x->in_credit = wire_get_u64(&w);
			if (x->live)
				watching_room(x);
			else
				input_room(x);
			client_pump_exec(x);
		}
		break;
	case M_SUSPENDED:
		for (struct client *cl = x ? c->clients : NULL; cl; cl = cl->next)
			if (cl->exec == x)
				chan_send(&cl->chan, M_SUSPENDED, 0, 0, NULL, 0);
		break;
	case M_EXIT:
		c->init_ends |= f->stream;
		c->parked = c->init_ends && c->no_hurry;
		if (x)
			sx_ended(x, wire_get_u32(&w));
		break;
	case M_FREEZE:
		on_freeze(c, &w);
		break;
	case M_MEMBERS:
		send_members(c, f->id, wire_get_u32(&w));
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

// --- ending ---

static void on_ending_late(struct timer *t)
{
	struct cell *c = container_of(t, struct cell, ending);
	struct err e;
	if (c->has_cgroup && cgroup_kill(&c->cgroup, &e))
		log_line(LOG_WARN, "%s: %s", c->spec.sandbox, e.msg);
	cell_kill_init(c);
}

void cell_end(struct cell *c, const char *reason, uint32_t grace_ms, bool walk)
{
	struct err e;
	if (c->stage != CELL_UP)
		return;
	c->stage = CELL_ENDING;
	c->gone_reason = xstrdup(reason);
	if (fault(FAULT_CELL_STOP, &e))
		log_line(LOG_WARN, "%s", e.msg);
	if (c->paused && c->has_cgroup && cgroup_can_freeze(&c->nursery->cgroups) && cgroup_freeze(&c->cgroup, false, &e))
		log_line(LOG_WARN, "%s: %s", c->spec.sandbox, e.msg);
	auto_buf struct buf b = BUF_INIT(16);
	wire_u32(&b, grace_ms);
	wire_u8(&b, walk);
	if (!c->init_ends)
		chan_send_buf(&c->init, M_END, 0, &b);
	c->ending.fn = on_ending_late; // init itself may be stuck in the kernel; nothing may outlive the promise of 5 s
	timer_set(&c->loop, &c->ending, grace_ms + 2500);
}

static bool is_empty_dir(const char *layer, const char *part)
{
	auto_free char *path = xasprintf("%s/%s", layer, part);
	DIR *d = opendir(path);
	struct dirent *ent;
	bool empty = d;
	while (d && empty && (ent = readdir(d)))
		empty = !strcmp(ent->d_name, ".") || !strcmp(ent->d_name, "..");
	if (d)
		closedir(d);
	return empty;
}

// Out of sight in one step, as soon as nothing can write to it any more.
static void remove_layer(struct cell *c)
{
	struct err e;
	const char *slash = strrchr(c->spec.layer, '/');
	c->ending_layer = xasprintf("%.*s/.ending-%s", (int)(slash - c->spec.layer), c->spec.layer, slash + 1);
	if (fault(FAULT_CELL_REMOVE, &e) || (rename(c->spec.layer, c->ending_layer) && err_sys(&e, "remove %s", c->spec.layer))) {
		log_line(LOG_WARN, "%s: %s", c->spec.sandbox, e.msg);
		c->remove_layer = false;
	}
}

// Nobody waits any more, and nothing has it mounted. One that was never written to is for the next sandbox; to empty
// the other kind takes the file system a hundred times longer than the rename.
static void dispose_layer(struct cell *c)
{
	struct err e;
	const char *layer = c->ending_layer;
	const char *slash = strrchr(layer, '/');
	auto_free char *spare = xasprintf("%.*s/.spare/%s", (int)(slash - layer), layer, slash + strlen("/.ending-"));
	bool untouched = c->has && is_empty_dir(layer, "ws") && is_empty_dir(layer, "home") && is_empty_dir(layer, "root");
	if (untouched && !rename(layer, spare))
		return;
	setpriority(PRIO_PROCESS, 0, 10);
	if (fs_remove_tree(AT_FDCWD, layer, &e))
		log_line(LOG_WARN, "%s: %s", c->spec.sandbox, e.msg); // gc finds it
}

void cell_wake(struct cell *c)
{
	c->tired = c->parked = false;
	shutdown(c->init.fd, SHUT_WR); // its first process ends, and the rest follows from that
}

static _Noreturn void leave(struct cell *c)
{
	struct err e;
	control_unlisten(c);
	if (!c->told)
		mold_leave(c);
	// With a daemon there the group waits for the seat's next cell; without, nobody would ever clear it away.
	if (c->has_cgroup && !c->told && cgroup_close_remove(&c->cgroup, &e))
		log_line(LOG_WARN, "%s: %s", c->spec.sandbox, e.msg);
	bool given = c->remove_layer && mold_give_back(c); // its seat with it
	if (c->remove_layer && !given)
		dispose_layer(c);
	if (!given)
		seat_leave(&c->seat);
	_exit(0);
}

// A promised client may never come; one that is there and reads slowly is waited for.
static void exit_late(struct timer *t)
{
	struct cell *c = container_of(t, struct cell, ending);
	for (struct sx *x = c->execs; x; x = x->next)
		x->wants_reader = false;
	cell_maybe_exit(c);
}

void cell_maybe_exit(struct cell *c)
{
	if (c->stage != CELL_GONE)
		return;
	loop_flush(&c->loop); // what then is left in a queue waits for its reader
	if (c->init_ended && !client_waiting(c) && !again_begin(c))
		leave(c);
}

// The last words: after them the journal is free for skepd and the sandbox is where it said it would be.
static void say_goodbye(struct cell *c)
{
	struct err e;
	if (!c->gone_reason)
		c->gone_reason = xstrdup("died: pid 1 of the cell was killed");
	c->stage = CELL_GONE;
	for (struct sx *x = c->execs; x; x = x->next)
		if (!x->ended) {
			x->result.reason = x->result.reason ? x->result.reason : xstrdup("its cell ended");
			sx_ended(x, SIGKILL);
		}
	if (c->spec.remove_if_clean && c->walk_done && !c->pending)
		c->remove_layer = true;
	if (c->remove_layer)
		remove_layer(c);
	gate_end(&c->gate, &c->net);
	dials_end(c);
	ports_end(c);
	record_cell_gone(c);
	journal_close(&c->journal); // before the word is out: skepd writes next
	if (fault(FAULT_CELL_GONE, &e))
		log_line(LOG_WARN, "%s", e.msg);
	// What is still owed to an attached client is given to it, for a while; then we are gone. Clients first: somebody
	// looks at a terminal there.
	for (struct client *cl = c->clients; cl; cl = cl->next)
		client_pump(cl);
	control_send_gone(c);
}

void cell_on_init_exit(struct watch *w, uint32_t events)
{
	struct cell *c = container_of(w, struct cell, init_end);
	struct frame f;
	struct err e;
	(void)events;
	loop_del(&c->loop, w);
	timer_clear(&c->loop, &c->ending);
	// Its last words (output, exits, the walk) are in the socket still: read to the end.
	while (chan_is_open(&c->init) && fcntl(c->init.fd, F_SETFL, O_NONBLOCK) == 0 && !chan_recv(&c->init, &f, &e)) {
		cell_on_init_frame(&c->init, &f);
		close_fd(&f.fd);
	}
	while (waitpid(c->init_pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (c->stage == CELL_WAITING || c->stage == CELL_BUILDING) {
		err_set(&e, ERR_UNAVAILABLE, "the cell died while it was built");
		build_failed(c, &e);
	}
	c->init_ended = true;
	record_end(c);
	if (c->stage != CELL_GONE)
		say_goodbye(c);
	c->ending.fn = exit_late;
	timer_set(&c->loop, &c->ending, LIMIT_TICKET_MS);
	cell_maybe_exit(c);
}

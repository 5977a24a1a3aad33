// SPDX-License-Identifier: Apache-2.0
// From spec to a cell that is up.
#include "base/fault.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "cell/cell_int.h"
#include "cell/denied.h"
#include "isolate/contain.h"
#include "model/msg.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// The slot was made for a place, or built ahead on one; it must still be that place.
static int check_place(struct cell *c, struct err *e)
{
	struct stat st;
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	if (!c->place && !c->bare)
		return 0;
	if (c->place)
		place_write(&b, &c->spec);
	if (c->place && (b.n != c->place->n || memcmp(b.p, c->place->p, b.n)))
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
_Noreturn void cell_build_failed(struct cell *c, const struct err *e)
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
		cell_build_failed(c, &e);
	if (open_gate(c, &e))
		cell_build_failed(c, &e);
	c->stage = CELL_UP;
	if (!c->spec.remove_if_clean && !c->ahead.who.id[0])
		mold_leave(c); // it will hardly be what it was, and a live cell shall be small
	record_cell_up(c);
	if (fault(FAULT_CELL_UP, &e))
		cell_build_failed(c, &e);
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

void cell_ready(struct cell *c, struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	struct err e = {0};
	if (isolation_read(&w, &c->ahead.iso) || f->fd < 0 || fault(FAULT_CELL_READY, &e)) {
		if (!e.kind)
			err_set(&e, ERR_BUG, "malformed message from the cell");
		cell_build_failed(c, &e);
	}
	close_fd(&c->ahead.listener);
	c->ahead.listener = take_fd(&f->fd);
	if (c->stage == CELL_BUILDING)
		go_live(c);
}

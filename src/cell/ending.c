// SPDX-License-Identifier: Apache-2.0
// From the last exec, or a request, to a process that is gone, or a slot once more.
#include "base/fault.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "cell/cell_int.h"
#include "cell/dials.h"
#include "cell/ports.h"
#include "isolate/contain.h"
#include "model/msg.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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
void cell_goodbye(struct cell *c)
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
	close_fd(&c->root); // with it the last of its mounts is gone
	if (c->stage == CELL_WAITING || c->stage == CELL_BUILDING) {
		err_set(&e, ERR_UNAVAILABLE, "the cell died while it was built");
		cell_build_failed(c, &e);
	}
	c->init_ended = true;
	record_end(c);
	if (c->stage != CELL_GONE)
		cell_goodbye(c);
	c->ending.fn = exit_late;
	timer_set(&c->loop, &c->ending, LIMIT_TICKET_MS);
	cell_maybe_exit(c);
}

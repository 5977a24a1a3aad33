// SPDX-License-Identifier: Apache-2.0
// A supervisor whose `run` left its mold untouched is a slot once more, instead of ending and being forked anew: that saves
// a process, a seat's descriptors, and a socket's inode. Only after a plain run: one command, nothing refused, no limit met,
// no gate started. The next cell starts from the state of a new one (slot_blank); carried over is what a mold's next slot
// would be given anyway: seat and group, mold, empty layer, the network's unused sockets, the socket, the channel to skepd.
#include "base/fault.h"
#include "base/mem.h"
#include "cell/cell_int.h"
#include "cell/changed.h"
#include "model/msg.h"
#include <stdlib.h>
#include <string.h>

#define TURNS 200 // of one process; what it may have lost on the way ends with it

bool again_may(const struct cell *c)
{
	return c->mold.chan.fd >= 0 && c->place && c->remove_layer && c->turns < TURNS && !c->eventful && c->last_number == 1 &&
	       !c->limits_changed && !c->spec.net.on && !c->gate.cell;
}

bool again_begin(struct cell *c)
{
	struct err e;
	if (!c->told || !c->control || !again_may(c) || fault(FAULT_SLOT_AGAIN, &e) || !mold_keep(c) || control_rest(c, &e)) // a slot by name has a layer by name
		return false;
	c->stage = CELL_OVER;
	loop_stop(&c->loop); // the rest when nobody holds anything of the cell any more
	return true;
}

static void forget(struct cell *c)
{
	client_drop_others(c);
	sx_free_all(c);
	chan_close(&c->init);
	journal_close(&c->journal);
	int *const fds[] = {&c->init_pidfd, &c->notify.fd, &c->walk.fd, &c->unnamed.fd, &c->sandbox_dir, &c->out_dir, &c->secrets};
	for (size_t i = 0; i < countof(fds); i++)
		close_fd(fds[i]);
	cell_spec_done(&c->spec);
	isolation_done(&c->iso);
	ahead_done(&c->ahead);
	strv_free(c->changed);
	changes_sum_done(&c->sum);
	free(c->gone_reason);
	free(c->ending_layer);
	changed_forget();
	loop_done(&c->loop);
}

static void carry_over(struct cell *c, const struct cell *was)
{
	slot_blank(c, was->nursery, was->profile);
	c->start_time = was->start_time;
	c->seat = was->seat;
	c->first_id = was->first_id;
	c->plain_ns = was->plain_ns;
	c->owner_ns = was->owner_ns;
	c->fresh_layer = was->fresh_layer;
	c->layer_path = was->layer_path;
	c->fresh_lock = was->fresh_lock;
	c->has = was->has;
	c->net = was->net;
	c->mold = was->mold;
	c->back = was->back;
	c->place = was->place;
	c->base_dev = was->base_dev;
	c->base_ino = was->base_ino;
	c->lowers_mark = was->lowers_mark;
	c->listen = was->listen;
	c->socket_ino = was->socket_ino;
	memcpy(c->socket_name, was->socket_name, sizeof c->socket_name);
	c->cgroup = was->cgroup;
	c->has_cgroup = was->has_cgroup;
	c->turns = was->turns + 1;
	c->control = c->clients = was->control;
}

static int look_at_group(struct cell *c, struct err *e)
{
	struct cgroup_usage before; // what earlier cells of the seat met is not ours
	if (!c->has_cgroup)
		return 0;
	if (cgroup_hits(&c->cgroup, &before, e))
		return -1;
	c->oom_seen = before.oom_kills;
	c->pids_seen = before.pids_hits;
	return 0;
}

int again_turn(struct cell *c, struct err *e)
{
	struct cell was = *c;
	if (!c->control || !chan_is_open(&c->control->chan))
		return err_set(e, ERR_UNAVAILABLE, "nobody asks for this slot any more");
	forget(c);
	carry_over(c, &was);
	if (loop_init(&c->loop, e) || client_again(c->control, e) || loop_add(&c->loop, &c->listen, was.listen.fd, LOOP_IN, e) ||
	    look_at_group(c, e))
		return -1;
	chan_send(&c->control->chan, M_AGAIN, 0, 0, NULL, 0); // a spec that comes now waits until we are ready
	return mold_cell(c, e) || slot_watch(c, e) ? -1 : 0;
}

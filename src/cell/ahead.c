// SPDX-License-Identifier: Apache-2.0
#include "cell/ahead.h"

#include "base/mem.h"
#include "cell/cell_int.h"
#include "model/msg.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static int read_identity(struct wire *w, struct identity *out)
{
	auto_free char *id = wire_get_str(w), *machine = wire_get_str(w);
	if (w->bad || !id || !id_is(id) || !machine || strlen(machine) >= sizeof out->machine_id)
		return -1;
	memcpy(out->id, id, strlen(id) + 1);
	memcpy(out->machine_id, machine, strlen(machine) + 1);
	return 0;
}

// A slot from a mold has its mounts; a bare one gets all of them, over the layer that it brings.
static int send_build(struct cell *c, const struct identity *who, const struct buf *shape, struct err *e)
{
	struct cell_spec s;
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	if (cell_spec_read(shape->p, shape->n, &s, e))
		return -1;
	cell_spec_identify(&s, who);
	if (c->bare) {
		free(s.layer);
		s.layer = xstrdup(c->fresh_layer);
	}
	cell_spec_write(&b, &s);
	bool sent = chan_send(&c->init, M_BUILD, cell_is_supervised(c), 0, b.p, b.n);
	int rc = sent && c->bare ? slot_send_sources(c, &c->init, &s, c->has, e) : 0;
	cell_spec_done(&s);
	if (rc)
		return -1;
	return sent && chan_send(&c->init, M_OK, 0, 0, NULL, 0) ? 0 : err_set(e, ERR_SYSTEM, "the slot's first process is gone");
}

static int take_layer(struct cell *c, struct err *e)
{
	char id[ID_SIZE];
	id_make('l', id);
	c->fresh_layer = c->layer_path = xasprintf("%s/layers/.fresh-%s", c->nursery->skep_home, id);
	c->bare = true;
	return slot_make_layer(c, e);
}

int ahead_expect(struct cell *c, const struct frame *f, struct err *e)
{
	struct wire w = {.p = f->p, .n = f->n};
	struct ahead *a = &c->ahead;
	bool cold = !c->fresh_layer && !c->place;
	if ((c->mold.chan.fd < 0 && !cold) || a->who.id[0]) // without a mold there is no way back: only a cold slot can be spared
		return 0;
	a->shape = BUF_INIT(FRAME_MAX);
	if (read_identity(&w, &a->who))
		return err_set(e, ERR_INVALID, "malformed expectation");
	buf_add(&a->shape, w.p, w.n);
	if (cold && take_layer(c, e))
		return -1;
	return send_build(c, &a->who, &a->shape, e);
}

void ahead_done(struct ahead *a)
{
	buf_done(&a->shape);
	isolation_done(&a->iso);
	close_fd(&a->listener);
	*a = AHEAD_NONE;
}

// Nothing was run in it: the next one is cloned from the same mold.
static int start_over(struct cell *c, struct err *e)
{
	if (c->bare)
		return err_set(e, ERR_UNAVAILABLE, "this slot was built for another kind of sandbox");
	loop_del(&c->loop, &c->init_end);
	cell_kill_init(c);
	while (waitpid(c->init_pid, NULL, 0) < 0 && errno == EINTR)
		;
	chan_close(&c->init);
	close_fd(&c->init_pidfd);
	ahead_done(&c->ahead);
	return mold_cell(c, e) || slot_watch(c, e) ? -1 : 0;
}

int ahead_turn(struct cell *c, struct err *e)
{
	const struct ahead *a = &c->ahead;
	auto_buf struct buf shape = BUF_INIT(FRAME_MAX), turn = BUF_INIT(4);
	bool no_hurry = c->no_hurry;
	c->no_hurry = false;
	if (!a->who.id[0])
		return 0;
	if (strcmp(a->who.id, c->spec.sandbox) || strcmp(a->who.machine_id, c->spec.machine_id) || !cell_spec_shape(&shape, &c->spec) ||
	    shape.n != a->shape.n || memcmp(shape.p, a->shape.p, shape.n))
		return start_over(c, e);
	wire_u8(&turn, c->spec.ends_with_exec && c->spec.has_exec);
	wire_u8(&turn, !c->spec.remove_if_clean);
	c->no_hurry = no_hurry && c->spec.ends_with_exec && c->spec.has_exec && c->spec.remove_if_clean;
	wire_u8(&turn, c->no_hurry);
	return chan_send(&c->init, M_TURN, 0, 0, turn.p, turn.n) ? 1 : err_set(e, ERR_SYSTEM, "the cell died before its turn came");
}

// SPDX-License-Identifier: Apache-2.0
// stdin of an exec, which any number of clients may write to. Their bytes are appended in the order they arrive, none is lost,
// and its end is there when every client that wrote has said so or is gone.
//
// Each client keeps to what was granted, but knows only of its own bytes under way: together they may be ahead of init.
// What is ahead waits here; who goes on nevertheless is not read until there is room.
#include "cell/input.h"

#include "cell/away.h"
#include "cell/cell_int.h"
#include "model/limits.h"
#include "model/msg.h"

#define WAITING_MAX (4u * LIMIT_STDIN_WINDOW) // beyond it nobody is read

static void pass(struct sx *x)
{
	uint64_t sent = x->in_received - x->in_waiting.n, room = x->in_credit > sent ? x->in_credit - sent : 0;
	size_t n = room < x->in_waiting.n ? (size_t)room : x->in_waiting.n;
	if (n)
		chan_send(&x->cell->init, M_DATA, 0, x->number, x->in_waiting.p, n);
	buf_cut(&x->in_waiting, n);
}

static void pass_end(struct sx *x)
{
	bool writers = away_writes(x);
	for (const struct client *cl = x->cell->clients; cl; cl = cl->next)
		writers |= cl->exec == x && cl->wrote && !cl->in_over;
	if (!x->in_end || x->in_ended || writers || x->in_waiting.n)
		return;
	x->in_ended = true;
	chan_send(&x->cell->init, M_EOF, 0, x->number, NULL, 0);
}

void input_data(struct client *cl, struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	struct sx *x = cl->exec;
	uint64_t at = wire_get_u64(&w);
	uint64_t upto = cl->line[0] ? cl->mine : x->in_received; // who has a line counts its own bytes
	if (w.bad || x->ended || (at != STDIN_APPEND && at > upto))
		return;
	uint64_t known = at == STDIN_APPEND ? 0 : upto - at; // repeated after a reconnect
	if (known >= w.n)
		return;
	cl->wrote = true;
	cl->mine += w.n - known;
	if (x->in_credit == UINT64_MAX || x->in_ended)
		return; // nobody reads it
	if (!x->in_waiting.max)
		x->in_waiting = BUF_INIT(WAITING_MAX + FRAME_MAX);
	buf_add(&x->in_waiting, w.p + known, w.n - (size_t)known);
	x->in_received += w.n - known;
	pass(x);
	if (x->in_waiting.n > WAITING_MAX)
		chan_pause(&cl->chan, true);
}

void input_end(struct client *cl)
{
	cl->in_over = true;
	cl->exec->in_end = true;
	pass_end(cl->exec);
}

void input_client_gone(struct sx *x)
{
	pass_end(x);
}

void input_room(struct sx *x)
{
	if (x->in_credit == UINT64_MAX)
		buf_clear(&x->in_waiting);
	pass(x);
	pass_end(x);
	if (x->in_waiting.n > WAITING_MAX)
		return;
	for (struct client *cl = x->cell->clients; cl; cl = cl->next)
		if (cl->exec == x)
			chan_pause(&cl->chan, false);
}

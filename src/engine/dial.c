// SPDX-License-Identifier: Apache-2.0
// Connections into a cell.
#include "engine/engine_int.h"

#include "base/mem.h"
#include <stdlib.h>

struct dialling {
	struct dial_reply reply;
	struct flow *flow; // made
	uint16_t port;
};

static void on_over(void *ctx, const struct err *e, const struct outcome *o)
{
	struct dialling *d = ctx;
	(void)o;
	d->reply.fn(d->reply.ctx, e, d->flow);
	free(d);
}

static void on_dialled(void *ctx, const struct err *e, struct flow *f)
{
	struct task *t = ctx;
	t->dialling->flow = f;
	task_end(t, e);
}

static void on_ticket(void *ctx, const struct err *e)
{
	task_end(ctx, e);
}

void dial_begin(struct task *t)
{
	struct box *b = t->box;
	const struct backend_ops *ops = b->g->backend->ops;
	lease_renew(b);
	if (t->dialling) {
		ops->dial(b->cell, t->dialling->port, (struct dial_reply){on_dialled, t});
	} else {
		key_make(t->ticket);
		ops->dials(b->cell, t->ticket, (struct reply){on_ticket, t});
	}
	task_float(t);
}

void engine_dial(struct engine *g, const char *id, uint16_t port, struct dial_reply r)
{
	struct err e;
	struct box *b = box_find(g, id, &e);
	if (!b) {
		r.fn(r.ctx, &e, NULL);
		return;
	}
	struct dialling *d = xcalloc(1, sizeof *d);
	*d = (struct dialling){.reply = r, .port = port};
	struct task *t = task_new(b, TASK_DIAL, (struct done){on_over, d});
	t->dialling = d;
	task_submit(t);
}

void engine_dials(struct engine *g, const char *id, struct done d)
{
	struct err e;
	struct box *b = box_find(g, id, &e);
	if (!b)
		task_refuse(d, &e);
	else
		task_submit(task_new(b, TASK_DIAL, d));
}

// SPDX-License-Identifier: Apache-2.0
// Requests that wait for an answer.
#include "backend/native_int.h"
#include "base/flow.h"
#include "base/mem.h"
#include <stdlib.h>

uint32_t request_add(struct request **list, uint32_t *last_id, struct reply r)
{
	struct request *q = xcalloc(1, sizeof *q);
	*q = (struct request){.id = ++*last_id, .reply = r, .body = -1, .next = *list};
	*list = q;
	return q->id;
}

static void tell(const struct request *q, const struct err *e, struct wire *w, struct flow *flow, int fd)
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
	else if (q->volume.fn)
		q->volume.fn(q->volume.ctx, e, fd);
}

static bool end_with(struct request **list, uint32_t id, const struct err *e, struct wire *w, struct flow *flow, int fd)
{
	for (; *list; list = &(*list)->next) {
		struct request *q = *list;
		if (q->id != id)
			continue;
		*list = q->next;
		tell(q, e, w, flow, fd);
		buf_done(&q->again);
		close_fd(&q->body);
		free(q);
		return true;
	}
	return false;
}

bool request_end(struct request **list, uint32_t id, const struct err *e)
{
	return end_with(list, id, e, &(struct wire){0}, NULL, -1);
}

bool request_done(struct request **list, const struct frame *f)
{
	return end_with(list, f->id, NULL, &(struct wire){.p = f->p, .n = f->n}, NULL, -1);
}

bool request_opened(struct request **list, const struct frame *f)
{
	return end_with(list, f->id, NULL, &(struct wire){0}, NULL, f->fd);
}

void request_hand_over(struct native *n, const struct request *q)
{
	if (q->body >= 0)
		chan_send_fd(&n->ch, q->type, q->id, q->again.p, q->again.n, q->body);
	else
		chan_send_buf(&n->ch, q->type, q->id, &q->again);
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
void requests_drop(struct request **list)
{
	while (*list) {
		(*list)->reply.fn = NULL;
		(*list)->layer.fn = NULL;
		(*list)->count.fn = NULL;
		(*list)->dial.fn = NULL;
		(*list)->volume.fn = NULL;
		request_end(list, (*list)->id, NULL);
	}
}

bool request_dialled(struct request **list, uint32_t id, struct flow *flow)
{
	return end_with(list, id, NULL, &(struct wire){0}, flow, -1);
}

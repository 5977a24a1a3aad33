// SPDX-License-Identifier: Apache-2.0
// Slots that are built before their sandbox is asked for (cell/ahead.h): what the last start was like is what the next one
// will probably be. Such a slot has an identity that the engine lent. It stays a slot like any other: given to a
// sandbox of another kind it builds itself anew, and the identity goes back.
#include "backend/native_int.h"

#include "base/mem.h"
#include "model/msg.h"
#include <stdlib.h>
#include <string.h>

void ahead_learn(struct native *n, const struct cell_spec *s)
{
	auto_buf struct buf shape = BUF_INIT(FRAME_MAX);
	if (!cell_spec_shape(&shape, s))
		return; // one of its kind: the others go on being expected
	if (shape.n == n->shape.n && !memcmp(shape.p, n->shape.p, shape.n))
		return;
	n->shape_no++;
	buf_clear(&n->shape);
	buf_add(&n->shape, shape.p, shape.n);
	free(n->base);
	n->base = s->base ? xstrdup(s->base) : NULL;
}

void ahead_unlearn(struct native *n)
{
	buf_clear(&n->shape);
}

void ahead_offer(struct native *n, struct cell *c)
{
	const struct lender *l = &n->b.lender;
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	if (c->lent.id[0] || !n->shape.n || !pool_fits(n, c) || !l->lend || !l->lend(l->ctx, &c->lent))
		return;
	c->shape_no = n->shape_no;
	wire_str(&b, c->lent.id);
	wire_str(&b, c->lent.machine_id);
	buf_add(&b, n->shape.p, n->shape.n);
	chan_send_buf(&c->ch, M_EXPECT, 0, &b);
}

void ahead_offer_all(struct native *n)
{
	for (struct cell *c = n->warm, *next; c; c = next) {
		next = c->next; // one that is dead leaves the list
		ahead_offer(n, c);
	}
}

void ahead_unlend(struct cell *c)
{
	const struct lender *l = &c->n->b.lender;
	if (c->lent.id[0] && !c->promised && !c->named && l->give_back)
		l->give_back(l->ctx, &c->lent);
	c->lent = (struct identity){0};
	c->promised = c->named = false;
}

struct cell *ahead_find(struct native *n, const char *id)
{
	struct cell *c = n->warm;
	while (c && strcmp(c->lent.id, id))
		c = c->next;
	return c;
}

bool native_expects(struct backend *b, const struct cell_spec *like, struct identity *out)
{
	struct native *n = native_of(b);
	if (!recipe_is_default(like))
		return recipe_expects(n, like, out);
	struct cell *c = n->warm;
	bool same = n->shape.n && (like->base && n->base ? !strcmp(like->base, n->base) : !like->base && !n->base);
	while (c && !(c->lent.id[0] && !c->promised && c->shape_no == n->shape_no))
		c = c->next;
	if (!same || !c)
		return false;
	c->promised = true;
	*out = c->lent;
	return true;
}

void native_forsake(struct backend *b, const char *id)
{
	struct native *n = native_of(b);
	struct cell *c = ahead_find(n, id);
	if (!c)
		c = recipe_lent(n, id);
	if (!c)
		return;
	pool_forget(n, c);
	cell_bury(c);
	pool_refill_soon(n);
}

// SPDX-License-Identifier: Apache-2.0
// Connections that the gate holds until somebody says yes. The first answer counts. No terminal attached, too many at
// once, too late: No.
#include "base/clock.h"
#include "base/jsonw.h"
#include "base/buf.h"
#include "base/mem.h"
#include "cell/cell_int.h"
#include "cell/gate_int.h"
#include <stdlib.h>
#include <string.h>

#define ASK_MAX (16u << 10) // bytes of one question

static bool can_answer(const struct client *cl)
{
	return cl->exec && cl->exec->spec.tty && !cl->exec->ended && chan_is_open(&cl->chan);
}

static bool has_terminal(const struct cell *c)
{
	for (const struct client *cl = c->clients; cl; cl = cl->next)
		if (can_answer(cl))
			return true;
	return false;
}

static void record_answer(struct gate *g, const struct gate_ask *a, enum verdict v, enum answer_scope scope,
			  const char *by)
{
	static const char *const scopes[] = {"once", "sandbox", "always"};
	struct wire w = {.p = (const uint8_t *)a->frame.p, .n = a->frame.n};
	auto_free char *host = wire_get_str(&w);
	uint32_t port = wire_get_u32(&w);
	auto_free char *method = wire_get_str(&w), *path = wire_get_str(&w);
	auto_buf struct buf b = BUF_INIT(60 << 10);
	struct jsonw j = {.b = &b};
	jw_ku64(&j, "ask", a->id);
	jw_kstr(&j, "name", host);
	jw_ku64(&j, "port", port);
	if (method && *method)
		jw_kstr(&j, "method", method);
	if (path && *path)
		jw_kstr(&j, "path", path);
	jw_kstr(&j, "verdict", verdict_name(v));
	jw_kstr(&j, "scope", scopes[scope]);
	record(g->cell, "approval.answered", by, &b, true);
}

// told: skepd knows already. VERDICT_ASK: No, and nobody said it.
static void close_one(struct gate *g, unsigned i, enum verdict v, enum answer_scope scope, bool told, const char *by)
{
	struct gate_ask a = g->asks[i];
	uint8_t body[] = {(uint8_t)v, (uint8_t)scope};
	g->asks[i] = g->asks[--g->n_asks];
	chan_send(&g->chan, M_ANSWER, 0, a.id, body, sizeof body);
	v = v == VERDICT_ALLOW ? VERDICT_ALLOW : VERDICT_DENY;
	body[0] = (uint8_t)v;
	for (struct client *cl = g->cell->clients; cl; cl = cl->next)
		if (can_answer(cl))
			chan_send(&cl->chan, M_ANSWER, 0, a.id, body, sizeof body);
	if (g->cell->control && !told)
		chan_send(&g->cell->control->chan, M_ANSWER, 0, a.id, body, sizeof body);
	record_answer(g, &a, v, scope, by);
	buf_done(&a.frame);
}

static void on_late(struct timer *t)
{
	struct gate *g = container_of(t, struct gate, ask_late);
	uint64_t now = clock_ms();
	for (unsigned i = g->n_asks; i--;)
		if (g->asks[i].until_ms <= now)
			close_one(g, i, VERDICT_ASK, SCOPE_ONCE, false, "timeout");
	if (g->n_asks)
		timer_set(&g->cell->loop, t, 1000);
}

void ask_init(struct gate *g)
{
	g->ask_late.fn = on_late;
}

void ask_open(struct gate *g, const struct frame *f)
{
	struct cell *c = g->cell;
	static const uint8_t no[] = {VERDICT_DENY, SCOPE_ONCE};
	if (g->n_asks == GATE_ASKS || f->n > ASK_MAX) {
		chan_send(&g->chan, M_ANSWER, 0, f->id, no, sizeof no);
		return;
	}
	struct gate_ask *a = &g->asks[g->n_asks++];
	*a = (struct gate_ask){.id = f->id, .until_ms = clock_ms() + GATE_ASK_MS, .frame = BUF_INIT(ASK_MAX + 1)};
	buf_add(&a->frame, f->p, f->n);
	if (!has_terminal(c)) {
		close_one(g, g->n_asks - 1, VERDICT_ASK, SCOPE_ONCE, false, "nobody");
		return;
	}
	for (struct client *cl = c->clients; cl; cl = cl->next)
		if (can_answer(cl))
			chan_send(&cl->chan, M_ASK, 0, f->id, f->p, f->n);
	if (c->control)
		chan_send(&c->control->chan, M_ASK, 0, f->id, f->p, f->n);
	if (!g->ask_late.at_ms)
		timer_set(&c->loop, &g->ask_late, 1000);
}

void ask_close_all(struct gate *g)
{
	while (g->n_asks)
		close_one(g, g->n_asks - 1, VERDICT_ASK, SCOPE_ONCE, false, "nobody");
	timer_clear(&g->cell->loop, &g->ask_late);
}

void gate_answer(struct gate *g, const struct frame *f, const struct client *from)
{
	struct wire w = {.p = f->p, .n = f->n};
	uint8_t verdict = wire_get_u8(&w), scope = wire_get_u8(&w);
	if (!g->cell || w.bad || (verdict != VERDICT_ALLOW && verdict != VERDICT_DENY) || scope > SCOPE_ALWAYS)
		return;
	bool control = from == g->cell->control;
	auto_free char *by = control && w.n ? wire_get_str(&w) : NULL;
	for (unsigned i = 0; i < g->n_asks; i++)
		if (g->asks[i].id == f->id) {
			close_one(g, i, verdict, scope, control, by && *by ? by : control ? "skepd" : "client");
			return;
		}
}

void gate_client_gone(struct gate *g)
{
	if (g->cell && g->n_asks && !has_terminal(g->cell))
		ask_close_all(g);
}

void gate_replay(struct gate *g)
{
	for (unsigned i = 0; g->cell && g->cell->control && i < g->n_asks; i++)
		chan_send_buf(&g->cell->control->chan, M_ASK, g->asks[i].id, &g->asks[i].frame);
}

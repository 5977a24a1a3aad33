// SPDX-License-Identifier: Apache-2.0
// "May it": the policy's word, and where that is ASK, a person's. Whoever waits for the same question shares it. An
// answer for the whole sandbox counts here at once and until the next policy, which then has it as a rule.
#include "gate/gate_int.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define REMEMBERED 256

struct question {
	struct host_name host;
	uint16_t port;
	char *method, *path; // owned, NULL: the connection itself
};

struct ask {
	struct gate *g;
	struct ask *next;
	uint32_t id;
	struct question q;
	struct judging *waiting;
	struct timer late;
};

struct asks {
	struct ask *open;
	size_t n;
	struct {
		struct question q;
		enum verdict v;
	} kept[REMEMBERED];
	size_t n_kept;
};

void asks_init(struct gate *g)
{
	g->asks = xcalloc(1, sizeof *g->asks);
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static bool same_question(const struct question *a, const struct question *b)
{
	return a->port == b->port && host_equal(&a->host, &b->host) && same_text(a->method, b->method) &&
	       same_text(a->path, b->path);
}

static void question_done(struct question *q)
{
	free(q->method);
	free(q->path);
	*q = (struct question){0};
}

static struct question question_copy(const struct question *q)
{
	struct question out = *q;
	out.method = q->method ? xstrdup(q->method) : NULL;
	out.path = q->path ? xstrdup(q->path) : NULL;
	return out;
}

static void ask_free(struct ask *a)
{
	struct ask **p = &a->g->asks->open;
	while (*p && *p != a)
		p = &(*p)->next;
	if (*p) {
		*p = a->next;
		a->g->asks->n--;
	}
	timer_clear(&a->g->loop, &a->late);
	question_done(&a->q);
	free(a);
}

static void unlink_waiting(struct judging *j)
{
	struct judging **p = &j->ask->waiting;
	while (*p != j)
		p = &(*p)->next;
	*p = j->next;
	j->ask = NULL;
}

void judging_done(struct judging *j)
{
	struct ask *a = j->ask;
	if (a) {
		unlink_waiting(j);
		if (!a->waiting && a->id) // nobody waits any more; id 0: being answered right now
			ask_free(a);
	}
	free(j->rule);
	j->rule = NULL;
}

static void set_rule(struct judging *j, const struct rule *why)
{
	auto_buf struct buf b = BUF_INIT(RULE_TEXT + 1);
	free(j->rule);
	j->rule = NULL;
	if (!why)
		return;
	rule_print(&b, why);
	j->rule = buf_take(&b);
}

static void tell_denied(struct judging *j, const struct question *q, const char *why)
{
	j->why = why;
	if (!j->quiet)
		gate_denied(j->c->g, j->c, q->method ? "request" : "connect", why, j->rule);
}

// The answer is the cell's to record.
static void tell_asked(struct ask *a, struct conn *c)
{
	auto_buf struct buf b = BUF_INIT(16 << 10);
	struct jsonw w = {.b = &b};
	jw_ku64(&w, "ask", a->id);
	jw_kstr(&w, "method", a->q.method);
	jw_kstr(&w, "path", a->q.path);
	gate_event(a->g, c, "approval.asked", &b);
}

enum decided_by { BY_PERSON, BY_POLICY };

// Everybody who waits hears v; a is gone afterwards.
static void ask_end(struct ask *a, enum verdict v, enum decided_by by, const char *why)
{
	a->id = 0; // late answers do not find it
	while (a->waiting) {
		struct judging *j = a->waiting;
		unlink_waiting(j);
		if (v == VERDICT_ALLOW && by == BY_PERSON && !a->q.method)
			j->c->answered = true;
		if (v == VERDICT_DENY)
			tell_denied(j, &a->q, why);
		j->fn(j, v);
	}
	ask_free(a);
}

static void on_late(struct timer *t)
{
	ask_end(container_of(t, struct ask, late), VERDICT_DENY, BY_PERSON, "nobody answered");
}

static void send_ask(struct ask *a, struct conn *c)
{
	auto_buf struct buf b = BUF_INIT(64 << 10);
	wire_str(&b, a->q.host.s);
	wire_u32(&b, a->q.port);
	wire_str(&b, a->q.method ? a->q.method : "");
	wire_str(&b, a->q.path ? a->q.path : "");
	tell_asked(a, c);
	chan_send_buf(&a->g->cell, M_ASK, a->id, &b);
}

static struct ask *ask_find(struct gate *g, const struct question *q)
{
	struct ask *a = g->asks->open;
	while (a && !(a->id && same_question(&a->q, q)))
		a = a->next;
	return a;
}

static struct ask *ask_new(struct gate *g, const struct question *q, struct conn *c)
{
	struct ask *a = xcalloc(1, sizeof *a);
	*a = (struct ask){.g = g, .next = g->asks->open, .q = question_copy(q), .late.fn = on_late};
	a->id = ++g->last_id ? g->last_id : ++g->last_id;
	g->asks->open = a;
	g->asks->n++;
	timer_set(&g->loop, &a->late, GATE_ASK_MS);
	send_ask(a, c);
	return a;
}

static enum verdict remembered(const struct asks *all, const struct question *q)
{
	for (size_t i = 0; i < all->n_kept; i++)
		if (same_question(&all->kept[i].q, q))
			return all->kept[i].v;
	return VERDICT_ASK;
}

static void remember(struct asks *all, const struct question *q, enum verdict v)
{
	if (all->n_kept < REMEMBERED) {
		all->kept[all->n_kept].q = question_copy(q);
		all->kept[all->n_kept++].v = v;
	}
}

enum verdict gate_judge(struct conn *c, struct judging *j, const char *method, const char *path)
{
	struct gate *g = c->g;
	struct question q = {c->host, c->port, (char *)method, (char *)path}; // only looked at
	const struct rule *why = NULL;
	enum verdict v = policy_judge(&g->policy, &(struct request){&c->host, c->port, method, path}, &why);
	j->c = c;
	set_rule(j, why);
	if (v == VERDICT_ASK)
		v = c->answered ? VERDICT_ALLOW : remembered(g->asks, &q);
	struct ask *a = v == VERDICT_ASK ? ask_find(g, &q) : NULL;
	if (v == VERDICT_ASK && !a && g->asks->n >= GATE_ASKS)
		v = VERDICT_DENY;
	if (v == VERDICT_DENY)
		tell_denied(j, &q, why ? "a rule denies it" : "no rule allows it");
	if (v != VERDICT_ASK)
		return v;
	if (!a)
		a = ask_new(g, &q, c);
	j->ask = a;
	j->next = a->waiting;
	a->waiting = j;
	return v;
}

void asks_answer(struct gate *g, uint32_t id, enum verdict v, enum answer_scope scope)
{
	struct ask *a = g->asks->open;
	while (a && (a->id != id || !id))
		a = a->next;
	if (!a)
		return;
	const char *why = v == VERDICT_ASK ? "no rule allows it, and nobody was there to ask" : "the answer was no";
	v = v == VERDICT_ALLOW ? VERDICT_ALLOW : VERDICT_DENY;
	if (scope != SCOPE_ONCE)
		remember(g->asks, &a->q, v);
	ask_end(a, v, BY_PERSON, why);
}

// The first held question that the policy now decides; each is told before the next is looked for, since whoever is
// told may end others.
static struct ask *decided(struct gate *g, enum verdict *v)
{
	for (struct ask *a = g->asks->open; a; a = a->next) {
		const struct rule *why;
		struct request r = {&a->q.host, a->q.port, a->q.method, a->q.path};
		*v = policy_judge(&g->policy, &r, &why);
		if (a->id && *v != VERDICT_ASK)
			return a;
	}
	return NULL;
}

void asks_policy(struct gate *g)
{
	enum verdict v;
	while (g->asks->n_kept)
		question_done(&g->asks->kept[--g->asks->n_kept].q);
	for (struct ask *a = decided(g, &v); a; a = decided(g, &v))
		ask_end(a, v, BY_POLICY, "no rule allows it");
}

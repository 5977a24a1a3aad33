// SPDX-License-Identifier: Apache-2.0
// What happened, told to the cell, which puts it in the journal. A cell can cause any number of events a second: past a
// bound they are counted and told as one.
#include "gate/conn_int.h"

#include "base/clock.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define EVENT_MAX (32u << 10)
#define BY "gate"
#define HELD 16 // events of one connection that wait for the name of its command

static void send_event(struct gate *g, const char *type, struct buf *body)
{
	auto_buf struct buf b = BUF_INIT(EVENT_MAX + 256);
	wire_str(&b, type);
	wire_str(&b, BY);
	wire_str(&b, body->overflow ? "\"why\":\"too long to tell\"" : buf_cstr(body));
	chan_send_buf(&g->cell, M_EVENT, 0, &b);
}

static void on_summary(struct timer *t)
{
	struct gate *g = container_of(t, struct gate, events.summary);
	auto_buf struct buf b = BUF_INIT(EVENT_MAX);
	struct jsonw w = {.b = &b};
	jw_kstr(&w, "what", "events");
	jw_kstr(&w, "why", "more events in a second than are kept");
	jw_ku64(&w, "dropped", g->events.dropped);
	g->events.dropped = 0;
	send_event(g, "denied", &b);
}

void event_init(struct gate *g)
{
	g->events.summary.fn = on_summary;
}

static void count_dropped(struct gate *g)
{
	if (!g->events.dropped++)
		timer_set(&g->loop, &g->events.summary, 1000);
}

static void new_second(struct gate *g)
{
	uint64_t second = clock_ms() / 1000;
	if (second == g->events.second)
		return;
	g->events.second = second;
	memset(g->events.sent, 0, sizeof g->events.sent);
	g->events.names = 0;
}

// Who wants to hide what he does with a secret, or where he is let in, makes as many events of another kind as he can.
static size_t share_of(const char *type)
{
	static const char *const own[GATE_SHARES - 1] = {"secret.used", "net.request", "denied"};
	size_t i = 0;
	while (i < countof(own) && strcmp(type, own[i]))
		i++;
	return i;
}

static bool may_send(struct gate *g, const char *type)
{
	new_second(g);
	if (g->events.sent[share_of(type)]++ < GATE_EVENTS)
		return true;
	count_dropped(g);
	return false;
}

static void add_asker(struct jsonw *w, const struct asker *who)
{
	if (who->exec && who->exec[0])
		jw_kstr(w, "exec", who->exec);
	if (who->pid)
		jw_ku64(w, "pid", who->pid);
	if (who->command && who->command[0])
		jw_kstr(w, "command", who->command);
}

static void add_conn(struct jsonw *w, const struct conn *c)
{
	jw_kstr(w, "name", c->host.s);
	jw_ku64(w, "port", c->port);
	jw_ku64(w, "conn", c->id);
	if (c->address[0])
		jw_kstr(w, "address", c->address);
	add_asker(w, &(struct asker){c->pid, c->exec, c->command});
}

static void send_of(struct gate *g, struct conn *c, const char *type, const struct buf *members)
{
	if (!may_send(g, type))
		return;
	auto_buf struct buf b = BUF_INIT(EVENT_MAX);
	struct jsonw w = {.b = &b};
	if (c)
		add_conn(&w, c);
	if (members && members->n) {
		if (b.n)
			buf_byte(&b, ',');
		buf_add(&b, members->p, members->n);
		b.overflow |= members->overflow;
	}
	send_event(g, type, &b);
}

void events_release(struct conn *c)
{
	struct conn_own *o = c->own;
	timer_clear(&c->g->loop, &o->who_late);
	while (o->held) {
		struct held_event *h = o->held;
		o->held = h->next;
		send_of(c->g, c, h->type, &h->members);
		buf_done(&h->members);
		free(h->type);
		free(h);
	}
	o->n_held = 0;
}

static void on_who_late(struct timer *t)
{
	struct conn_own *o = container_of(t, struct conn_own, who_late);
	o->who_pending = false;
	events_release(o->c);
}

// A request may be over before it is known who made it. What is asked of a person, or tells of a secret that is about to
// be given away, does not wait.
static bool hold(struct conn *c, const char *type, const struct buf *members)
{
	struct conn_own *o = c->own;
	conn_ask_who(c);
	if (!o->who_pending || o->n_held >= HELD || (strcmp(type, "net.request") && strcmp(type, "denied")))
		return false;
	struct held_event *h = xcalloc(1, sizeof *h), **end = &o->held;
	*h = (struct held_event){.type = xstrdup(type), .members = BUF_INIT(EVENT_MAX)};
	if (members) {
		buf_add(&h->members, members->p, members->n);
		h->members.overflow |= members->overflow;
	}
	while (*end)
		end = &(*end)->next;
	*end = h;
	o->who_late.fn = on_who_late;
	if (!o->n_held++)
		timer_set(&c->g->loop, &o->who_late, GATE_WHO_MS);
	return true;
}

void gate_event(struct gate *g, struct conn *c, const char *type, const struct buf *members)
{
	if (c && str_is(str_of(type), "net.request"))
		c->requests++;
	if (!c || !hold(c, type, members))
		send_of(g, c, type, members);
}

void gate_denied(struct gate *g, struct conn *c, const char *what, const char *why, const char *rule)
{
	auto_buf struct buf b = BUF_INIT(EVENT_MAX);
	struct jsonw w = {.b = &b};
	jw_kstr(&w, "what", what);
	jw_kstr(&w, "why", why);
	jw_kstr(&w, "rule", rule);
	if (c && c->sni)
		jw_kstr(&w, "sni", c->sni);
	if (c && c->own->opened)
		c->own->verdict = VERDICT_DENY; // if it comes to no request, that is what became of it
	gate_event(g, c, "denied", &b);
}

// A question costs a cell next to nothing, so names have a smaller share: they can not crowd out connections.
void gate_denied_name(struct gate *g, const struct host_name *name, const char *why, const char *rule, const struct asker *who)
{
	new_second(g);
	if (g->events.names++ >= GATE_EVENTS / 4) {
		count_dropped(g);
		return;
	}
	auto_buf struct buf b = BUF_INIT(EVENT_MAX);
	struct jsonw w = {.b = &b};
	jw_kstr(&w, "what", "dns");
	jw_kstr(&w, "name", name->s);
	if (who)
		add_asker(&w, who);
	jw_kstr(&w, "why", why);
	jw_kstr(&w, "rule", rule);
	gate_event(g, NULL, "denied", &b);
}

// SPDX-License-Identifier: Apache-2.0
// What happened, told to the cell, which puts it in the journal. A cell can cause any number of events a second: past a
// bound they are counted and told as one.
#include "gate/gate_int.h"

#include "base/clock.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"

#define EVENT_MAX (32u << 10)
#define BY "gate"

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
	g->events.sent = g->events.names = 0;
}

static bool may_send(struct gate *g)
{
	new_second(g);
	if (g->events.sent++ < GATE_EVENTS)
		return true;
	count_dropped(g);
	return false;
}

static void add_conn(struct jsonw *w, const struct conn *c)
{
	jw_kstr(w, "name", c->host.s);
	jw_ku64(w, "port", c->port);
	jw_ku64(w, "conn", c->id);
	if (c->address[0])
		jw_kstr(w, "address", c->address);
	if (c->exec && c->exec[0])
		jw_kstr(w, "exec", c->exec);
	if (c->pid)
		jw_ku64(w, "pid", c->pid);
	if (c->command && c->command[0])
		jw_kstr(w, "command", c->command);
}

void gate_event(struct gate *g, struct conn *c, const char *type, const struct buf *members)
{
	if (c && str_is(str_of(type), "net.request"))
		c->requests++;
	if (!may_send(g))
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

void gate_denied(struct gate *g, struct conn *c, const char *what, const char *why, const char *rule)
{
	auto_buf struct buf b = BUF_INIT(EVENT_MAX);
	struct jsonw w = {.b = &b};
	jw_kstr(&w, "what", what);
	jw_kstr(&w, "why", why);
	jw_kstr(&w, "rule", rule);
	if (c && c->sni)
		jw_kstr(&w, "sni", c->sni);
	gate_event(g, c, "denied", &b);
}

// A question costs a cell next to nothing, so names have a smaller share: they can not crowd out connections.
void gate_denied_name(struct gate *g, const char *what, const struct host_name *name, const char *why)
{
	new_second(g);
	if (g->events.names++ >= GATE_EVENTS / 4) {
		count_dropped(g);
		return;
	}
	auto_buf struct buf b = BUF_INIT(EVENT_MAX);
	struct jsonw w = {.b = &b};
	jw_kstr(&w, "what", what);
	jw_kstr(&w, "name", name->s);
	jw_kstr(&w, "why", why);
	gate_event(g, NULL, "denied", &b);
}

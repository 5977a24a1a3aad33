// SPDX-License-Identifier: Apache-2.0
// listen is reported before it happens: the look comes a moment later, and again if it found nothing new. That a port was
// closed nobody reports; while one is open the list is read every other second (some ten microseconds of init's time).
#include "cell/ports.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include "cell/cell_int.h"
#include "model/msg.h"
#include <stdlib.h>
#include <string.h>

#define AGAIN_MS 2000

static const uint16_t waits_ms[] = {5, 40, 200, 1000};

struct open_port {
	uint16_t port;
	bool local, seen;
	uint32_t pid;
	char exec[ID_SIZE];
	char program[64];
};

static struct {
	struct cell *cell; // one process, one cell
	struct open_port list[LIMIT_PORTS];
	uint32_t n;
	unsigned tries;	 // looks that are still owed to a listen
	bool asked;	 // init has not answered
	struct timer look;
} self;

static void on_look(struct timer *t)
{
	struct cell *c = self.cell;
	(void)t;
	if (c->stage != CELL_UP)
		return;
	if (!c->paused && !self.asked) {
		self.asked = true;
		chan_send(&c->init, M_PORTS, 0, 0, NULL, 0);
	} else { // an answer arms it again
		timer_set(&c->loop, &self.look, AGAIN_MS);
	}
}

static void arm(void)
{
	self.look.fn = on_look;
	if (self.tries < countof(waits_ms))
		timer_set(&self.cell->loop, &self.look, waits_ms[self.tries]);
	else if (self.n)
		timer_set(&self.cell->loop, &self.look, AGAIN_MS);
}

void ports_soon(struct cell *c)
{
	self.cell = c;
	c->eventful = true;
	self.tries = 0;
	arm();
}

void ports_exec_ended(struct cell *c)
{
	if (self.n && c->stage == CELL_UP)
		timer_set(&c->loop, &self.look, waits_ms[1]);
}

static void put(struct buf *b, bool is_open, const struct open_port *p)
{
	wire_u8(b, is_open);
	wire_u32(b, p->port);
	wire_u8(b, p->local);
	wire_u32(b, p->pid);
	wire_str(b, p->exec);
	wire_str(b, p->program);
}

static void tell(struct cell *c, bool is_open, const struct open_port *p)
{
	auto_buf struct buf b = BUF_INIT(4096);
	struct jsonw w = {.b = &b};
	jw_ku64(&w, "port", p->port);
	if (is_open)
		jw_kbool(&w, "local", p->local);
	if (p->pid)
		jw_ku64(&w, "pid", p->pid);
	if (p->program[0])
		jw_kstr(&w, "program", p->program);
	if (p->exec[0])
		jw_kstr(&w, "exec", p->exec);
	if (record_may(c))
		record(c, is_open ? "port.open" : "port.closed", "workload", &b, false);
	buf_clear(&b);
	put(&b, is_open, p);
	if (c->control)
		chan_send_buf(&c->control->chan, M_PORT, 0, &b);
}

static struct open_port *find(uint16_t port)
{
	for (uint32_t i = 0; i < self.n; i++)
		if (self.list[i].port == port)
			return &self.list[i];
	return NULL;
}

static bool read_port(struct wire *w, struct open_port *out)
{
	uint32_t port = wire_get_u32(w);
	*out = (struct open_port){.port = (uint16_t)port, .seen = true, .local = wire_get_u8(w)};
	out->pid = wire_get_u32(w);
	auto_free char *exec = wire_get_str(w), *program = wire_get_str(w);
	if (w->bad || !port || port > UINT16_MAX || !exec || !program)
		return false;
	if (id_is(exec))
		memcpy(out->exec, exec, strlen(exec) + 1);
	memcpy(out->program, program, strnlen(program, sizeof out->program - 1));
	return true;
}

// Another process may have it now: that is news too.
static bool is_same(const struct open_port *a, const struct open_port *b)
{
	return a->local == b->local && (a->pid == b->pid || !b->pid);
}

static bool take_ports(struct cell *c, struct wire *w)
{
	struct open_port p;
	bool news = false;
	for (uint32_t n = wire_get_u32(w); n && read_port(w, &p); n--) {
		struct open_port *known = find(p.port);
		if (known && is_same(known, &p)) {
			known->seen = true;
			continue;
		}
		if (known && !p.exec[0] && !p.pid)
			memcpy(p.exec, known->exec, sizeof p.exec);
		if (!known && self.n == LIMIT_PORTS)
			continue;
		known = known ? known : &self.list[self.n++];
		*known = p;
		news = true;
		tell(c, true, &p);
	}
	return news;
}

void ports_answer(struct cell *c, const struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	self.asked = false;
	if (c->stage != CELL_UP)
		return;
	for (uint32_t i = 0; i < self.n; i++)
		self.list[i].seen = false;
	bool news = take_ports(c, &w);
	for (uint32_t i = 0; i < self.n;) {
		struct open_port p = self.list[i];
		if (p.seen) {
			i++;
			continue;
		}
		self.list[i] = self.list[--self.n];
		tell(c, false, &p);
	}
	self.tries = news ? countof(waits_ms) : self.tries + 1;
	arm();
}

void ports_replay(struct cell *c)
{
	for (uint32_t i = 0; i < self.n; i++) {
		auto_buf struct buf b = BUF_INIT(1024);
		put(&b, true, &self.list[i]);
		chan_send_buf(&c->control->chan, M_PORT, 0, &b);
	}
}

void ports_end(struct cell *c)
{
	timer_clear(&c->loop, &self.look);
	self.n = 0;
	self.asked = false;
}

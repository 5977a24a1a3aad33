// SPDX-License-Identifier: Apache-2.0
#include "gate/dns_refuse.h"

#include "base/clock.h"
#include "base/mem.h"
#include "gate/gate_int.h"
#include <stdlib.h>

#define RECENT 64	// refused names that were reported lately
#define RECENT_MS 10000 // and are not reported again: a client asks for several types, several times
#define HELD 16		// answers that wait; one more is told without its command

struct held_name {
	struct refused_names *r;
	struct timer late;
	uint32_t id; // 0 = free
	struct host_name name;
	union addr from;
	int fd; // borrowed
	struct buf answer;
};

struct refused_names {
	struct gate *g;
	struct held_name held[HELD];
	struct {
		struct host_name name;
		uint64_t until_ms;
	} recent[RECENT];
	size_t recent_at;
};

static bool reported(struct refused_names *r, const struct host_name *name)
{
	uint64_t now = clock_ms();
	for (size_t i = 0; i < RECENT; i++)
		if (r->recent[i].until_ms > now && host_equal(&r->recent[i].name, name))
			return true;
	r->recent[r->recent_at].name = *name;
	r->recent[r->recent_at].until_ms = now + RECENT_MS;
	r->recent_at = (r->recent_at + 1) % RECENT;
	return false;
}

static void tell(struct refused_names *r, const struct host_name *name, const struct asker *who)
{
	const struct rule *why = NULL;
	auto_buf struct buf rule = BUF_INIT(RULE_TEXT + 1);
	if (!name->s[0]) {
		gate_denied_name(r->g, name, "not a host name", NULL, who);
		return;
	}
	policy_judge(&r->g->policy, &(struct request){name, 443, NULL, NULL}, &why);
	bool denied = why && why->deny;
	if (denied)
		rule_print(&rule, why);
	gate_denied_name(r->g, name, denied ? "a rule denies this name" : "no rule allows this name", denied ? buf_cstr(&rule) : NULL, who);
}

static void release(struct held_name *h, const struct asker *who)
{
	timer_clear(&h->r->g->loop, &h->late);
	h->id = 0;
	tell(h->r, &h->name, who);
	// A client that is gone, or does not take it, asks again or does not want it.
	sendto(h->fd, h->answer.p, h->answer.n, MSG_DONTWAIT | MSG_NOSIGNAL, &h->from.sa, addr_len(&h->from));
	buf_done(&h->answer);
}

static void on_late(struct timer *t)
{
	release(container_of(t, struct held_name, late), NULL);
}

static bool ask_who(struct refused_names *r, uint32_t id, const union addr *from)
{
	auto_buf struct buf b = BUF_INIT(64);
	struct range own = addr_range(from);
	static const uint8_t resolver[] = {127, 0, 0, 1};
	wire_u32(&b, addr_port(from));
	wire_bytes(&b, own.net, own.bits / 8);
	wire_bytes(&b, resolver, sizeof resolver);
	wire_u32(&b, 53);
	return chan_send(&r->g->cell, M_WHO, WHO_UDP, id, b.p, b.n);
}

static struct held_name *place(struct refused_names *r)
{
	for (size_t i = 0; i < HELD; i++)
		if (!r->held[i].id)
			return &r->held[i];
	return NULL;
}

static bool hold(struct refused_names *r, const struct host_name *name, const union addr *from, int fd, const struct buf *answer)
{
	struct gate *g = r->g;
	struct held_name *h = place(r);
	uint32_t id = ++g->last_id ? g->last_id : ++g->last_id;
	if (!h || from->sa.sa_family != AF_INET || !ask_who(r, id, from))
		return false;
	*h = (struct held_name){.r = r, .late.fn = on_late, .id = id, .name = *name, .from = *from, .fd = fd, .answer = BUF_INIT(DNS_MESSAGE)};
	buf_add(&h->answer, answer->p, answer->n);
	timer_set(&g->loop, &h->late, GATE_WHO_MS);
	return true;
}

struct refused_names *refused_names_new(struct gate *g)
{
	struct refused_names *r = xcalloc(1, sizeof *r);
	r->g = g;
	return r;
}

bool refused_name(struct refused_names *r, const struct dns_query *q, const union addr *from, int fd, const struct buf *answer)
{
	static const struct host_name none;
	const struct host_name *name = q->is_name ? &q->name : &none;
	if (reported(r, name))
		return false;
	if (from && hold(r, name, from, fd, answer))
		return true;
	tell(r, name, NULL);
	return false;
}

void refused_names_who(struct refused_names *r, const struct frame *f)
{
	struct wire w = {f->p, f->n, false};
	for (size_t i = 0; f->id && i < HELD; i++) {
		if (r->held[i].id != f->id)
			continue;
		uint32_t pid = wire_get_u32(&w);
		auto_free char *exec = wire_get_str(&w), *command = wire_get_str(&w);
		release(&r->held[i], &(struct asker){pid, exec, command});
		return;
	}
}

void refused_names_end(struct refused_names *r)
{
	for (size_t i = 0; i < HELD; i++)
		if (r->held[i].id)
			release(&r->held[i], NULL);
}

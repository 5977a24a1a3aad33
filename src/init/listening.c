// SPDX-License-Identifier: Apache-2.0
#include "init/listening.h"

#include "base/mem.h"
#include "init/who.h"
#include "model/limits.h"
#include "model/msg.h"
#include <string.h>

#define STATE_LISTEN 10
#define DNS 53

struct listening {
	uint64_t inode;
	uint16_t port;
	bool local; // on loopback only
	struct port_owner owner;
};

// Who it was the last time is not looked for again: a search goes through every descriptor of the cell.
static struct {
	struct listening was[LIMIT_PORTS], now[LIMIT_PORTS];
	uint32_t n_was, n_now;
} self;

static const struct port_owner *known(uint64_t inode)
{
	for (uint32_t i = 0; i < self.n_was; i++)
		if (self.was[i].inode == inode && self.was[i].owner.pid)
			return &self.was[i].owner;
	return NULL;
}

static struct listening *of_port(uint16_t port)
{
	for (uint32_t i = 0; i < self.n_now; i++)
		if (self.now[i].port == port)
			return &self.now[i];
	return NULL;
}

// The kernel prints addresses as numbers of its own byte order.
static bool is_loopback(const struct tcp_line *t)
{
	static const char v6[] = "00000000000000000000000001000000", mapped[] = "0000000000000000FFFF0000";
	if (t->address.n == 8)
		return !strncmp(t->address.p + 6, "7F", 2);
	return !strncmp(t->address.p, v6, 32) || (!strncmp(t->address.p, mapped, 24) && !strncmp(t->address.p + 30, "7F", 2));
}

// 198.18.0.0/15: where it listens for what leaves the cell.
static bool is_gates(const struct tcp_line *t)
{
	return t->address.n == 8 && (!strncmp(t->address.p + 4, "12C6", 4) || !strncmp(t->address.p + 4, "13C6", 4));
}

static void take_line(void *ctx, const struct tcp_line *t)
{
	(void)ctx;
	if (t->state != STATE_LISTEN || !t->port || is_gates(t))
		return;
	struct listening *l = of_port(t->port);
	if (l) { // IPv4 and IPv6: one port
		l->local &= is_loopback(t);
		return;
	}
	if (self.n_now == LIMIT_PORTS)
		return;
	l = &self.now[self.n_now];
	*l = (struct listening){.inode = t->inode, .port = t->port, .local = is_loopback(t)};
	const struct port_owner *o = known(t->inode);
	if (o)
		l->owner = *o;
	else
		who_has_port(WHO_TCP, t->port, t->inode, &l->owner);
	self.n_now += t->port != DNS || !l->local || l->owner.pid; // that one is the gate's too
}

void listening_answer(struct chan *c, const struct frame *f)
{
	auto_buf struct buf b = BUF_INIT(LIMIT_PORTS * 256);
	self.n_now = 0;
	who_tcp_table("/proc/net/tcp", take_line, NULL);
	who_tcp_table("/proc/net/tcp6", take_line, NULL);
	wire_u32(&b, self.n_now);
	for (uint32_t i = 0; i < self.n_now; i++) {
		const struct listening *l = &self.now[i];
		wire_u32(&b, l->port);
		wire_u8(&b, l->local);
		wire_u32(&b, l->owner.pid);
		wire_str(&b, l->owner.exec);
		wire_str(&b, l->owner.name);
	}
	memcpy(self.was, self.now, sizeof self.now);
	self.n_was = self.n_now;
	chan_send_buf(c, M_PORTS, f->id, &b);
}

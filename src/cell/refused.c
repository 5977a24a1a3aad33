// SPDX-License-Identifier: Apache-2.0
#include "cell/refused.h"

#include "base/clock.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include "cell/cell_int.h"
#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define PACKETS 64 // read at once; the rest when the loop comes back
#define SECOND_MS 1000

// --- packets ---

static uint16_t get_port(const uint8_t *transport, size_t n, uint8_t proto)
{
	bool has = proto == IPPROTO_TCP || proto == IPPROTO_UDP || proto == IPPROTO_UDPLITE || proto == IPPROTO_SCTP ||
		   proto == IPPROTO_DCCP;
	return has && n >= 4 ? (uint16_t)(transport[2] << 8 | transport[3]) : 0;
}

static bool read_v4(const uint8_t *p, size_t n, struct refused_packet *out)
{
	size_t head = (size_t)(p[0] & 15) * 4;
	if (n < 20 || head < 20 || !inet_ntop(AF_INET, p + 16, out->address, sizeof out->address))
		return false;
	bool first = !((p[6] & 0x1f) | p[7]); // a later fragment carries no ports
	out->proto = p[9];
	out->port = first && n > head ? get_port(p + head, n - head, out->proto) : 0;
	return true;
}

static bool read_v6(const uint8_t *p, size_t n, struct refused_packet *out)
{
	if (n < 40 || !inet_ntop(AF_INET6, p + 24, out->address, sizeof out->address))
		return false;
	out->proto = p[6]; // extension headers are not followed: the address is what counts
	out->port = get_port(p + 40, n - 40, out->proto);
	return true;
}

bool refused_read(const void *p, size_t n, struct refused_packet *out)
{
	const uint8_t *b = p;
	*out = (struct refused_packet){0};
	if (!n)
		return false;
	return b[0] >> 4 == 4 ? read_v4(b, n, out) : b[0] >> 4 == 6 && read_v6(b, n, out);
}

// --- events ---

static const char *proto_name(uint8_t proto, char number[4])
{
	switch (proto) {
	case IPPROTO_TCP:
		return "tcp";
	case IPPROTO_UDP:
		return "udp";
	case IPPROTO_ICMP:
		return "icmp";
	case IPPROTO_ICMPV6:
		return "icmpv6";
	default:
		return fmt_to(number, 4, "%u", proto) ? "?" : number;
	}
}

static void tell(struct cell *c, const struct refused_packet *k)
{
	auto_buf struct buf b = BUF_INIT(1024);
	struct jsonw w = {.b = &b};
	char number[4];
	// The socket is closed by the time we hear of it, so nobody can be asked; but often there is only one candidate.
	const struct sx *only = sx_only(c);
	jw_kstr(&w, "what", "net");
	jw_kstr(&w, "proto", proto_name(k->proto, number));
	jw_kstr(&w, "address", k->address);
	if (k->port)
		jw_ku64(&w, "port", k->port);
	jw_kstr(&w, "why", k->proto == IPPROTO_TCP ? "no rule is for this address" : "only TCP leaves a sandbox");
	jw_kstr(&w, "exec", only ? only->spec.id : NULL);
	record(c, "denied", "workload", &b, false);
}

void refused_end(struct refused *r)
{
	auto_buf struct buf b = BUF_INIT(256);
	struct jsonw w = {.b = &b};
	if (!r->cell)
		return;
	timer_clear(&r->cell->loop, &r->say);
	if (!r->more)
		return;
	jw_kstr(&w, "what", "net");
	jw_ku64(&w, "count", r->more); // at least: the kernel does not log everything of a flood
	r->more = 0;
	record(r->cell, "denied", "workload", &b, false);
}

static void on_say(struct timer *t)
{
	refused_end(container_of(t, struct refused, say));
}

static void note(struct refused *r, const struct refused_packet *k)
{
	uint64_t now = clock_ms();
	if (now - r->second_ms >= SECOND_MS) {
		r->second_ms = now;
		r->said = 0;
	}
	if (r->said < REFUSED_RATE) {
		r->said++;
		tell(r->cell, k);
	} else if (!r->more++) {
		timer_set(&r->cell->loop, &r->say, SECOND_MS);
	}
}

// --- the kernel's log ---

static void on_message(struct refused *r, const struct nlmsghdr *h)
{
	struct refused_packet k;
	size_t head = NLMSG_LENGTH(sizeof(struct nfgenmsg));
	if (h->nlmsg_type != (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET) || h->nlmsg_len < head)
		return;
	const char *p = (const char *)h + head, *end = (const char *)h + h->nlmsg_len;
	while (end - p >= NLA_HDRLEN) {
		const struct nlattr *a = (const struct nlattr *)p;
		if (a->nla_len < NLA_HDRLEN || a->nla_len > end - p)
			return;
		if ((a->nla_type & NLA_TYPE_MASK) == NFULA_PAYLOAD &&
		    refused_read(p + NLA_HDRLEN, a->nla_len - NLA_HDRLEN, &k))
			note(r, &k);
		ptrdiff_t whole = NLA_ALIGN(a->nla_len);
		p += whole < end - p ? whole : end - p;
	}
}

static void on_packets(struct watch *w, uint32_t events)
{
	struct refused *r = container_of(w, struct refused, w);
	_Alignas(8) char in[4096];
	(void)events;
	for (int i = 0; i < PACKETS; i++) {
		ssize_t got = recv(w->fd, in, sizeof in, MSG_DONTWAIT);
		if (got <= 0)
			return; // ENOBUFS: some were lost, which an account that is not complete anyway survives
		int left = (int)got;
		for (struct nlmsghdr *h = (struct nlmsghdr *)in; NLMSG_OK(h, (unsigned)left); h = NLMSG_NEXT(h, left))
			on_message(r, h);
	}
}

int refused_init(struct refused *r, struct cell *c, int nflog, struct err *e)
{
	*r = (struct refused){.cell = c, .w = {.fd = -1, .fn = on_packets}, .say.fn = on_say};
	return loop_add(&c->loop, &r->w, nflog, LOOP_IN, e);
}

// SPDX-License-Identifier: Apache-2.0
// The resolver's sockets, made inside the cell's network: datagrams, and streams with a two-byte length before each
// message. A stream that does not take its answers, or has sent nothing whole for a while, is closed.
#include "gate/dns.h"

#include "base/mem.h"
#include "gate/dns_refuse.h"
#include "gate/gate_int.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH 32	// messages served before others get their turn
#define STREAM_IN (2 + DNS_MESSAGE)

struct stream {
	struct watch w;
	struct timer t;
	struct gate *g;
	struct buf in;
	bool used;
};

struct dns {
	struct watch udp, tcp;
	struct gate *g;
	struct dns_names *names;
	struct refused_names *refused;
	struct stream streams[DNS_STREAMS];
};

struct dns_names *dns_table(struct gate *g)
{
	return g->dns->names;
}

void dns_who(struct gate *g, const struct frame *f)
{
	refused_names_who(g->dns->refused, f);
}

void dns_end(struct gate *g)
{
	refused_names_end(g->dns->refused);
}

// True: the name is refused.
static bool answer(struct dns *d, const struct dns_query *q, struct buf *out)
{
	uint32_t address = 0;
	enum dns_rcode rcode = q->rcode;
	bool refused = !rcode && (!q->is_name || !policy_names(&d->g->policy, &q->name));
	if (refused) {
		rcode = DNS_NXDOMAIN;
	} else if (!rcode && q->type == DNS_A) {
		address = dns_names_give(d->names, &q->name);
		rcode = address ? DNS_NOERROR : DNS_SERVFAIL;
	}
	dns_answer(out, q, rcode, address);
	return refused;
}

static void on_datagram(struct watch *w, uint32_t events)
{
	struct dns *d = container_of(w, struct dns, udp);
	(void)events;
	for (int i = 0; i < BATCH; i++) {
		uint8_t in[DNS_MESSAGE + 1];
		union addr from = {0};
		socklen_t from_n = sizeof from;
		struct dns_query q;
		auto_buf struct buf out = BUF_INIT(DNS_MESSAGE);
		ssize_t n = recvfrom(w->fd, in, sizeof in, MSG_DONTWAIT, &from.sa, &from_n);
		if (n < 0)
			return;
		if (!dns_parse(in, (size_t)n, &q))
			continue;
		if (answer(d, &q, &out) && refused_name(d->refused, &q, &from, w->fd, &out))
			continue;
		sendto(w->fd, out.p, out.n, MSG_DONTWAIT | MSG_NOSIGNAL, &from.sa, from_n);
	}
}

static void stream_end(struct stream *s)
{
	int fd = s->w.fd;
	loop_del(&s->g->loop, &s->w);
	close_fd(&fd);
	timer_clear(&s->g->loop, &s->t);
	buf_done(&s->in);
	s->used = false;
}

// Answers the first message in the buffer. 1 = answered, 0 = not whole yet, -1 = the stream is no good.
static int stream_one(struct stream *s)
{
	const uint8_t *p = (const uint8_t *)s->in.p;
	if (s->in.n < 2)
		return 0;
	size_t n = (size_t)p[0] << 8 | p[1];
	struct dns_query q;
	auto_buf struct buf out = BUF_INIT(2 + DNS_MESSAGE), body = BUF_INIT(DNS_MESSAGE);
	if (n > DNS_MESSAGE)
		return -1;
	if (s->in.n - 2 < n)
		return 0;
	if (!dns_parse(p + 2, n, &q))
		return -1;
	if (answer(s->g->dns, &q, &body))
		refused_name(s->g->dns->refused, &q, NULL, -1, NULL);
	buf_byte(&out, (char)(body.n >> 8));
	buf_byte(&out, (char)body.n);
	buf_add(&out, body.p, body.n);
	if (send(s->w.fd, out.p, out.n, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)out.n)
		return -1;
	buf_cut(&s->in, 2 + n);
	timer_set(&s->g->loop, &s->t, DNS_STREAM_MS);
	return 1;
}

static void on_stream(struct watch *w, uint32_t events)
{
	struct stream *s = container_of(w, struct stream, w);
	(void)events;
	char *room = buf_room(&s->in, STREAM_IN - s->in.n);
	ssize_t n = recv(w->fd, room, STREAM_IN - s->in.n, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	int rc = n > 0 ? 1 : -1;
	s->in.n += n > 0 ? (size_t)n : 0;
	while (rc > 0)
		rc = stream_one(s);
	if (rc < 0)
		stream_end(s);
}

static void on_stream_late(struct timer *t)
{
	stream_end(container_of(t, struct stream, t));
}

static struct stream *stream_free(struct dns *d)
{
	for (size_t i = 0; i < DNS_STREAMS; i++)
		if (!d->streams[i].used)
			return &d->streams[i];
	return NULL;
}

static void on_accept(struct watch *w, uint32_t events)
{
	struct dns *d = container_of(w, struct dns, tcp);
	struct err e;
	(void)events;
	auto_fd int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct stream *s = fd < 0 ? NULL : stream_free(d);
	if (!s)
		return; // one too many is closed at once
	*s = (struct stream){
		.w = {.fd = -1, .fn = on_stream}, .t.fn = on_stream_late, .g = d->g, .in = BUF_INIT(STREAM_IN + 1)};
	if (loop_add(&d->g->loop, &s->w, fd, LOOP_IN, &e))
		return;
	take_fd(&fd);
	s->used = true;
	timer_set(&d->g->loop, &s->t, DNS_STREAM_MS);
}

static int serve(struct gate *g, struct watch *w, int *fd, struct err *e)
{
	if (*fd < 0)
		return 0;
	if (fcntl(*fd, F_SETFL, O_NONBLOCK))
		return err_sys(e, "make the resolver's socket non-blocking");
	if (loop_add(&g->loop, w, *fd, LOOP_IN, e))
		return -1;
	take_fd(fd);
	return 0;
}

int dns_serve(struct gate *g, int udp, int tcp, struct err *e)
{
	auto_fd int u = udp, t = tcp;
	g->dns = xcalloc(1, sizeof *g->dns);
	g->dns->udp = (struct watch){.fd = -1, .fn = on_datagram};
	g->dns->tcp = (struct watch){.fd = -1, .fn = on_accept};
	g->dns->g = g;
	g->dns->names = dns_names_new();
	g->dns->refused = refused_names_new(g);
	return serve(g, &g->dns->udp, &u, e) || serve(g, &g->dns->tcp, &t, e) ? -1 : 0;
}

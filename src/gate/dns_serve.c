// SPDX-License-Identifier: Apache-2.0
// The resolver's sockets, made inside the cell's network: datagrams, and streams with a two-byte length before each
// message. A stream that does not take its answers, or has sent nothing whole for a while, is closed.
#include "gate/dns.h"

#include "base/clock.h"
#include "base/mem.h"
#include "gate/gate_int.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECENT 64	// refused names that were reported lately
#define RECENT_MS 10000 // and are not reported again: a client asks for several types, several times
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
	struct stream streams[DNS_STREAMS];
	struct {
		struct host_name name;
		uint64_t until_ms;
	} recent[RECENT];
	size_t recent_at;
};

struct dns_names *dns_table(struct gate *g)
{
	return g->dns->names;
}

static bool reported(struct dns *d, const struct host_name *name)
{
	uint64_t now = clock_ms();
	for (size_t i = 0; i < RECENT; i++)
		if (d->recent[i].until_ms > now && host_equal(&d->recent[i].name, name))
			return true;
	d->recent[d->recent_at].name = *name;
	d->recent[d->recent_at].until_ms = now + RECENT_MS;
	d->recent_at = (d->recent_at + 1) % RECENT;
	return false;
}

static void refuse(struct dns *d, const struct dns_query *q)
{
	static const struct host_name none;
	const struct host_name *name = q->is_name ? &q->name : &none;
	if (!reported(d, name))
		gate_denied_name(d->g, "dns", name, q->is_name ? "no rule allows this name" : "not a host name");
}

static void answer(struct dns *d, const struct dns_query *q, struct buf *out)
{
	uint32_t address = 0;
	enum dns_rcode rcode = q->rcode;
	if (!rcode && (!q->is_name || !policy_names(&d->g->policy, &q->name))) {
		rcode = DNS_NXDOMAIN;
		refuse(d, q);
	} else if (!rcode && q->type == DNS_A) {
		address = dns_names_give(d->names, &q->name);
		rcode = address ? DNS_NOERROR : DNS_SERVFAIL;
	}
	dns_answer(out, q, rcode, address);
}

static void on_datagram(struct watch *w, uint32_t events)
{
	struct dns *d = container_of(w, struct dns, udp);
	(void)events;
	for (int i = 0; i < BATCH; i++) {
		uint8_t in[DNS_MESSAGE + 1];
		struct sockaddr_storage from;
		socklen_t from_n = sizeof from;
		struct dns_query q;
		auto_buf struct buf out = BUF_INIT(DNS_MESSAGE);
		ssize_t n = recvfrom(w->fd, in, sizeof in, MSG_DONTWAIT, (struct sockaddr *)&from, &from_n);
		if (n < 0)
			return;
		if (!dns_parse(in, (size_t)n, &q))
			continue;
		answer(d, &q, &out);
		sendto(w->fd, out.p, out.n, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&from, from_n);
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
	answer(s->g->dns, &q, &body);
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
	return serve(g, &g->dns->udp, &u, e) || serve(g, &g->dns->tcp, &t, e) ? -1 : 0;
}

// SPDX-License-Identifier: Apache-2.0
// Nothing is read from the local side before the certificate was checked, so no byte of a request, and no token, can reach a
// host that did not prove its name. A line that breaks on one side breaks on the other: an end that was not said would look
// like one.
#include "gate/tls_line.h"

#include "base/mem.h"
#include "gate/selfseal.h"
#include "gate/tls.h"
#include "model/name.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <string.h>

#define SHAKE_MS 15000

struct tls_line {
	struct loop loop;
	struct tls_ctx ctx;
	struct tls net, line;
	struct timer late;
	bool ready;
};

// As much as both sides say is let through, no further ahead than the queue of the slower one.
static void pass(struct tls *from, struct tls *to, const char *p, size_t n)
{
	tls_write(to, p, n);
	if (tls_queued(to) > TLS_QUEUE_HIGH)
		tls_pause(from, true);
}

static void answer(struct tls_line *l, char how, const char *msg)
{
	auto_buf struct buf b = BUF_INIT(1024);
	buf_byte(&b, how);
	buf_str(&b, msg);
	tls_write(&l->line, b.p, b.n);
}

static void give_up(struct tls_line *l, char how, const char *msg)
{
	timer_clear(&l->loop, &l->late);
	answer(l, how, msg);
	tls_finish(&l->line, false);
}

// --- towards the host ---

static void net_ready(struct tls *t)
{
	struct tls_line *l = container_of(t, struct tls_line, net);
	timer_clear(&l->loop, &l->late);
	l->ready = true;
	answer(l, TLS_LINE_OK, "");
	tls_pause(&l->line, false);
}

static void net_data(struct tls *t, const char *p, size_t n)
{
	pass(t, &container_of(t, struct tls_line, net)->line, p, n);
}

static void net_drain(struct tls *t)
{
	tls_pause(&container_of(t, struct tls_line, net)->line, false);
}

static void net_end(struct tls *t, bool clean)
{
	struct tls_line *l = container_of(t, struct tls_line, net);
	const char *why = tls_verify_error(t);
	if (l->ready)
		tls_finish(&l->line, !clean);
	else if (why)
		give_up(l, TLS_LINE_DENIED, why);
	else
		give_up(l, TLS_LINE_FAILED, "no TLS connection could be made: the other side ended it, or does not speak TLS");
}

static void on_late(struct timer *tm)
{
	struct tls_line *l = container_of(tm, struct tls_line, late);
	tls_abort(&l->net);
	give_up(l, TLS_LINE_FAILED, "no TLS connection within 15 s");
}

// --- towards skep ---

static void line_data(struct tls *t, const char *p, size_t n)
{
	pass(t, &container_of(t, struct tls_line, line)->net, p, n);
}

static void line_drain(struct tls *t)
{
	struct tls_line *l = container_of(t, struct tls_line, line);
	if (l->ready)
		tls_pause(&l->net, false);
}

static void line_end(struct tls *t, bool clean)
{
	struct tls_line *l = container_of(t, struct tls_line, line);
	(void)clean; // skep went: it has what it wanted
	if (l->ready)
		tls_finish(&l->net, false);
	else
		loop_stop(&l->loop);
}

static void on_gone(struct tls *t)
{
	loop_stop(t->loop);
}

// An address is not sent as a server name (RFC 6066), and the certificate must name it as one.
static int begin_tls(struct tls_line *l, const struct tls_line_args *a, struct err *e)
{
	uint8_t scratch[sizeof(struct in6_addr)];
	struct host_name name;
	int net = a->net;
	struct tls_offer offer = {.name = &name, .h1 = true};
	if (inet_pton(AF_INET, a->name, scratch) == 1 || inet_pton(AF_INET6, a->name, scratch) == 1)
		offer = (struct tls_offer){.address = a->name, .h1 = true};
	else if (host_parse(a->name, strlen(a->name), &name, e))
		return -1;
	return tls_connect(&l->net, &l->ctx, &l->loop, net, offer, e);
}

int tls_line_run(const struct tls_line_args *a, struct err *e)
{
	static const struct tls_ops net_ops = {.ready = net_ready, .data = net_data, .drain = net_drain, .end = net_end, .gone = on_gone};
	static const struct tls_ops line_ops = {.data = line_data, .drain = line_drain, .end = line_end, .gone = on_gone};
	static struct tls_line l;
	l.net.ops = &net_ops;
	l.line.ops = &line_ops;
	l.late.fn = on_late;
	if (fcntl(a->net, F_SETFL, O_NONBLOCK) || fcntl(a->line, F_SETFL, O_NONBLOCK))
		return err_sys(e, "the sockets of a TLS line");
	if (loop_init(&l.loop, e) || tls_plain(&l.line, &l.loop, a->line, (struct str){NULL, 0}, e))
		return -1;
	tls_pause(&l.line, true);
	timer_set(&l.loop, &l.late, SHAKE_MS);
	if (tls_ctx_init(&l.ctx, a->ca, e) || begin_tls(&l, a, e) || selfseal(SEAL_ALONE, e))
		give_up(&l, TLS_LINE_FAILED, e->msg);
	return loop_run(&l.loop, e);
}

// SPDX-License-Identifier: Apache-2.0
// The first bytes of a connection decide what becomes of it: passed through, opened, or refused.
#include "base/mem.h"
#include "gate/conn_int.h"
#include "gate/hello.h"
#include "gate/open.h"
#include <errno.h>
#include <string.h>

static enum pass_seen on_server(struct conn *c, const void *p, size_t n)
{
	return ssh_seen_feed(c->own->ssh, p, n) ? PASS_MORE : PASS_ENOUGH;
}

static enum pass_seen on_client_line(struct conn *c, const void *p, size_t n)
{
	static const enum pass_seen seen[] = {[SCAN_MORE] = PASS_MORE, [SCAN_REQUEST] = PASS_STOP, [SCAN_OVER] = PASS_ENOUGH};
	return seen[request_scan_feed(&c->own->scan, p, n)];
}

static void on_dialed(struct dialing *d, int fd, const struct err *e)
{
	struct conn *c = d->c;
	if (fd < 0) {
		c->own->verdict = e->kind == ERR_DENIED ? VERDICT_DENY : VERDICT_ALLOW;
		conn_end_error(c, e->msg);
		return;
	}
	if (policy_has_ssh(&c->g->policy, &c->host, c->port)) {
		c->own->ssh = ssh_seen_new();
		pass_tap(c->own->pass, on_server);
	}
	pass_upstream(c->own->pass, fd);
	if (!c->own->over)
		conn_ask_who(c);
}

static void dial(struct conn *c)
{
	struct conn_own *o = c->own;
	if (!o->dialing.dial && !c->address[0])
		gate_connect(c, &o->dialing);
}

static void pass_through(struct conn *c)
{
	struct conn_own *o = c->own;
	o->head_seen = true;
	timer_clear(&c->g->loop, &o->timer);
	conn_set_head(c, false);
	dial(c);
	auto_buf struct buf head = o->head;
	o->head = BUF_INIT(0);
	pass_release(o->pass, head.p, head.n);
}

static void hand_over(struct conn *c, bool tls);

// Neither TLS nor HTTP as far as it came. A line that a server may still take for a request is not passed on whole.
static void pass_other(struct conn *c)
{
	enum request_scan_state s = request_scan_feed(&c->own->scan, c->own->head.p, c->own->head.n);
	if (s == SCAN_REQUEST) {
		hand_over(c, false); // the request's answer says what is wrong with it
		return;
	}
	if (s == SCAN_MORE)
		pass_tap_client(c->own->pass, on_client_line);
	pass_through(c);
}

static void hand_over(struct conn *c, bool tls)
{
	struct conn_own *o = c->own;
	if (c->bytes_in) {
		conn_refuse(c, "connect", "HTTP after the server spoke first");
		return;
	}
	dialing_cancel(&o->dialing);
	timer_clear(&c->g->loop, &o->timer);
	conn_set_head(c, false);
	int fd = pass_take_client(o->pass);
	pass_free(take(&o->pass), PASS_CLOSE);
	conn_set_opened(c);
	conn_ask_who(c);
	c->upstream = (union addr){0};
	c->address[0] = 0;
	auto_buf struct buf head = o->head;
	o->head = BUF_INIT(0);
	opened_start(c->g, fd, head.p, head.n, &c->host, c->port, tls, c);
}

static void on_hello(struct conn *c, const struct hello *h)
{
	if (h->has_sni)
		c->sni = xstrdup(h->sni.s);
	if (h->ech)
		conn_refuse(c, "sni", "encrypted ClientHello: the name it is for can not be seen");
	else if (c->literal && h->has_sni) // a denied name could be reached by its address
		conn_refuse(c, "sni", "TLS names a server, and an address was dialled");
	else if (c->literal)
		pass_through(c);
	else if (!h->has_sni)
		conn_refuse(c, "sni", "TLS without a server name");
	else if (!host_equal(&h->sni, &c->host))
		conn_refuse(c, "sni", "the TLS server name is not the name that was resolved");
	else if (policy_opens(&c->g->policy, &c->host, c->port))
		hand_over(c, true);
	else
		pass_through(c);
}

// It may still become a request, which must not pass unseen, however slowly it comes.
static void wait_for_more(struct conn *c)
{
	if (c->own->in_head)
		return;
	conn_set_head(c, true);
	timer_set(&c->g->loop, &c->own->timer, GATE_HEAD_MS);
}

static void look_at_hello(struct conn *c)
{
	struct hello h;
	c->tls = true;
	switch (hello_parse(c->own->head.p, c->own->head.n, &h)) {
	case HELLO_MORE:
		wait_for_more(c);
		return;
	case HELLO_BAD:
		conn_refuse(c, "sni", h.why);
		return;
	case HELLO_OK:
		on_hello(c, &h);
		return;
	}
}

static void look_at_other(struct conn *c)
{
	if (c->port == 443)
		conn_refuse(c, "connect", "not TLS on port 443");
	else if (c->port == 80)
		hand_over(c, false); // it answers what is wrong with the request
	else if (policy_opens(&c->g->policy, &c->host, c->port))
		conn_refuse(c, "connect", "a rule wants this connection opened, and it is neither TLS nor HTTP");
	else
		pass_other(c);
}

static void look(struct conn *c)
{
	switch (hello_sniff(c->own->head.p, c->own->head.n)) {
	case SNIFF_MORE:
		wait_for_more(c);
		return;
	case SNIFF_TLS:
		look_at_hello(c);
		return;
	case SNIFF_HTTP:
		if (c->port == 443)
			conn_refuse(c, "connect", "plain HTTP on port 443");
		else
			hand_over(c, false);
		return;
	case SNIFF_OTHER:
		look_at_other(c);
		return;
	}
}

static bool waits_for_head(const struct conn *c)
{
	return c->port == 80 || c->port == 443 || policy_opens(&c->g->policy, &c->host, c->port);
}

void head_read(struct conn *c)
{
	struct conn_own *o = c->own;
	char *room = buf_room(&o->head, HELLO_MAX - o->head.n + 1);
	ssize_t n = room ? recv(pass_client(o->pass), room, HELLO_MAX - o->head.n, MSG_DONTWAIT) : 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		o->head.n += (size_t)n;
		look(c);
	} else if (n == 0 && !c->tls && !waits_for_head(c)) {
		pass_other(c); // what there is, then the end
	} else {
		conn_end_error(c, n ? strerror(errno) : o->head.n ? "ended inside its first request" : NULL);
	}
}

void head_start(struct conn *c)
{
	struct conn_own *o = c->own;
	o->verdict = VERDICT_ALLOW;
	o->head = BUF_INIT(HELLO_MAX + 2);
	o->dialing.fn = on_dialed;
	bool waits = waits_for_head(c);
	if (!waits)
		conn_set_head(c, false);
	timer_set(&c->g->loop, &o->timer, waits ? GATE_HEAD_MS : GATE_FIRST_MS);
	pass_listen(o->pass, true);
}

// The client does not speak first: the host may.
void head_silent(struct conn *c)
{
	dial(c);
}

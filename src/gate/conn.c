// SPDX-License-Identifier: Apache-2.0
#include "gate/conn.h"

#include "base/clock.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include "gate/conn_int.h"
#include "gate/dns.h"
#include "gate/open.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter_ipv4.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ACCEPTS 32	// before others get their turn
#define RELISTEN_MS 100 // when the kernel has no descriptor for us

// --- accepting ---

static void listen_again(struct gate *g)
{
	bool full = g->n_conns >= g->max_conns || g->n_heads >= GATE_HEADS;
	bool on = !full && g->n_opened < GATE_OPENED && !g->relisten.at_ms;
	if (full && !g->crowded.at_ms)
		timer_set(&g->loop, &g->crowded, GATE_CROWDED_MS);
	if (on == g->listening)
		return;
	g->listening = on;
	for (size_t i = 0; i < countof(g->listeners); i++)
		if (g->listeners[i].w.fd >= 0)
			loop_mod(&g->loop, &g->listeners[i].w, on ? LOOP_IN : 0);
}

static void on_relisten(struct timer *t)
{
	listen_again(container_of(t, struct gate, relisten));
}

// It has not said what it wants, or, where it need not, nothing at all.
static bool is_silent(const struct conn *c)
{
	const struct conn_own *o = c->own;
	return !o->judging.ask && !o->over && (o->in_head || (!o->opened && !o->head_seen));
}

// Every place is taken, and whoever holds one may do so on purpose: who has said nothing for a while leaves, so that
// others are served also while somebody connects as often as he can.
static void on_crowded(struct timer *t)
{
	struct gate *g = container_of(t, struct gate, crowded);
	uint64_t now = clock_ms();
	struct conn *next;
	for (struct conn *c = g->conns; c; c = next) {
		next = c->next;
		if (is_silent(c) && now - c->started_ms >= GATE_CROWDED_MS)
			conn_refuse(c, "connect", "no first bytes in time, and others wait");
	}
	if (g->n_heads >= GATE_HEADS || g->n_conns >= g->max_conns)
		timer_set(&g->loop, t, GATE_CROWDED_MS / 4);
}

void conn_set_head(struct conn *c, bool in_head)
{
	if (c->own->in_head == in_head)
		return;
	c->own->in_head = in_head;
	c->g->n_heads += in_head ? 1 : (size_t)-1;
	listen_again(c->g);
}

void conn_set_opened(struct conn *c)
{
	c->own->opened = true;
	c->g->n_opened++;
	listen_again(c->g);
}

// --- ending ---

static void conn_drop(void *p)
{
	struct conn *c = p;
	struct conn_own *o = c->own;
	buf_done(&o->head);
	ssh_seen_free(o->ssh);
	free(o->why);
	free(o->error);
	free(c->sni);
	free(c->rule);
	free(c->exec);
	free(c->command);
	free(o);
	free(c);
}

static void tell_end(struct conn *c)
{
	auto_buf struct buf b = BUF_INIT(16 << 10);
	struct jsonw w = {.b = &b};
	jw_kstr(&w, "verdict", verdict_name(c->own->verdict));
	jw_kstr(&w, "rule", c->rule);
	jw_kbool(&w, "tls", c->tls);
	jw_kstr(&w, "sni", c->sni);
	jw_ku64(&w, "bytes_in", c->bytes_in);
	jw_ku64(&w, "bytes_out", c->bytes_out);
	jw_ku64(&w, "ms", clock_ms() - c->started_ms);
	jw_kstr(&w, "error", c->own->error);
	gate_event(c->g, c, "net.request", &b);
}

static void conn_gone(struct conn *c)
{
	struct gate *g = c->g;
	struct conn_own *o = c->own;
	o->who_pending = false;
	events_release(c);
	if (!c->requests)
		tell_end(c);
	conn_set_head(c, false);
	timer_clear(&g->loop, &o->timer);
	if (o->synthetic)
		dns_names_release(dns_table(g), o->synthetic);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	g->n_conns--;
	g->n_opened -= o->opened;
	listen_again(g);
	loop_bury(&g->loop, c, conn_drop);
}

// Two more processes wake up for it. So where nothing else depends on the answer it is asked when the host has the first
// bytes: then we would only wait for the host's.
void conn_ask_who(struct conn *c)
{
	struct conn_own *o = c->own;
	auto_buf struct buf b = BUF_INIT(64);
	if (o->who_asked)
		return;
	o->who_asked = true;
	struct range from = addr_range(&o->source), to = addr_range(&o->dialled);
	wire_u32(&b, c->source_port);
	wire_bytes(&b, from.net, from.bits / 8);
	wire_bytes(&b, to.net, to.bits / 8);
	wire_u32(&b, c->port);
	o->who_pending = chan_send_buf(&c->g->cell, M_WHO, c->id, &b);
}

// The sockets are closed. The event waits a moment for the name of the command.
static void conn_end(struct conn *c)
{
	struct conn_own *o = c->own;
	conn_ask_who(c);
	judging_done(&o->judging);
	dialing_cancel(&o->dialing);
	if (o->pass)
		pass_free(take(&o->pass), o->verdict == VERDICT_DENY || o->error ? PASS_RESET : PASS_CLOSE);
	conn_set_head(c, false);
	buf_done(&o->head);
	o->over = true;
	if (o->who_pending)
		timer_set(&c->g->loop, &o->timer, GATE_WHO_MS);
	else
		conn_gone(c);
}

void conn_end_error(struct conn *c, const char *error)
{
	free(c->own->error);
	c->own->error = error ? xstrdup(error) : NULL;
	conn_end(c);
}

void conn_closed(struct conn *c, const char *error)
{
	conn_end_error(c, error);
}

static void refuse_now(struct conn *c)
{
	struct conn_own *o = c->own;
	const char *rule = c->rule;
	gate_denied(c->g, c, o->what, o->why, rule);
	conn_end(c);
}

// The client stays connected until it is known who it is: its socket is what the answer is found by.
void conn_refuse(struct conn *c, const char *what, const char *why)
{
	struct conn_own *o = c->own;
	if (o->what)
		return;
	conn_ask_who(c);
	o->what = what;
	o->why = xstrdup(why);
	o->verdict = VERDICT_DENY;
	dialing_cancel(&o->dialing);
	if (!o->who_pending) {
		refuse_now(c);
		return;
	}
	pass_listen(o->pass, false);
	timer_set(&c->g->loop, &o->timer, GATE_WHO_MS);
}

static void on_pass_end(struct conn *c, const char *error)
{
	struct conn_own *o = c->own;
	if (!o->what && o->scan.state == SCAN_REQUEST) {
		o->what = "connect";
		o->why = xstrdup("an HTTP request whose first line is malformed");
		o->verdict = VERDICT_DENY;
	}
	if (o->what) // it would not wait for the refusal
		refuse_now(c);
	else
		conn_end_error(c, error);
}

static const struct pass_calls calls = {head_read, on_pass_end};

static void on_verdict(struct judging *j, enum verdict v)
{
	struct conn *c = j->c;
	free(c->rule);
	c->rule = take(&j->rule);
	if (v == VERDICT_ALLOW)
		head_start(c);
	else
		conn_refuse(c, "connect", j->why);
}

static void on_timer(struct timer *t)
{
	struct conn *c = container_of(t, struct conn_own, timer)->c;
	struct conn_own *o = c->own;
	o->who_pending &= !o->what && !o->over; // then it was the answer that took too long
	if (o->over)
		conn_gone(c);
	else if (o->what)
		refuse_now(c);
	else if (!o->in_head)
		head_silent(c);
	else
		conn_refuse(c, "connect", "no whole first request in time");
}

// --- a new one ---

static bool is_synthetic(const union addr *a)
{
	return a->sa.sa_family == AF_INET && (ntohl(a->v4.sin_addr.s_addr) ^ DNS_NET) >> DNS_NET_BITS == 0;
}

// What the client dialled: the socket's own address where the listener takes all of the net, or what was redirected.
static void find_dialled(int fd, bool wide, union addr *out)
{
	socklen_t n = sizeof *out;
	*out = (union addr){0};
	if (!getsockname(fd, &out->sa, &n) && (wide || is_synthetic(out)))
		return;
	n = sizeof out->v4;
	if (getsockopt(fd, SOL_IP, SO_ORIGINAL_DST, &out->v4, &n))
		out->sa.sa_family = 0;
}

static struct conn *conn_new(struct gate *g, int fd, const union addr *source)
{
	struct conn *c = xcalloc(1, sizeof *c);
	struct conn_own *o = xcalloc(1, sizeof *o);
	*o = (struct conn_own){.c = c, .timer.fn = on_timer, .source = *source};
	o->judging = (struct judging){.fn = on_verdict, .quiet = true};
	c->g = g;
	c->own = o;
	c->id = ++g->last_id ? g->last_id : ++g->last_id;
	c->started_ms = clock_ms();
	c->source_port = addr_port(source);
	o->pass = pass_new(c, fd, &calls);
	c->next = g->conns;
	if (c->next)
		c->next->link = &c->next;
	c->link = &g->conns;
	g->conns = c;
	g->n_conns++;
	conn_set_head(c, true);
	return c;
}

// Whom it is for: the name that the address was given out for, or the address itself. False: neither.
static bool find_host(struct conn *c)
{
	struct conn_own *o = c->own;
	struct dns_names *names = dns_table(c->g);
	if (!is_synthetic(&o->dialled)) {
		struct range a = addr_range(&o->dialled);
		addr_print(&o->dialled, c->address);
		c->literal = c->g->wide && a.family;
		if (c->literal)
			host_of_range(&a, &c->host);
		return c->literal;
	}
	uint32_t address = ntohl(o->dialled.v4.sin_addr.s_addr);
	const struct host_name *name = dns_names_find(names, address);
	if (!name) {
		addr_print(&o->dialled, c->address);
		return false;
	}
	c->host = *name;
	o->synthetic = address;
	dns_names_hold(names, address);
	return true;
}

static void conn_accept(struct gate *g, int fd, const union addr *source, bool wide)
{
	struct conn *c = conn_new(g, fd, source);
	find_dialled(fd, wide, &c->own->dialled);
	c->port = addr_port(&c->own->dialled);
	if (!find_host(c)) {
		conn_refuse(c, "connect", "this address stands for no name");
		return;
	}
	enum verdict v = gate_judge(c, &c->own->judging, NULL, NULL);
	if (v == VERDICT_ASK) {
		conn_ask_who(c);
		pass_listen(c->own->pass, false);
	} else {
		if (v == VERDICT_ALLOW)
			c->address[0] = 0; // noted again when there is a connection to it
		on_verdict(&c->own->judging, v);
	}
}

static void on_accept(struct watch *w, uint32_t events)
{
	struct listener *l = container_of(w, struct listener, w);
	struct gate *g = l->g;
	(void)events;
	for (int i = 0; i < ACCEPTS && g->listening; i++) {
		union addr source = {0};
		socklen_t n = sizeof source;
		int fd = accept4(w->fd, &source.sa, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			conn_accept(g, fd, &source, l != &g->listeners[0]);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			timer_set(&g->loop, &g->relisten, RELISTEN_MS);
			listen_again(g);
		}
		return;
	}
}

static int listener_watch(struct listener *l, bool on, struct err *e)
{
	if (!on || l->fd < 0) {
		loop_del(&l->g->loop, &l->w);
		return 0;
	}
	return l->w.fd < 0 ? loop_add(&l->g->loop, &l->w, l->fd, l->g->listening ? LOOP_IN : 0, e) : 0;
}

// The supervisor lets the wide ones listen by the same policy; one that does not would only tell of its end, for ever.
static int watch_wide(struct gate *g, struct err *e)
{
	g->wide = policy_has_ranges(&g->policy);
	return listener_watch(&g->listeners[1], g->wide, e) || listener_watch(&g->listeners[2], g->wide, e) ? -1 : 0;
}

int conn_serve(struct gate *g, const int fds[3], struct err *e)
{
	g->relisten.fn = on_relisten;
	g->crowded.fn = on_crowded;
	g->listening = true;
	for (int i = 0; i < 3; i++) {
		g->listeners[i] = (struct listener){.w = {.fd = -1, .fn = on_accept}, .g = g, .fd = fds[i]};
		if (fds[i] < 0)
			continue;
		if (fcntl(fds[i], F_SETFL, O_NONBLOCK))
			return err_sys(e, "make the listener non-blocking");
		gate_tune(fds[i]); // what is accepted inherits it
	}
	return listener_watch(&g->listeners[0], true, e) || watch_wide(g, e) ? -1 : 0;
}

// --- told from outside ---

void conn_who(struct gate *g, const struct frame *f)
{
	struct wire w = {f->p, f->n, false};
	struct conn *c = g->conns;
	while (c && c->id != f->id)
		c = c->next;
	if (!c || !c->own->who_pending)
		return;
	c->own->who_pending = false;
	c->pid = wire_get_u32(&w);
	c->exec = wire_get_str(&w);
	c->command = wire_get_str(&w);
	events_release(c);
	if (c->own->over)
		conn_gone(c);
	else if (c->own->what)
		refuse_now(c);
}

static const char *no_longer(const struct conn *c, const struct rule **why)
{
	const struct policy *p = &c->g->policy;
	enum verdict v = policy_judge(p, &(struct request){&c->host, c->port, NULL, NULL}, why);
	if (v != VERDICT_ALLOW && !(v == VERDICT_ASK && c->answered))
		return "the new policy does not allow it";
	if (!c->own->opened && c->own->head_seen && policy_opens(p, &c->host, c->port))
		return "the new policy wants it opened";
	if (c->upstream.sa.sa_family && gate_address_fault(c, &c->upstream))
		return "the new policy does not let it have its address";
	return NULL;
}

void conn_policy(struct gate *g)
{
	struct conn *next;
	struct err e;
	if (watch_wide(g, &e))
		log_line(LOG_ERROR, "sandbox=%s %s", g->sandbox, e.msg);
	for (struct conn *c = g->conns; c; c = next) {
		struct conn_own *o = c->own;
		const struct rule *why = NULL;
		next = c->next;
		const char *no = o->over || o->what || o->judging.ask ? NULL : no_longer(c, &why);
		if (!no && o->opened)
			opened_policy(c);
		if (!no)
			continue;
		o->verdict = VERDICT_DENY;
		if (!o->opened) {
			conn_refuse(c, "policy", no);
			continue;
		}
		gate_denied(g, c, "policy", no, c->rule);
		c->stop(c, no);
	}
}

void conn_end_all(struct gate *g)
{
	struct conn *next;
	for (struct conn *c = g->conns; c; c = next) {
		next = c->next;
		c->own->who_asked = true; // nobody hears it any more
		c->own->who_pending = false; // the answer has no way to come
		if (c->own->over)
			conn_gone(c);
		else if (c->own->opened)
			c->stop(c, "the sandbox ended");
		else
			conn_end_error(c, "the sandbox ended");
	}
}

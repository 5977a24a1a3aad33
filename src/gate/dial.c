// SPDX-License-Identifier: Apache-2.0
// "Where to": from a connection's name to a connected socket. Each address is judged here, and the socket is connected
// to that very address: there is no second resolution between the look and the use. A rule that names an address is the
// user's word: nothing is resolved then, and only a range that denies stands above it. An address that was dialled as it is
// is judged and connected to in the same way.
//
// Addresses are tried one after the other, the next one already when the last has not answered within STAGGER_MS.
#include "gate/conn_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "gate/resolve.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAGGER_MS 300

struct attempt {
	struct watch w;
	struct dial *dial;
	union addr a;
};

struct dial {
	struct gate *g;
	struct dialing *d;
	struct resolving resolving;
	union addr list[RESOLVE_ADDRESSES];
	size_t n, next; // next: of list, not tried yet
	struct attempt tries[GATE_ADDRESSES];
	size_t n_tries;
	struct timer stagger, deadline;
	uint32_t policy; // the one that judged (gate.policies)
	struct err err;	 // why it failed so far
};

static void dial_drop(void *p)
{
	free(p);
}

// Leaves nothing behind; an attempt that won was taken out before.
static void dial_end(struct dial *d)
{
	struct loop *l = &d->g->loop;
	resolving_cancel(&d->resolving);
	timer_clear(l, &d->stagger);
	timer_clear(l, &d->deadline);
	for (size_t i = 0; i < d->n_tries; i++) {
		int fd = d->tries[i].w.fd;
		loop_del(l, &d->tries[i].w);
		close_fd(&fd);
	}
	d->d->dial = NULL;
	loop_bury(l, d, dial_drop);
}

static void give_up(struct dial *d)
{
	struct dialing *owner = d->d;
	struct err e = d->err;
	dial_end(d);
	owner->fn(owner, -1, &e);
}

static void succeed(struct dial *d, struct attempt *t)
{
	struct dialing *owner = d->d;
	struct conn *c = owner->c;
	int fd = t->w.fd;
	loop_del(&d->g->loop, &t->w);
	c->upstream = t->a;
	addr_print(&t->a, c->address);
	dial_end(d);
	owner->fn(owner, fd, NULL);
}

static void try_next(struct dial *d);

static bool is_trying(const struct dial *d)
{
	for (size_t i = 0; i < d->n_tries; i++)
		if (d->tries[i].w.fd >= 0)
			return true;
	return false;
}

static void note_failure(struct dial *d, const union addr *a, int sys)
{
	char text[INET6_ADDRSTRLEN];
	addr_print(a, text);
	errno = sys;
	err_sys(&d->err, "connect to %s", text);
	d->err.kind = sys == ETIMEDOUT ? ERR_TIMEOUT : ERR_UNAVAILABLE;
}

static const char denied[] = "denied by a rule";

static void deny(struct dial *d, const union addr *a, const char *why)
{
	struct conn *c = d->d->c;
	char bad[INET6_ADDRSTRLEN];
	addr_print(a, bad);
	auto_free char *text = c->literal ? xasprintf("the address is %s", why)
					  : xasprintf("the name has the address %s (%s)%s", bad, why, why == denied ? "" : ", which no rule names");
	gate_denied(d->g, c, "address", text, c->rule);
	err_set(&d->err, ERR_DENIED, "%s", text);
}

// The policy may have changed since the address was judged.
static const char *new_fault(const struct dial *d, const union addr *a)
{
	return d->policy == d->g->policies ? NULL : gate_address_fault(d->d->c, a);
}

static void on_attempt(struct watch *w, uint32_t events)
{
	struct attempt *t = container_of(w, struct attempt, w);
	struct dial *d = t->dial;
	int sys = 0, fd = w->fd;
	socklen_t n = sizeof sys;
	(void)events;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys, &n))
		sys = errno;
	const char *no = new_fault(d, &t->a);
	if (!sys && !no) {
		succeed(d, t);
		return;
	}
	if (no)
		deny(d, &t->a, no);
	else
		note_failure(d, &t->a, sys);
	loop_del(&d->g->loop, w);
	close_fd(&fd);
	try_next(d);
}

// Starts one. -1 when it failed at once, with the reason noted.
static int attempt_start(struct dial *d, struct attempt *t, const union addr *a)
{
	struct err e;
	const char *no = new_fault(d, a);
	*t = (struct attempt){.w = {.fd = -1, .fn = on_attempt}, .dial = d, .a = *a};
	if (no) {
		deny(d, a, no);
		return -1;
	}
	auto_fd int fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || (connect(fd, &a->sa, addr_len(a)) && errno != EINPROGRESS)) {
		note_failure(d, a, errno);
		return -1;
	}
	gate_tune(fd); // while the answer is on its way
	if (loop_add(&d->g->loop, &t->w, fd, LOOP_OUT, &e))
		return -1;
	take_fd(&fd);
	return 0;
}

// The next address; those that fail at once (no route for the family) do not count.
static void try_next(struct dial *d)
{
	while (d->next < d->n && d->n_tries < GATE_ADDRESSES) {
		if (attempt_start(d, &d->tries[d->n_tries], &d->list[d->next++]))
			continue;
		d->n_tries++;
		timer_set(&d->g->loop, &d->stagger, STAGGER_MS);
		timer_set(&d->g->loop, &d->deadline, GATE_CONNECT_MS);
		return;
	}
	if (!is_trying(d))
		timer_set(&d->g->loop, &d->deadline, 0); // from the loop: the caller may still be inside gate_connect
}

static void on_stagger(struct timer *t)
{
	struct dial *d = container_of(t, struct dial, stagger);
	if (d->next < d->n && d->n_tries < GATE_ADDRESSES)
		try_next(d);
}

static void on_deadline(struct timer *t)
{
	struct dial *d = container_of(t, struct dial, deadline);
	if (is_trying(d))
		note_failure(d, &d->tries[d->n_tries - 1].a, ETIMEDOUT);
	give_up(d);
}

static void fail_soon(struct dial *d)
{
	timer_set(&d->g->loop, &d->deadline, 0);
}

static bool is_named(const struct conn *c, const union addr *a)
{
	const char *named = policy_address(&c->g->policy, &c->host, c->port);
	union addr n;
	struct err e;
	return named && !addr_parse(named, 0, &n, &e) && addr_equal(&n, a);
}

// Ranges are asked whether the address was dialled as it is or came from a name: a range that denies holds for both, and
// one that names what is not public gives a name no more than whoever dials the address has anyway.
const char *gate_address_fault(const struct conn *c, const union addr *a)
{
	const struct policy *p = &c->g->policy;
	struct range one = addr_range(a);
	struct host_name text;
	const struct rule *why = NULL;
	host_of_range(&one, &text);
	bool allowed = policy_judge(p, &(struct request){&text, c->port, NULL, NULL}, &why) == VERDICT_ALLOW;
	if (why && why->deny)
		return denied;
	if (is_named(c, a))
		return NULL;
	const char *kind = addr_not_public(a);
	if (kind && !allowed && !(policy_is_mirror(p, &c->host, c->port) && addr_is_inside(a)))
		return kind;
	return addr_is_own(a) && !(allowed && range_is_one(&why->range)) ? "this machine's own" : NULL;
}

// Keeps the addresses that a cell may be connected to. When none is left the reason is told.
static void judge_all(struct dial *d, const struct answer *a)
{
	const char *why = NULL;
	const union addr *bad = NULL;
	struct conn *c = d->d->c;
	d->policy = d->g->policies;
	for (size_t i = 0; i < a->n; i++) {
		const char *no = gate_address_fault(c, &a->a[i]);
		if (!no) {
			d->list[d->n] = a->a[i];
			addr_set_port(&d->list[d->n++], c->port);
		} else if (!why) {
			why = no;
			bad = &a->a[i];
		}
	}
	if (!d->n)
		deny(d, bad, why);
}

static void on_resolved(struct resolving *r, const struct answer *a, const struct err *e)
{
	struct dial *d = container_of(r, struct dial, resolving);
	if (a)
		judge_all(d, a);
	else
		d->err = *e;
	if (d->n)
		try_next(d);
	else
		fail_soon(d);
}

void gate_connect(struct conn *c, struct dialing *owner)
{
	struct dial *d = xcalloc(1, sizeof *d);
	const char *named = policy_address(&c->g->policy, &c->host, c->port);
	owner->c = c;
	owner->dial = d;
	d->g = c->g;
	d->d = owner;
	d->stagger.fn = on_stagger;
	d->deadline.fn = on_deadline;
	d->resolving.fn = on_resolved;
	struct answer known = {.n = 1};
	if (c->literal)
		known.a[0] = c->own->dialled;
	else if (!named) {
		resolver_ask(c->g->resolver, &c->host, &d->resolving);
		return;
	} else if (addr_parse(named, c->port, &known.a[0], &d->err)) {
		fail_soon(d);
		return;
	}
	judge_all(d, &known);
	if (d->n)
		try_next(d);
	else
		fail_soon(d);
}

void dialing_cancel(struct dialing *owner)
{
	if (owner->dial)
		dial_end(owner->dial);
}

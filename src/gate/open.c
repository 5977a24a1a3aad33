// SPDX-License-Identifier: Apache-2.0
// Life of an opened connection. TLS: the ClientHello is read and held; the host is dialled and its certificate
// checked; only then the client gets a certificate for it and the protocol the host chose. A host that can not be
// reached is told to the client in HTTP where it speaks that, so that the tool shows a reason and not a broken
// connection. Plain: the request is read and judged first, then the host is dialled.
#include "gate/open.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "gate/open_int.h"
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#define SECURE_HEAP (256u << 10) // keys and the forms of secret values
#define DIAL_MS (GATE_CONNECT_MS * GATE_ADDRESSES + 5000)
#define H2 "h2"
#define H1 "http/1.1"

static struct opened_all *all_of(const struct opened *o)
{
	return o->g->opened;
}

int opened_init(struct gate *g, struct err *e)
{
	struct opened_all *all = xcalloc(1, sizeof *all);
	uint8_t seed;
	g->opened = all;
	CRYPTO_secure_malloc_init(SECURE_HEAP,
				  16); // without locked memory: the ordinary heap of a process that dumps no core
	if (tls_ctx_init(&all->ctx, getenv("SKEP_CA_FILE"), e))
		return -1;
	return RAND_bytes(&seed, 1) == 1 ? 0 : err_set(e, ERR_SYSTEM, "no random numbers");
}

void opened_done(struct gate *g)
{
	struct opened_all *all = g->opened;
	if (!all)
		return;
	mask_set_put(all->masks);
	ca_free(all->ca);
	tls_ctx_done(&all->ctx);
	free(all);
	g->opened = NULL;
}

static void digest_of(const struct secret_value *v, uint8_t out[32])
{
	struct sha256 s;
	sha256_init(&s);
	sha256_add(&s, v->value, v->n);
	sha256_end(&s, out);
	explicit_bzero(&s, sizeof s);
}

static bool still_has(const struct gate *g, const struct used_secret *u)
{
	const struct secrets *s = gate_secrets(g);
	for (size_t i = 0; i < s->n; i++) {
		uint8_t digest[32];
		digest_of(&s->v[i], digest);
		if (!strcmp(s->v[i].name, u->name) && !memcmp(digest, u->digest, sizeof digest))
			return true;
	}
	return false;
}

static bool is_revoked(const struct opened *o)
{
	for (size_t i = 0; i < o->n_used; i++)
		if (!still_has(o->g, &o->used[i]))
			return true;
	return false;
}

int opened_secrets(struct gate *g, struct err *e)
{
	struct opened_all *all = g->opened;
	const struct secrets *s = gate_secrets(g);
	mask_set_put(all->masks);
	all->masks = NULL;
	all->masks_made = false;
	for (struct opened *o = all->list, *next; o; o = next) {
		next = o->next;
		if (is_revoked(o))
			o->c->stop(o->c, "a secret was revoked");
	}
	if (!g->ca_cert || !*g->ca_cert || !s->ca_key || !*s->ca_key)
		return 0;
	struct ca *ca = ca_new(g->ca_cert, s->ca_key, e);
	if (!ca)
		return -1;
	ca_free(all->ca); // OpenSSL's own references keep what a handshake under way still needs
	all->ca = ca;
	return 0;
}

void opened_policy(struct conn *c)
{
	struct opened *o = c->opened;
	if (o && o->d)
		o->driver->policy(o->d);
}

void opened_used(struct opened *o, const struct swap_used *u)
{
	struct used_secret one;
	digest_of(u->value, one.digest);
	for (size_t i = 0; i < o->n_used; i++)
		if (!strcmp(o->used[i].name, u->ref->name) && !memcmp(o->used[i].digest, one.digest, sizeof one.digest))
			return;
	one.name = xstrdup(u->ref->name);
	o->used = xrealloc(o->used, (o->n_used + 1) * sizeof *o->used);
	o->used[o->n_used++] = one;
}

struct swap opened_swap(const struct opened *o)
{
	const struct secrets *s = gate_secrets(o->g);
	return (struct swap){&o->g->policy, s->v, s->n, &o->c->host, o->c->port, o->verified};
}

struct mask_set *opened_masks(struct opened *o)
{
	struct opened_all *all = all_of(o);
	const struct secrets *s = gate_secrets(o->g);
	if (!all->masks_made)
		all->masks = mask_set_new(s->v, s->n);
	all->masks_made = true;
	return mask_set_get(all->masks);
}

static void opened_free(void *obj)
{
	struct opened *o = obj;
	if (o->d)
		o->driver->free(o->d);
	for (size_t i = 0; i < o->n_used; i++)
		free(o->used[i].name);
	free(o->used);
	free(o->error);
	free(o);
}

static void over(struct opened *o)
{
	if (o->over)
		return;
	o->over = true;
	if (o->d)
		o->driver->stop(o->d);
	tls_abort(&o->client);
	tls_abort(&o->server);
	dialing_cancel(&o->dialing);
	timer_clear(&o->g->loop, &o->timer);
	*o->link = o->next;
	if (o->next)
		o->next->link = o->link;
	o->c->opened = NULL;
	conn_closed(o->c, o->error);
	loop_bury(&o->g->loop, o, opened_free);
}

static void stop(struct conn *c, const char *why)
{
	(void)why; // whoever stops it has told it
	if (c->opened)
		over(c->opened);
}

void opened_finish(struct opened *o, bool broken)
{
	if (o->over)
		return;
	tls_abort(&o->server);
	if (o->client.state == TLS_CLOSED || o->client.state == TLS_NONE)
		over(o);
	else
		tls_finish(&o->client, broken);
}

void opened_late(struct opened *o, uint64_t ms, bool fixed)
{
	o->last_ms = clock_ms();
	o->limit_ms = ms;
	o->fixed = fixed;
	timer_set(&o->g->loop, &o->timer, ms);
}

static void moved(struct opened *o)
{
	if (!o->fixed)
		o->last_ms = clock_ms();
}

static void drive(struct opened *o, const struct driver *driver)
{
	o->driver = driver;
	o->d = driver->start(o);
	tls_pause(&o->server, false);
}

// The host is out of reach. Whoever speaks HTTP/1.1 is told so there; everybody else sees the handshake fail.
static void fail(struct opened *o, enum refusal why, const char *error)
{
	struct err e;
	struct opened_all *all = all_of(o);
	o->failed = why;
	free(o->error);
	o->error = xstrdup(error);
	tls_abort(&o->server);
	if (!o->tls) {
		o->driver->dialled(o->d);
		return;
	}
	if (o->client.state != TLS_HELD) {
		opened_finish(o, true);
		return;
	}
	opened_late(o, GATE_HEAD_MS, true);
	if (!all->ca || (tls_has_alpn(&o->client) && !tls_offers(&o->client, H1)) ||
	    tls_answer(&o->client, all->ca, &o->c->host, H1, &e))
		tls_refuse(&o->client);
}

static void client_hello(struct tls *t)
{
	struct opened *o = container_of(t, struct opened, client);
	opened_late(o, DIAL_MS + GATE_HEAD_MS, true);
	if (!all_of(o)->ca) {
		gate_denied(o->g, o->c, "connect", "this sandbox has no certificate authority: TLS can not be opened",
			    NULL);
		tls_refuse(t);
	} else if (tls_has_alpn(t) && !tls_offers(t, H1) && !tls_offers(t, H2)) {
		gate_denied(o->g, o->c, "connect", "the client speaks no HTTP", NULL);
		tls_refuse(t);
	} else {
		gate_connect(o->c, &o->dialing);
	}
}

static void client_ready(struct tls *t)
{
	struct opened *o = container_of(t, struct opened, client);
	drive(o, !o->failed && tls_chose(t, H2) ? &h2_driver : &h1_driver);
}

static void client_data(struct tls *t, const char *p, size_t n)
{
	struct opened *o = container_of(t, struct opened, client);
	moved(o);
	if (o->d)
		o->driver->client_data(o->d, p, n);
}

static void client_drain(struct tls *t)
{
	struct opened *o = container_of(t, struct opened, client);
	moved(o);
	if (o->d)
		o->driver->client_drain(o->d);
}

static void client_end(struct tls *t, bool clean)
{
	struct opened *o = container_of(t, struct opened, client);
	if (clean && o->d)
		o->driver->client_end(o->d, true);
	else
		over(o);
}

static void client_gone(struct tls *t)
{
	over(container_of(t, struct opened, client));
}

static void server_ready(struct tls *t)
{
	struct opened *o = container_of(t, struct opened, server);
	struct err e;
	const char *protocol = tls_chose(t, H2) ? H2 : H1;
	o->verified = true;
	tls_pause(
		t,
		true); // with HTTP/2 it speaks at once; nobody is there to listen before the client's handshake is over
	opened_late(o, GATE_HEAD_MS, true);
	if (tls_has_alpn(&o->client) && !tls_offers(&o->client, protocol)) {
		fail(o, REFUSE_REACH, "the host speaks another protocol than the client");
		return;
	}
	if (!tls_answer(&o->client, all_of(o)->ca, &o->c->host, protocol, &e))
		return;
	gate_denied(o->g, o->c, "connect", e.msg, NULL);
	tls_refuse(&o->client);
}

static void server_data(struct tls *t, const char *p, size_t n)
{
	struct opened *o = container_of(t, struct opened, server);
	moved(o);
	o->driver->server_data(o->d, p, n); // there is a driver: until then the stream is paused
}

static void server_drain(struct tls *t)
{
	struct opened *o = container_of(t, struct opened, server);
	moved(o);
	if (o->d)
		o->driver->server_drain(o->d);
}

static void server_end(struct tls *t, bool clean)
{
	struct opened *o = container_of(t, struct opened, server);
	const char *bad = tls_verify_error(t);
	if (o->d) {
		o->driver->server_end(o->d, clean);
		return;
	}
	auto_free char *why = bad ? xasprintf("certificate: %s", bad) : xstrdup("the host ended the TLS handshake");
	if (bad)
		gate_denied(o->g, o->c, "connect", why, NULL);
	fail(o, bad ? REFUSE_CERT : REFUSE_REACH, why);
}

static void server_gone(struct tls *t)
{
	(void)t; // the host's end is never finished, only aborted
}

static const struct tls_ops client_ops = {client_hello, client_ready, client_data,
					  client_drain, client_end,   client_gone};
static const struct tls_ops server_ops = {NULL, server_ready, server_data, server_drain, server_end, server_gone};

static void on_late(struct timer *t)
{
	struct opened *o = container_of(t, struct opened, timer);
	uint64_t now = clock_ms(), at = o->last_ms + o->limit_ms;
	if (now < at) {
		timer_set(&o->g->loop, t, at - now);
		return;
	}
	dialing_cancel(&o->dialing);
	if (o->client.state == TLS_HELD && !o->failed)
		fail(o, REFUSE_REACH, "the host did not answer in time");
	else
		opened_finish(o, o->d && !o->driver->is_idle(o->d));
}

static void on_dialled(struct dialing *d, int fd, const struct err *why)
{
	struct opened *o = container_of(d, struct opened, dialing);
	struct err e;
	if (fd < 0) { // the journal has why; the client gets constant text
		fail(o, why->kind == ERR_DENIED ? REFUSE_ADDRESS : REFUSE_REACH, why->msg);
		return;
	}
	if (!o->tls) {
		if (tls_plain(&o->server, &o->g->loop, fd, (struct str){NULL, 0}, &e))
			fail(o, REFUSE_REACH, e.msg);
		else
			o->driver->dialled(o->d);
		return;
	}
	bool any = tls_has_alpn(&o->client);
	struct tls_offer offer = {.name = &o->c->host, .h2 = any && tls_offers(&o->client, H2), .h1 = !any || tls_offers(&o->client, H1)};
	opened_late(o, GATE_HEAD_MS, true);
	if (tls_connect(&o->server, &all_of(o)->ctx, &o->g->loop, fd, offer, &e))
		fail(o, REFUSE_REACH, e.msg);
}

void opened_dial(struct opened *o)
{
	gate_connect(o->c, &o->dialing);
}

void opened_start(struct gate *g, int client_fd, const void *first, size_t n, const struct host_name *host,
		  uint16_t port, bool tls, struct conn *c)
{
	struct opened *o = xcalloc(1, sizeof *o);
	struct opened_all *all = g->opened;
	struct err e;
	struct str bytes = {first, n};
	(void)host, (void)port; // c has both
	*o = (struct opened){.g = g, .c = c, .tls = tls, .next = all->list, .link = &all->list};
	o->dialing.fn = on_dialled;
	o->timer.fn = on_late;
	o->client.ops = &client_ops;
	o->server.ops = &server_ops;
	o->server.in_count = &c->bytes_in;
	o->server.out_count = &c->bytes_out;
	if (o->next)
		o->next->link = &o->next;
	all->list = o;
	c->opened = o;
	c->stop = stop;
	opened_late(o, GATE_HEAD_MS, true);
	int rc = tls ? tls_accept(&o->client, &all->ctx, &g->loop, client_fd, bytes, &e)
		     : tls_plain(&o->client, &g->loop, client_fd, bytes, &e);
	if (rc)
		opened_late(o, 0, true); // ends from the loop, as every connection does
	else if (!tls)
		drive(o, &h1_driver);
}

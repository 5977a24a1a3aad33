// SPDX-License-Identifier: Apache-2.0
#include "gate/agent.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include "gate/conn_int.h"
#include "gate/ssh_key.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLIENTS 64		// at once; more wait to be accepted
#define MESSAGE_MAX (64u << 10) // a login is a few hundred bytes
#define EVENT_MAX (8u << 10)

// draft-miller-ssh-agent
enum { A_FAILURE = 5, A_SUCCESS = 6, A_LIST = 11, A_KEYS = 12, A_SIGN = 13, A_SIGNED = 14, A_EXTENSION = 27 };
enum { FLAG_SHA256 = 2, FLAG_SHA512 = 4 };

struct agent_key {
	char *name; // the secret's
	bool bad;   // could not be read: told once
	struct ssh_key key;
};

struct agent {
	struct gate *g;
	struct watch listener;
	struct agent_client *clients;
	size_t n_clients;
	struct agent_key keys[POLICY_SECRETS];
	size_t n_keys;
};

struct agent_client {
	struct agent *a;
	struct agent_client *next, **link;
	struct watch w;
	struct buf in, out;
	struct buf session; // bound to it, if not empty
	bool forwarded;	    // another machine speaks: never signed for
};

// --- keys ---

void agent_secrets(struct gate *g)
{
	struct agent *a = g->agent;
	for (size_t i = 0; a && i < a->n_keys; i++) {
		ssh_key_done(&a->keys[i].key);
		free(a->keys[i].name);
	}
	if (a)
		a->n_keys = 0;
}

static void tell(struct gate *g, const struct secret_ref *r, const char *why)
{
	auto_buf struct buf b = BUF_INIT(EVENT_MAX);
	struct jsonw w = {.b = &b};
	jw_kstr(&w, "what", "secret");
	jw_kstr(&w, "why", why);
	jw_kstr(&w, "place", "ssh");
	if (r) {
		jw_kstr(&w, "secret", r->name);
		jw_kstr(&w, "name", r->host.s);
		jw_ku64(&w, "port", r->port);
	}
	gate_event(g, NULL, "denied", &b);
}

static void load(struct gate *g, const struct secret_ref *r, struct agent_key *k)
{
	const struct secrets *s = gate_secrets(g);
	struct err e;
	k->bad = true;
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->v[i].name, r->name))
			k->bad = ssh_key_load(s->v[i].value, s->v[i].n, &k->key, &e) != 0;
	if (k->bad)
		tell(g, r, "the private key can not be read: set it again");
}

// The key of a secret, read now or before. NULL: it has none.
static const struct ssh_key *key_of(struct agent *a, const struct secret_ref *r)
{
	struct agent_key *k = NULL;
	if (r->as != SECRET_SSH)
		return NULL;
	for (size_t i = 0; i < a->n_keys && !k; i++)
		if (!strcmp(a->keys[i].name, r->name))
			k = &a->keys[i];
	if (!k) {
		if (a->n_keys == countof(a->keys))
			return NULL;
		k = &a->keys[a->n_keys++];
		*k = (struct agent_key){.name = xstrdup(r->name)};
		load(a->g, r, k);
	}
	return k->bad ? NULL : &k->key;
}

// --- whose session it is ---

static bool equal(struct ssh_text a, struct ssh_text b)
{
	return a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n));
}

static struct ssh_text text_of(const struct buf *b)
{
	return (struct ssh_text){(const uint8_t *)b->p, b->n};
}

// The connection to the host of this secret whose session has this id.
static struct conn *conn_of(const struct agent *a, const struct secret_ref *r, struct ssh_text session)
{
	for (struct conn *c = a->g->conns; c; c = c->next)
		if (!c->own->over && !c->own->what && c->port == r->port && host_equal(&c->host, &r->host) &&
		    ssh_seen_is(c->own->ssh, session))
			return c;
	return NULL;
}

// --- answers ---

static void answer(struct agent_client *k, const struct buf *body)
{
	ssh_put(&k->out, body->p, body->n);
}

static void answer_byte(struct agent_client *k, uint8_t type)
{
	auto_buf struct buf b = BUF_INIT(1);
	buf_byte(&b, (char)type);
	answer(k, &b);
}

// Once it is known which host it is about, only the keys bound to that one are shown.
static bool is_shown(const struct agent_client *k, const struct secret_ref *r)
{
	return !k->forwarded && (!k->session.n || conn_of(k->a, r, text_of(&k->session)));
}

static void list(struct agent_client *k)
{
	const struct policy *p = &k->a->g->policy;
	auto_buf struct buf b = BUF_INIT(MESSAGE_MAX), keys = BUF_INIT(MESSAGE_MAX);
	uint32_t n = 0;
	for (size_t i = 0; i < p->n_secrets; i++) {
		const struct ssh_key *key = key_of(k->a, &p->secrets[i]);
		if (!key || !is_shown(k, &p->secrets[i]))
			continue;
		ssh_put(&keys, key->blob.p, key->blob.n);
		ssh_put_str(&keys, p->secrets[i].name);
		n++;
	}
	buf_byte(&b, A_KEYS);
	ssh_put_u32(&b, n);
	buf_add(&b, n ? keys.p : "", keys.n);
	if (b.overflow || keys.overflow)
		answer_byte(k, A_FAILURE);
	else
		answer(k, &b);
}

static void tell_used(struct conn *c, const struct secret_ref *r, const struct ssh_login *l)
{
	static const char hex[] = "0123456789abcdef";
	uint8_t hash[SHA256_DIGEST_LENGTH];
	char print[2 * sizeof hash + 1] = "";
	auto_buf struct buf b = BUF_INIT(EVENT_MAX);
	struct jsonw w = {.b = &b};
	struct ssh_text key = ssh_seen_key(c->own->ssh);
	SHA256(key.p, key.n, hash);
	for (size_t i = 0; i < sizeof hash; i++) {
		print[2 * i] = hex[hash[i] >> 4];
		print[2 * i + 1] = hex[hash[i] & 15];
	}
	auto_free char *user = xstrndup((const char *)l->user.p, l->user.n > 64 ? 64 : l->user.n);
	jw_kstr(&w, "secret", r->name);
	jw_kstr(&w, "host", r->host.s);
	jw_kstr(&w, "place", "ssh");
	jw_kstr(&w, "user", user);
	jw_kstr(&w, "host_key_sha256", print);
	gate_event(c->g, c, "secret.used", &b);
}

// What the client said beside the data must be what the data says.
static bool flags_fit(const struct ssh_key *key, const struct ssh_login *l, uint32_t flags)
{
	if (strcmp(key->type, "ssh-rsa"))
		return ssh_is(l->alg, key->type);
	return ssh_is(l->alg, flags & FLAG_SHA512 ? "rsa-sha2-512" : flags & FLAG_SHA256 ? "rsa-sha2-256" : "");
}

// NULL: signed. Else why not.
static const char *sign_for(struct agent_client *k, const struct secret_ref *r, const struct ssh_login *l,
			    struct ssh_text data, struct buf *out)
{
	struct err e;
	struct conn *c = conn_of(k->a, r, l->session);
	if (k->forwarded)
		return "another machine asked, through a forwarded agent";
	if (k->session.n && !equal(text_of(&k->session), l->session))
		return "another session than the one this client is bound to";
	if (!c)
		return "no connection of this sandbox to that host has this session";
	if (l->host_key.p && !equal(l->host_key, ssh_seen_key(c->own->ssh)))
		return "it names another host's key";
	if (ssh_key_sign(key_of(k->a, r), l->alg, data, out, &e))
		return "it can not be signed with this key";
	tell_used(c, r, l);
	return NULL;
}

static const char *try_sign(struct agent_client *k, struct ssh_text blob, struct ssh_text data, uint32_t flags,
			    struct buf *out, const struct secret_ref **about)
{
	const struct policy *p = &k->a->g->policy;
	const char *why = "this sandbox has no such key";
	struct ssh_login l = {0};
	bool login = ssh_login_parse(data, &l) && equal(l.key, blob);
	for (size_t i = 0; i < p->n_secrets; i++) {
		const struct ssh_key *key = key_of(k->a, &p->secrets[i]);
		if (!key || !equal(text_of(&key->blob), blob))
			continue;
		*about = &p->secrets[i];
		why = !login			   ? "not a login of ssh with this key"
		      : !flags_fit(key, &l, flags) ? "an algorithm that is not the key's, or SHA-1"
						   : sign_for(k, *about, &l, data, out);
		if (!why)
			return NULL;
	}
	return why;
}

static void sign(struct agent_client *k, struct ssh_in *in)
{
	auto_buf struct buf b = BUF_INIT(MESSAGE_MAX), signature = BUF_INIT(8192);
	const struct secret_ref *about = NULL;
	struct ssh_text blob = ssh_get(in), data = ssh_get(in);
	uint32_t flags = ssh_get_u32(in);
	const char *why = in->bad || in->n ? "malformed request" : try_sign(k, blob, data, flags, &signature, &about);
	if (why) {
		tell(k->a->g, about, why);
		answer_byte(k, A_FAILURE);
		return;
	}
	buf_byte(&b, A_SIGNED);
	ssh_put(&b, signature.p, signature.n);
	answer(k, &b);
}

// session-bind@openssh.com: the client says which session it is about, and the host's key signs for it.
static bool bind_session(struct agent_client *k, struct ssh_in *in)
{
	struct ssh_text key = ssh_get(in), session = ssh_get(in), signature = ssh_get(in);
	bool forwarded = ssh_get_u8(in);
	if (in->bad || in->n || k->session.n || session.n > 64 || !ssh_verifies(key, signature, session))
		return false;
	buf_add(&k->session, session.p, session.n);
	k->forwarded = forwarded;
	return true;
}

static void on_message(struct agent_client *k, const uint8_t *p, size_t n)
{
	struct ssh_in in = {p, n, false};
	uint8_t type = ssh_get_u8(&in);
	bool bind = type == A_EXTENSION && ssh_is(ssh_get(&in), "session-bind@openssh.com");
	if (type == A_LIST)
		list(k);
	else if (type == A_SIGN)
		sign(k, &in);
	else
		answer_byte(k, bind && bind_session(k, &in) ? A_SUCCESS : A_FAILURE);
}

// --- clients ---

static void listen_again(struct agent *a)
{
	loop_mod(&a->g->loop, &a->listener, a->n_clients < CLIENTS ? LOOP_IN : 0);
}

static void client_drop(void *p)
{
	struct agent_client *k = p;
	buf_done(&k->in);
	buf_done(&k->out);
	buf_done(&k->session);
	free(k);
}

static void client_end(struct agent_client *k)
{
	struct agent *a = k->a;
	int fd = k->w.fd;
	loop_del(&a->g->loop, &k->w);
	close_fd(&fd);
	*k->link = k->next;
	if (k->next)
		k->next->link = k->link;
	a->n_clients--;
	listen_again(a);
	loop_bury(&a->g->loop, k, client_drop);
}

static int read_some(struct agent_client *k)
{
	char *room = buf_room(&k->in, 4096);
	ssize_t n = room ? recv(k->w.fd, room, 4096, MSG_DONTWAIT) : 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return -1;
	k->in.n += (size_t)n;
	while (k->in.n >= 4 && !k->out.n) {
		struct ssh_in in = {(const uint8_t *)k->in.p, k->in.n, false};
		uint32_t size = ssh_get_u32(&in);
		if (!size || size > MESSAGE_MAX - 4096)
			return -1;
		if (in.n < size)
			return 0;
		on_message(k, in.p, size);
		buf_cut(&k->in, size + 4);
	}
	return 0;
}

static int write_some(struct agent_client *k)
{
	while (k->out.n) {
		ssize_t n = send(k->w.fd, k->out.p, k->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		buf_cut(&k->out, (size_t)n);
	}
	return 0;
}

// One question after the other: an answer that nobody reads holds the next one up.
static void on_client(struct watch *w, uint32_t events)
{
	struct agent_client *k = container_of(w, struct agent_client, w);
	(void)events;
	if (k->out.overflow || write_some(k) || (!k->out.n && read_some(k)) || write_some(k))
		client_end(k);
	else
		loop_mod(&k->a->g->loop, w, k->out.n ? LOOP_OUT : LOOP_IN);
}

static void on_accept(struct watch *w, uint32_t events)
{
	struct agent *a = container_of(w, struct agent, listener);
	struct err e;
	(void)events;
	auto_fd int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	struct agent_client *k = xcalloc(1, sizeof *k);
	*k = (struct agent_client){.a = a,
				   .w = {.fd = -1, .fn = on_client},
				   .in = BUF_INIT(MESSAGE_MAX),
				   .out = BUF_INIT(2 * MESSAGE_MAX),
				   .session = BUF_INIT(65)};
	if (loop_add(&a->g->loop, &k->w, fd, LOOP_IN, &e)) {
		client_drop(k);
		return;
	}
	take_fd(&fd);
	k->next = a->clients;
	if (k->next)
		k->next->link = &k->next;
	k->link = &a->clients;
	a->clients = k;
	a->n_clients++;
	listen_again(a);
}

int agent_serve(struct gate *g, int fd, struct err *e)
{
	auto_fd int own = fd;
	if (g->agent)
		return err_set(e, ERR_INVALID, "a second agent socket");
	struct agent *a = xcalloc(1, sizeof *a);
	*a = (struct agent){.g = g, .listener = {.fd = -1, .fn = on_accept}};
	if (fcntl(own, F_SETFL, O_NONBLOCK) || loop_add(&g->loop, &a->listener, own, LOOP_IN, e)) {
		free(a);
		return err_set(e, ERR_SYSTEM, "the agent's socket can not be watched");
	}
	take_fd(&own);
	g->agent = a;
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "gate/resolve.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <ares.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define TRY_MS 2500
#define TRIES 2
#define SOCKETS 32 // of c-ares: at most two per name server
#define HOSTS 1024 // lines of /etc/hosts

struct lookup {
	struct resolver *r;
	struct lookup *next;
	struct host_name name;
	bool pending;
	uint64_t until_ms;
	struct answer answer; // n 0: failed, then err says why
	struct err err;
	struct resolving *waiting;
};

struct socket_watch {
	struct watch w;
	struct resolver *r;
};

struct host_line {
	struct host_name name;
	union addr a;
};

struct resolver {
	struct loop *loop;
	ares_channel ares;
	bool ready;
	struct timer tick;
	struct socket_watch sockets[SOCKETS];
	struct lookup *lookups;
	size_t n_lookups, n_pending;
	struct host_line *hosts;
	size_t n_hosts;
};

static void set_tick(struct resolver *r)
{
	struct timeval tv;
	if (r->n_pending && ares_timeout(r->ares, NULL, &tv))
		timer_set(r->loop, &r->tick, (uint64_t)tv.tv_sec * 1000 + (uint64_t)tv.tv_usec / 1000 + 1);
	else
		timer_clear(r->loop, &r->tick);
}

static void on_tick(struct timer *t)
{
	struct resolver *r = container_of(t, struct resolver, tick);
	ares_process_fd(r->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	set_tick(r);
}

static void on_socket(struct watch *w, uint32_t events)
{
	struct socket_watch *s = container_of(w, struct socket_watch, w);
	bool in = events & (LOOP_IN | LOOP_HUP | LOOP_ERR), out = events & LOOP_OUT;
	ares_process_fd(s->r->ares, in ? w->fd : ARES_SOCKET_BAD, out ? w->fd : ARES_SOCKET_BAD);
	set_tick(s->r);
}

// c-ares tells which of its sockets it waits for. Without a place for one the question times out.
static void on_socket_state(void *ctx, ares_socket_t fd, int readable, int writable)
{
	struct resolver *r = ctx;
	struct err e;
	struct socket_watch *empty = NULL;
	uint32_t events = (readable ? LOOP_IN : 0) | (writable ? LOOP_OUT : 0);
	for (size_t i = 0; i < SOCKETS; i++) {
		struct socket_watch *s = &r->sockets[i];
		if (s->w.fd == fd) {
			if (events)
				loop_mod(r->loop, &s->w, events);
			else
				loop_del(r->loop, &s->w);
			return;
		}
		if (s->w.fd < 0)
			empty = s;
	}
	if (events && empty)
		(void)!loop_add(r->loop, &empty->w, fd, events, &e);
}

// "ADDR NAME NAME…": a line that can not be read is passed over, as everybody does.
static void read_hosts_line(struct resolver *r, struct str line)
{
	struct err e;
	union addr a;
	char text[INET6_ADDRSTRLEN];
	struct str word;
	bool first = true;
	for (char *p = (char *)line.p; p < line.p + line.n; p++)
		if (*p == '\t' || *p == '\r')
			*p = ' ';
	while (str_next(&line, ' ', &word)) {
		if (!word.n)
			continue;
		if (first && (fmt_to(text, sizeof text, "%.*s", (int)word.n, word.p) || addr_parse(text, 0, &a, &e)))
			return;
		struct host_name name;
		if (!first && r->n_hosts < HOSTS && !host_parse(word.p, word.n, &name, &e)) {
			r->hosts = xrealloc(r->hosts, (r->n_hosts + 1) * sizeof *r->hosts);
			r->hosts[r->n_hosts++] = (struct host_line){name, a};
		}
		first = false;
	}
}

static void read_hosts(struct resolver *r)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(RESOLVE_HOSTS);
	if (fs_read(AT_FDCWD, "/etc/hosts", &b, &e))
		return;
	struct str text = {buf_cstr(&b), b.n}, line, part;
	while (str_next(&text, '\n', &line))
		if (str_next(&line, '#', &part))
			read_hosts_line(r, part);
}

static bool from_hosts(const struct resolver *r, const struct host_name *name, struct answer *out)
{
	out->n = 0;
	for (size_t i = 0; i < r->n_hosts && out->n < RESOLVE_ADDRESSES; i++)
		if (host_equal(&r->hosts[i].name, name))
			out->a[out->n++] = r->hosts[i].a;
	return out->n;
}

struct resolver *resolver_new(struct loop *l, const char *at, struct err *e)
{
	char lookups[] = "b"; // the hosts file is read here, once: later the gate can not open it
	struct resolver *r = xcalloc(1, sizeof *r);
	struct ares_options opt = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
		.timeout = TRY_MS,
		.tries = TRIES,
		.lookups = lookups,
		.sock_state_cb = on_socket_state,
		.sock_state_cb_data = r,
	};
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB;
	r->loop = l;
	r->tick.fn = on_tick;
	for (size_t i = 0; i < SOCKETS; i++)
		r->sockets[i] = (struct socket_watch){{.fd = -1, .fn = on_socket}, r};
	int rc = ares_library_init(ARES_LIB_INIT_ALL);
	if (!rc)
		rc = ares_init_options(&r->ares, &opt, mask);
	r->ready = !rc;
	if (!rc && at && *at)
		rc = ares_set_servers_ports_csv(r->ares, at);
	else if (!rc)
		read_hosts(r);
	if (!rc)
		return r;
	err_set(e, ERR_INVALID, "set up the resolver: %s", ares_strerror(rc));
	resolver_free(r);
	return NULL;
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	if (r->ready)
		ares_destroy(r->ares);
	timer_clear(r->loop, &r->tick);
	while (r->lookups) {
		struct lookup *l = r->lookups;
		r->lookups = l->next;
		free(l);
	}
	free(r->hosts);
	free(r);
}

// Stays pending meanwhile: who is told may ask again, and must not find it out of date and free it.
static void tell(struct lookup *l)
{
	l->pending = true;
	while (l->waiting) {
		struct resolving *w = l->waiting;
		l->waiting = w->next;
		w->lookup = NULL;
		w->fn(w, l->answer.n ? &l->answer : NULL, &l->err);
	}
	l->pending = false;
}

static uint64_t take_answer(struct answer *out, const struct ares_addrinfo *ai)
{
	uint64_t ttl_ms = RESOLVE_TTL_MS;
	for (const struct ares_addrinfo_node *n = ai->nodes; n && out->n < RESOLVE_ADDRESSES; n = n->ai_next) {
		if (n->ai_family != AF_INET && n->ai_family != AF_INET6)
			continue;
		memcpy(&out->a[out->n++], n->ai_addr, n->ai_addrlen);
		if (n->ai_ttl >= 0 && (uint64_t)n->ai_ttl * 1000 < ttl_ms)
			ttl_ms = (uint64_t)n->ai_ttl * 1000;
	}
	return ttl_ms;
}

static void on_answer(void *ctx, int status, int timeouts, struct ares_addrinfo *ai)
{
	struct lookup *l = ctx;
	(void)timeouts;
	l->r->n_pending--;
	l->until_ms = clock_ms() + RESOLVE_FAILED_MS;
	if (status == ARES_SUCCESS && ai)
		l->until_ms = clock_ms() + take_answer(&l->answer, ai);
	if (ai)
		ares_freeaddrinfo(ai);
	if (!l->answer.n) {
		bool absent = status == ARES_ENOTFOUND || status == ARES_ENODATA || status == ARES_SUCCESS;
		enum err_kind kind = absent ? ERR_NOT_FOUND : status == ARES_ETIMEOUT ? ERR_TIMEOUT : ERR_UNAVAILABLE;
		err_set(&l->err, kind, "%s has no address: %s", l->name.s,
			status == ARES_SUCCESS ? "none given" : ares_strerror(status));
	}
	tell(l);
}

// Makes room: the entry that ends first goes, unless it is waited for.
static void drop_one(struct resolver *r)
{
	struct lookup **worst = NULL;
	for (struct lookup **p = &r->lookups; *p; p = &(*p)->next)
		if (!(*p)->pending && (!worst || (*p)->until_ms < (*worst)->until_ms))
			worst = p;
	if (!worst)
		return;
	struct lookup *l = *worst;
	*worst = l->next;
	r->n_lookups--;
	free(l);
}

static struct lookup *find(struct resolver *r, const struct host_name *name)
{
	uint64_t now = clock_ms();
	for (struct lookup **p = &r->lookups; *p; p = &(*p)->next) {
		struct lookup *l = *p;
		if (!host_equal(&l->name, name))
			continue;
		if (l->pending || l->until_ms > now)
			return l;
		*p = l->next;
		r->n_lookups--;
		free(l);
		return NULL;
	}
	return NULL;
}

static struct lookup *start(struct resolver *r, const struct host_name *name)
{
	static const struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct lookup *l = xcalloc(1, sizeof *l);
	*l = (struct lookup){.r = r, .name = *name, .next = r->lookups};
	r->lookups = l;
	r->n_lookups++;
	if (from_hosts(r, name, &l->answer)) {
		l->until_ms = clock_ms() + RESOLVE_TTL_MS;
		return l;
	}
	l->pending = true;
	r->n_pending++;
	ares_getaddrinfo(r->ares, l->name.s, NULL, &hints, on_answer, l);
	set_tick(r);
	return l;
}

void resolver_ask(struct resolver *r, const struct host_name *name, struct resolving *w)
{
	struct lookup *l = find(r, name);
	w->lookup = NULL;
	if (!l && r->n_pending >= RESOLVE_PENDING) {
		struct err e;
		err_set(&e, ERR_LIMIT, "too many names are being resolved");
		w->fn(w, NULL, &e);
		return;
	}
	if (!l) {
		if (r->n_lookups >= RESOLVE_NAMES)
			drop_one(r);
		l = start(r, name);
	}
	if (!l->pending) {
		w->fn(w, l->answer.n ? &l->answer : NULL, &l->err);
		return;
	}
	w->lookup = l;
	w->next = l->waiting;
	l->waiting = w;
}

void resolving_cancel(struct resolving *w)
{
	if (!w->lookup)
		return;
	struct resolving **p = &w->lookup->waiting;
	while (*p != w)
		p = &(*p)->next;
	*p = w->next;
	w->lookup = NULL;
}

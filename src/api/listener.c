// SPDX-License-Identifier: Apache-2.0
// The addresses skepd listens on, and the names it answers to.
#include "api/front_int.h"

#include "base/mem.h"
#include "base/str.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024

// --- addresses ---

// HOST and PORT of HOST:PORT or [HOST]:PORT; the port may be absent. Borrowed.
static bool split(struct str s, struct str *host, struct str *port)
{
	*port = (struct str){0};
	if (s.n && s.p[0] == '[') {
		const char *end = memchr(s.p, ']', s.n);
		if (!end)
			return false;
		*host = (struct str){s.p + 1, (size_t)(end - s.p) - 1};
		s.n -= (size_t)(end + 1 - s.p);
		s.p = end + 1;
	} else {
		const char *colon = memchr(s.p, ':', s.n);
		*host = (struct str){s.p, colon ? (size_t)(colon - s.p) : s.n};
		s.n -= host->n;
		s.p += host->n;
	}
	if (s.n && s.p[0] != ':')
		return false;
	if (s.n)
		*port = (struct str){s.p + 1, s.n - 1};
	return host->n;
}

static bool literal(struct str host, struct sockaddr_storage *out)
{
	char text[INET6_ADDRSTRLEN];
	if (fmt_to(text, sizeof text, "%.*s", (int)host.n, host.p))
		return false;
	*out = (struct sockaddr_storage){0};
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1)
		out->ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1)
		out->ss_family = AF_INET6;
	else
		return false;
	return true;
}

static int parse(const char *address, struct sockaddr_storage *out, socklen_t *out_n, struct err *e)
{
	struct str host, port;
	uint64_t n;
	if (!split(str_of(address), &host, &port) || !port.n || str_to_u64(port, 0, 65535, &n))
		return err_set(e, ERR_INVALID, "%.80s is not ADDRESS:PORT, such as 127.0.0.1:8080 or [::1]:8080", address);
	if (str_is(host, "localhost"))
		host = str_of("127.0.0.1");
	if (!literal(host, out))
		return err_set(e, ERR_INVALID, "%.80s: listen on an address, not on a name (0.0.0.0 and [::] are all of them)", address);
	if (out->ss_family == AF_INET)
		((struct sockaddr_in *)out)->sin_port = htons((uint16_t)n);
	else
		((struct sockaddr_in6 *)out)->sin6_port = htons((uint16_t)n);
	*out_n = out->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	return 0;
}

static char *print(int fd)
{
	struct sockaddr_storage a = {0};
	socklen_t n = sizeof a;
	char text[INET6_ADDRSTRLEN] = "";
	if (getsockname(fd, (struct sockaddr *)&a, &n))
		return xstrdup("");
	bool v6 = a.ss_family == AF_INET6;
	const struct sockaddr_in *v4a = (struct sockaddr_in *)&a;
	const struct sockaddr_in6 *v6a = (struct sockaddr_in6 *)&a;
	inet_ntop(a.ss_family, v6 ? (const void *)&v6a->sin6_addr : (const void *)&v4a->sin_addr, text, sizeof text);
	return xasprintf(v6 ? "[%s]:%u" : "%s:%u", text, ntohs(v6 ? v6a->sin6_port : v4a->sin_port));
}

// --- names ---

// HOST[:PORT] of http(s)://HOST[:PORT][/], in lower case. Owned; NULL = it is none.
static char *url_host(const char *url)
{
	const char *p = str_has_prefix(url, "https://") ? url + 8 : str_has_prefix(url, "http://") ? url + 7 : NULL;
	struct str host, port;
	uint64_t n;
	if (!p)
		return NULL;
	size_t len = strcspn(p, "/");
	if (strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:[]") < len || (p[len] && p[len + 1]))
		return NULL;
	if (!split((struct str){p, len}, &host, &port) || (port.n && str_to_u64(port, 1, 65535, &n)))
		return NULL;
	char *out = xstrndup(p, len);
	for (char *c = out; *c; c++)
		*c |= *c >= 'A' && *c <= 'Z' ? 32 : 0;
	return out;
}

static bool ends_in(struct str host, const char *domain)
{
	size_t n = strlen(domain);
	return host.n > n + 1 && host.p[host.n - n - 1] == '.' && !strncasecmp(host.p + host.n - n, domain, n);
}

static bool is_name(struct str host, const char *name)
{
	return host.n == strlen(name) && !strncasecmp(host.p, name, host.n);
}

// The address the client dialled is ours, whatever it is called: only a name can be made to point here.
static bool is_own_address(const struct front_conn *c, struct str host)
{
	struct sockaddr_storage want, have = {0};
	socklen_t n = sizeof have;
	if (!literal(host, &want) || getsockname(c->fd, (struct sockaddr *)&have, &n))
		return false;
	const struct in6_addr *v6 = &((struct sockaddr_in6 *)&have)->sin6_addr;
	const struct in_addr *v4 = have.ss_family == AF_INET ? &((struct sockaddr_in *)&have)->sin_addr : NULL;
	struct in_addr mapped;
	if (have.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(v6)) {
		memcpy(&mapped, v6->s6_addr + 12, 4);
		v4 = &mapped;
	}
	if (want.ss_family == AF_INET)
		return v4 && v4->s_addr == ((struct sockaddr_in *)&want)->sin_addr.s_addr;
	return have.ss_family == AF_INET6 && !memcmp(v6, &((struct sockaddr_in6 *)&want)->sin6_addr, sizeof *v6);
}

bool front_knows_host(const struct front_conn *c, struct str value)
{
	struct str host, port;
	struct sockaddr_storage a;
	if (!split(value, &host, &port))
		return false;
	if (is_name(host, "localhost") || ends_in(host, "localhost") || is_own_address(c, host))
		return true;
	if (literal(host, &a) && sockaddr_is_loopback(&a))
		return true;
	for (char **h = c->listener->hosts; *h; h++) {
		struct str own, own_port;
		if (!split(str_of(*h), &own, &own_port))
			continue;
		auto_free char *name = xstrndup(own.p, own.n);
		if (is_name(host, name) || ends_in(host, name))
			return true;
	}
	return false;
}

bool front_ends_previews(const struct front_conn *c, struct str rest)
{
	struct str host, port, own, own_port;
	if (!split(rest, &host, &port))
		return false;
	if (!c->listener->hosts[0])
		return is_name(host, "localhost");
	for (char **h = c->listener->hosts; *h; h++) {
		if (!split(str_of(*h), &own, &own_port))
			continue;
		auto_free char *name = xstrndup(own.p, own.n);
		if (is_name(host, name))
			return true;
	}
	return false;
}

// --- life ---

static void listener_free(void *p)
{
	struct listener *l = p;
	free(l->address);
	free(l->url);
	strv_free(l->hosts);
	free(l);
}

void listener_settle(struct listener *l)
{
	if (l->closed && !l->n_conns)
		loop_bury(l->front->loop, l, listener_free);
}

static int bind_to(const char *address, bool insecure, struct err *e)
{
	struct sockaddr_storage a;
	socklen_t n = 0;
	int one = 1;
	if (parse(address, &a, &n, e))
		return -1;
	if (insecure && !sockaddr_is_loopback(&a))
		return err_set(e, ERR_DENIED, "--insecure-loopback: %.80s is not a loopback address; everybody in the network could use it", address);
	auto_fd int fd = socket(a.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(e, "socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(fd, (struct sockaddr *)&a, n) || listen(fd, BACKLOG)) {
		err_sys(e, "listen on %.80s", address);
		e->kind = e->sys == EADDRINUSE ? ERR_CONFLICT : e->sys == EACCES ? ERR_DENIED : ERR_UNAVAILABLE;
		return -1;
	}
	return take_fd(&fd);
}

static int take_names(struct listener *l, char *const *urls, struct err *e)
{
	l->hosts = xcalloc(1, sizeof *l->hosts);
	for (; urls && *urls; urls++) {
		auto_free char *host = url_host(*urls);
		if (!host)
			return err_set(e, ERR_INVALID, "%.100s is not a public URL: http(s)://HOST[:PORT], and no path", *urls);
		strv_add(&l->hosts, host);
	}
	return 0;
}

struct listener *front_listen(struct front *f, const char *address, bool insecure, char *const *urls, struct err *e)
{
	struct listener *l = xcalloc(1, sizeof *l);
	int count = 0;
	*l = (struct listener){.front = f, .insecure = insecure, .w = {.fd = -1, .fn = listener_ready}};
	for (struct listener *p = f->listeners; p; p = p->next)
		count++;
	if (take_names(l, urls, e) ||
	    (count >= FRONT_LISTENERS && err_set(e, ERR_LIMIT, "skepd listens on %d addresses already", FRONT_LISTENERS))) {
		listener_free(l);
		return NULL;
	}
	int fd = bind_to(address, insecure, e);
	if (fd < 0 || loop_add(f->loop, &l->w, fd, LOOP_IN, e)) {
		close_fd(&fd);
		listener_free(l);
		return NULL;
	}
	id_make('l', l->id);
	l->address = print(fd);
	l->url = urls && *urls ? xstrdup(*urls) : xasprintf("http://%s", l->address);
	l->next = f->listeners;
	f->listeners = l;
	return l;
}

void front_unlisten(struct listener *l)
{
	struct front *f = l->front;
	list_unlink(&f->listeners, l, next);
	int fd = l->w.fd;
	loop_del(f->loop, &l->w);
	close(fd);
	timer_clear(f->loop, &l->calm);
	l->n_conns++; // so that it lives until the end of this
	for (struct front_conn *c = f->first, *next; c; c = next) {
		next = c->next;
		if (c->listener != l)
			continue;
		c->closing = true;
		if (c->state == FRONT_NEW)
			front_close(c);
		else
			front_wait(c, c->state == FRONT_SERVED && !c->request ? 1 : FRONT_END_MS);
	}
	l->n_conns--;
	l->closed = true;
	listener_settle(l);
}

void front_listeners(struct front *f, void (*each)(void *ctx, const struct listener *l), void *ctx)
{
	for (struct listener *l = f->listeners; l; l = l->next)
		each(ctx, l);
}

struct listener *front_listener(struct front *f, const char *id)
{
	for (struct listener *l = f->listeners; l; l = l->next)
		if (!strcmp(l->id, id))
			return l;
	return NULL;
}

// SPDX-License-Identifier: Apache-2.0
#include "api/ports.h"

#include "api/code.h"
#include "api/front.h"
#include "api/preview.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/access.h"
#include <string.h>

static void done_dial(void *ctx, const struct err *e, const struct outcome *o)
{
	struct request *r = ctx;
	struct jsonw w = {.b = &r->answer};
	if (e) {
		request_fail(r, e);
		return;
	}
	auto_free char *sock = engine_socket(r->engine, o->sandbox->id);
	jw_open(&w, '{');
	jw_kstr(&w, "sandbox", o->sandbox->id);
	jw_kstr(&w, "socket", sock);
	jw_kstr(&w, "ticket", o->ticket);
	jw_close(&w, '}');
	request_answer(r, 201);
}

void post_dial(struct request *r)
{
	static const char *const known[] = {NULL};
	struct err e;
	if (json_only(r->json, known, &e))
		request_fail(r, &e);
	else
		engine_dials(r->engine, r->parts[0], (struct done){done_dial, r});
}

#define TTL_DEFAULT_MS (12ull * 3600 * 1000)
#define TTL_MAX_MS (30ull * 24 * 3600 * 1000)

// Where links lead: to the listener the request came by, else to one with a public name, else to any.
struct choice {
	const struct listener *any, *named;
};

static void consider(void *ctx, const struct listener *l)
{
	struct choice *c = ctx;
	if (l->hosts[0])
		c->named = l;
	c->any = l;
}

// Where nothing listens, previews get a loopback port of their own: who comes there needs a link or a token.
static const struct listener *choose(struct request *r, struct err *e)
{
	struct choice c = {0};
	struct front *f = server_front(r->server);
	if (r->tcp)
		return r->tcp->listener;
	front_listeners(f, consider, &c);
	return c.named ? c.named : c.any ? c.any : front_listen(f, "127.0.0.1:0", false, NULL, e);
}

// PORT-ID in front of the listener's name; where it has only an address, which can have no name in front, by path.
static void put_url(struct buf *b, const struct listener *l, const struct sandbox *s, uint64_t port)
{
	static const char *const local[] = {"127.0.0.1:", "0.0.0.0:", "[::1]:", "[::]:"};
	if (l->hosts[0]) {
		buf_fmt(b, "%s://%llu-%s.%s/", str_has_prefix(l->url, "https://") ? "https" : "http", (unsigned long long)port, s->id, l->hosts[0]);
		return;
	}
	for (size_t i = 0; i < countof(local); i++)
		if (str_has_prefix(l->address, local[i])) {
			buf_fmt(b, "http://%llu-%s.localhost:%s/", (unsigned long long)port, s->id, l->address + strlen(local[i]));
			return;
		}
	buf_fmt(b, "http://%s/preview/%s/%llu/", l->address, s->id, (unsigned long long)port);
}

static int decode(struct request *r, uint64_t *port, uint64_t *ttl, struct err *e)
{
	static const char *const known[] = {"port", "ttl_ms", NULL};
	if (json_only(r->json, known, e) || json_get_u64(r->json, "port", port, e) || json_get_u64(r->json, "ttl_ms", ttl, e))
		return -1;
	if (!*port || *port > UINT16_MAX)
		return err_set(e, ERR_INVALID, "port must be from 1 to 65535");
	if (*ttl < 1000 || *ttl > TTL_MAX_MS)
		return err_set(e, ERR_INVALID, "a link is good for 1 second to 30 days");
	return 0;
}

int preview_link(struct request *r, const struct sandbox *s, uint16_t port, uint64_t expires, struct buf *url,
		 char out_sign[PREVIEW_LINK_MAX], struct err *e)
{
	const struct listener *l = preview_sign(r->engine, s->id, port, expires, out_sign, e) ? NULL : choose(r, e);
	if (!l)
		return -1;
	put_url(url, l, s, port);
	buf_fmt(url, "?" PREVIEW_COOKIE "=%s", out_sign);
	return 0;
}

void post_preview(struct request *r)
{
	struct err e;
	uint64_t port = 0, ttl = TTL_DEFAULT_MS;
	char sign[PREVIEW_LINK_MAX], until[32];
	auto_buf struct buf url = BUF_INIT(4096);
	const struct sandbox *s = decode(r, &port, &ttl, &e) ? NULL : engine_get(r->engine, r->parts[0], &e);
	uint64_t expires = (clock_unix_ms() + ttl) / 1000;
	if (!s || preview_link(r, s, (uint16_t)port, expires, &url, sign, &e)) {
		request_fail(r, &e);
		return;
	}
	clock_iso(expires * 1000, until);
	auto_free char *event = xasprintf("\"port\":%llu,\"expires\":\"%s\"", (unsigned long long)port, until);
	engine_record(r->engine, s->id, "preview.made", event);
	struct jsonw w = {.b = &r->answer};
	jw_open(&w, '{');
	jw_kstr(&w, "sandbox", s->id);
	jw_ku64(&w, "port", port);
	jw_kstr(&w, "url", buf_cstr(&url));
	jw_kstr(&w, "signature", sign);
	jw_kstr(&w, "expires", until);
	jw_close(&w, '}');
	request_answer(r, 201);
}

// Of one link, of a port, or of all ports.
void delete_preview(struct request *r)
{
	struct err e;
	uint64_t port = 0;
	const char *word = request_query(r, "port"), *sign = request_query(r, "signature");
	const struct sandbox *s = engine_get(r->engine, r->parts[0], &e);
	int rc = s ? 0 : -1;
	if (s && word && str_to_u64(str_of(word), 1, UINT16_MAX, &port))
		rc = err_set(&e, ERR_INVALID, "port must be from 1 to 65535");
	else if (s && sign && !port)
		rc = err_set(&e, ERR_INVALID, "a signature is of one port: name it");
	if (rc || preview_revoke(r->engine, s->id, (uint16_t)port, sign ? str_of(sign) : (struct str){NULL, 0}, &e)) {
		request_fail(r, &e);
		return;
	}
	auto_free char *event = xasprintf("\"port\":%llu,\"all\":%s", (unsigned long long)port, sign ? "false" : "true");
	engine_record(r->engine, s->id, "preview.revoked", event);
	server_recheck(r->server, r);
	request_answer(r, 204);
}

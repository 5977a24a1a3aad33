// SPDX-License-Identifier: Apache-2.0
// Who may visit a port. A link's signature or its cookie, a token that may read the sandbox, or what another surface
// decided; on a listener that asks for no token everybody, under a name that is ours.
#include "api/preview_int.h"

#include "api/auth.h"
#include "base/clock.h"
#include "base/mem.h"
#include "engine/access.h"
#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

// By its id or name, never by a prefix: what a link was made for must not become another sandbox later.
static const struct sandbox *find(struct visit *v)
{
	struct err e;
	const struct sandbox *s = engine_get(v->p->engine, v->target.sandbox, &e);
	return s && (!strcmp(s->id, v->target.sandbox) || (s->name && !strcmp(s->name, v->target.sandbox))) ? s : NULL;
}

static bool is_loopback(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static bool has_label(const struct sandbox *s, const char *label)
{
	for (char **l = s->labels; l && *l; l++)
		if (!strcmp(*l, label))
			return true;
	return false;
}

// --- access ---

static bool is_websocket(const struct http_head *h)
{
	return http_name_is(http_head_get(h, "Upgrade"), "websocket");
}

// Every token that a request shows; one that is good is enough. In a URL only where a browser can set no header.
static bool token_may(struct visit *v, const struct sandbox *s, const struct http_head *h, bool *shown)
{
	struct principal p;
	struct str bearer = http_head_get(h, "Authorization"), scheme;
	struct str tokens[] = {{NULL, 0}, http_head_get(h, "X-API-Key"), is_websocket(h) ? preview_query(h->target, "token") : (struct str){NULL, 0}};
	if (bearer.p && str_next(&bearer, ' ', &scheme) && http_name_is(scheme, "Bearer") && bearer.p)
		tokens[0] = bearer;
	for (size_t i = 0; i < countof(tokens); i++) {
		auto_free char *text = tokens[i].p ? xstrndup(tokens[i].p, tokens[i].n) : NULL;
		if (!text)
			continue;
		*shown = true;
		if (!auth_token_sees(v->p->engine, text, s, &p, &v->who))
			continue;
		memcpy(v->token, p.id, sizeof v->token);
		front_until(v->conn, p.expires);
		return true;
	}
	return false;
}

static enum preview_verdict ask_policy(struct visit *v, const struct sandbox *s, const struct http_head *h)
{
	const struct preview_policy *policy = v->p->policy;
	struct str t = http_head_get(h, "E2B-Traffic-Access-Token");
	auto_free char *token = t.p ? xstrndup(t.p, t.n) : NULL;
	return policy ? policy->judge(policy->ctx, s, v->target.port, token) : PREVIEW_ASK;
}

// Seconds that it is good for; 0 = it is not. What it lets in ends with it.
static uint64_t link_may(struct visit *v, const struct sandbox *s, struct str sign)
{
	uint64_t left = sign.p ? preview_check(v->p->engine, s->id, v->target.port, sign) : 0;
	if (!left || fmt_to(v->sign, sizeof v->sign, "%.*s", (int)sign.n, sign.p))
		return 0;
	front_until(v->conn, clock_unix_ms() + left * 1000);
	return left;
}

enum access { ACCESS_OK, ACCESS_LINK, ACCESS_UNAUTHORIZED, ACCESS_FORBIDDEN, ACCESS_FOREIGN, ACCESS_MISDIRECTED };

// Links and cookies are for the names that are configured, so that no other name (DNS rebinding) gets a cookie or uses one.
static bool is_our_name(const struct visit *v)
{
	if (v->target.form == PREVIEW_HOST)
		return front_ends_previews(v->conn, preview_host_rest(v->target.host));
	return v->target.host.p && front_knows_host(v->conn, v->target.host);
}

// Any page of the same site can set a cookie of our name for all hosts below it: the good one counts.
static bool cookie_may(struct visit *v, const struct sandbox *s, const struct http_head *h)
{
	struct str cookie;
	for (int i = 0; (cookie = preview_cookie(h, PREVIEW_COOKIE, i)).p; i++)
		if (link_may(v, s, cookie))
			return true;
	return false;
}

// link: seconds that the link in the request is good for.
static enum access judge(struct visit *v, const struct sandbox *s, const struct http_head *h, uint64_t *link)
{
	struct str sign = preview_query(h->target, PREVIEW_COOKIE);
	bool shown = false, foreign = preview_origin(h, &v->target) == ORIGIN_FOREIGN, ours = is_our_name(v), cookie;
	v->sign[0] = v->token[0] = 0;
	v->ambient = false;
	v->who = (struct actor){.name = "preview"};
	front_until(v->conn, 0);
	*link = link_may(v, s, sign);
	if (*link)
		return ours ? ACCESS_LINK : ACCESS_MISDIRECTED;
	cookie = cookie_may(v, s, h);
	if (cookie && ours && !foreign) {
		v->ambient = true;
		return ACCESS_OK;
	}
	v->sign[0] = 0; // something else may let it in
	front_until(v->conn, 0);
	enum preview_verdict verdict = ask_policy(v, s, h);
	if (verdict == PREVIEW_OPEN || token_may(v, s, h, &shown))
		return ACCESS_OK;
	if (verdict == PREVIEW_CLOSED)
		return ACCESS_FORBIDDEN;
	bool open = !shown && !sign.p && v->conn->listener->insecure && v->target.host.p && front_knows_host(v->conn, v->target.host);
	v->ambient = open && !foreign;
	if (v->ambient)
		return ACCESS_OK;
	if (cookie && !ours)
		return ACCESS_MISDIRECTED;
	return cookie || open ? ACCESS_FOREIGN : ACCESS_UNAUTHORIZED;
}

// --- a link is followed ---

static bool wants_html(const struct http_head *h)
{
	struct str accept = http_head_get(h, "Accept");
	return accept.n && memmem(accept.p, accept.n, "text/html", 9);
}

// Of a browser that shall not show the signature, nor give it away as a referrer: it gets a cookie for this host alone.
static void redirect(struct visit *v, const struct http_head *h, uint64_t seconds, bool https)
{
	struct str sign = preview_query(h->target, PREVIEW_COOKIE);
	auto_buf struct buf where = BUF_INIT(HTTP_HEAD_MAX), cookie = BUF_INIT(1024), page = BUF_INIT(2 * HTTP_HEAD_MAX);
	preview_without(h->target, PREVIEW_COOKIE, &where);
	buf_fmt(&cookie, PREVIEW_COOKIE "=%.*s; Path=%.*s/; Max-Age=%llu; HttpOnly; SameSite=Strict%s", (int)sign.n, sign.p,
		(int)v->target.prefix, h->target.p, (unsigned long long)seconds, https ? "; Secure" : "");
	if (preview_came_from_elsewhere(h))
		page_bounce(&page, buf_cstr(&where), buf_cstr(&cookie));
	else
		page_redirect(&page, buf_cstr(&where), buf_cstr(&cookie));
	visit_say(v, &page);
}

// "//host" would lead elsewhere.
static bool is_plain(struct str target)
{
	return target.n && target.p[0] == '/' && !(target.n > 1 && (target.p[1] == '/' || target.p[1] == '\\'));
}

// A link without a signature was followed from another site: its cookie is not there, and will be when this page asks. Once:
// the next request comes from here.
static bool ask_again(struct visit *v, const struct http_head *h)
{
	auto_buf struct buf page = BUF_INIT(2 * HTTP_HEAD_MAX);
	bool followed = preview_origin(h, &v->target) == ORIGIN_NAVIGATION && str_is(h->method, "GET") && !preview_cookie(h, PREVIEW_COOKIE, 0).p;
	if (!followed || !v->html || !is_plain(h->target) || !is_our_name(v))
		return false;
	auto_free char *where = xstrndup(h->target.p, h->target.n);
	page_bounce(&page, where, NULL);
	visit_say(v, &page);
	return true;
}

// --- the whole ---

// What a browser keeps for a name would stay when another sandbox takes the name; an id is never used again.
static bool is_kept_for_name(const struct visit *v, const struct sandbox *s, const struct http_head *h)
{
	return http_head_get(h, "Service-Worker").p && strcmp(v->target.sandbox, s->id);
}

static void go_inside(struct visit *v, const struct sandbox *s, const struct http_head *h, bool trusted, bool https)
{
	struct err e;
	char peer[PEER_TEXT];
	peer_text(&v->conn->peer, peer);
	struct preview_way way = {.peer = peer, .trusted = trusted, .https = https, .keep_host = has_label(s, "skep.preview-host=keep")};
	const struct preview_policy *policy = v->p->policy;
	auto_free char *host = policy ? policy->host_of(policy->ctx, s, v->target.port) : NULL;
	way.host = host;
	buf_clear(&v->request);
	if (preview_put_request(h, &v->target, &way, &v->request, &v->asked, &e)) {
		visit_page(v, PAGE_MALFORMED, e.msg);
		return;
	}
	v->asked.ambient = v->ambient;
	memcpy(v->sandbox, s->id, sizeof v->sandbox);
	struct actor was = engine_act(v->p->engine, v->who); // a stopped sandbox is started by them
	visit_dial(v);
	engine_act(v->p->engine, was);
}

// "/preview/ID/PORT" alone: relative links of its page need the slash.
static bool add_slash(struct visit *v, const struct http_head *h)
{
	struct str t = h->target;
	if (v->target.form != PREVIEW_PATH || (t.n > v->target.prefix && t.p[v->target.prefix] == '/'))
		return false;
	auto_buf struct buf where = BUF_INIT(HTTP_HEAD_MAX), page = BUF_INIT(2 * HTTP_HEAD_MAX);
	buf_add(&where, t.p, v->target.prefix);
	buf_byte(&where, '/');
	buf_add(&where, t.p + v->target.prefix, t.n - v->target.prefix);
	page_redirect(&page, buf_cstr(&where), NULL);
	visit_say(v, &page);
	return true;
}

void visit_judge(struct visit *v, const struct http_head *h)
{
	uint64_t link;
	v->html = wants_html(h);
	preview_target_parse(h, PREVIEW_ENVD, &v->target);
	if (v->target.form == PREVIEW_NONE || v->target.form == PREVIEW_BAD) {
		v->e2b = http_head_get(h, "E2b-Sandbox-Id").p || http_head_get(h, "E2b-Sandbox-Port").p;
		visit_page(v, v->target.form == PREVIEW_BAD ? PAGE_MALFORMED : PAGE_MISDIRECTED, NULL);
		return;
	}
	const struct sandbox *s = find(v);
	const struct preview_policy *policy = v->p->policy;
	bool theirs = s || (id_is(v->target.sandbox) && !v->html); // of a sandbox that is gone nobody knows whose it was: programs get E2B's answer
	v->e2b = v->target.form == PREVIEW_HEADERS || (policy && theirs && policy->is_e2b(policy->ctx, s));
	if (!s) { // ids can not be guessed, names can: whether there is one is told to nobody
		visit_page(v, id_is(v->target.sandbox) ? PAGE_UNKNOWN : PAGE_UNAUTHORIZED, NULL);
		return;
	}
	bool trusted = v->conn->behind_proxy && is_loopback(&v->conn->peer);
	bool https = trusted && http_name_is(http_head_get(h, "X-Forwarded-Proto"), "https");
	if (is_kept_for_name(v, s, h)) {
		visit_page(v, PAGE_FOREIGN, "a service worker is only for the address with the sandbox's id");
		return;
	}
	switch (judge(v, s, h, &link)) {
	case ACCESS_LINK:
		if (v->html && is_plain(h->target) && str_is(h->method, "GET"))
			redirect(v, h, link, https);
		else if (!add_slash(v, h))
			go_inside(v, s, h, trusted, https);
		break;
	case ACCESS_OK:
		if (!add_slash(v, h))
			go_inside(v, s, h, trusted, https);
		break;
	case ACCESS_UNAUTHORIZED:
		if (!ask_again(v, h))
			visit_page(v, PAGE_UNAUTHORIZED, NULL);
		break;
	case ACCESS_FOREIGN:
		visit_page(v, PAGE_FOREIGN, NULL);
		break;
	case ACCESS_MISDIRECTED:
		visit_page(v, PAGE_MISDIRECTED, NULL);
		break;
	case ACCESS_FORBIDDEN:
		visit_page(v, PAGE_FORBIDDEN, NULL);
		break;
	}
}

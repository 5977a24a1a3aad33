// SPDX-License-Identifier: Apache-2.0
#include "api/preview_head.h"

#include "base/mem.h"
#include <string.h>
#include <strings.h>

// --- whom it is for ---

static bool is_name(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= '0' && s.p[i] <= '9') || s.p[i] == '-'))
			return false;
	return s.n >= 1 && s.n <= PREVIEW_NAME_MAX && s.p[0] != '-';
}

static bool take_place(struct str name, struct str port, struct preview_target *out)
{
	uint64_t n;
	if (!is_name(name) || str_to_u64(port, 1, UINT16_MAX, &n))
		return false;
	memcpy(out->sandbox, name.p, name.n);
	out->sandbox[name.n] = 0;
	out->port = (uint16_t)n;
	return true;
}

// "3000-sabc….localhost:8080"
static bool of_host(struct preview_target *t)
{
	struct str label = t->host, port;
	const char *dot = memchr(label.p, '.', label.n);
	if (!dot)
		return false;
	label.n = (size_t)(dot - label.p);
	return str_next(&label, '-', &port) && label.p && take_place(label, port, t);
}

// "/preview/sabc…/3000/rest"
static bool of_path(struct str target, struct preview_target *t)
{
	static const char start[] = "/preview/";
	size_t at = sizeof start - 1;
	struct str name, port;
	if (target.n < at || memcmp(target.p, start, at))
		return false;
	struct str rest = {target.p + at, target.n - at};
	rest.n = (size_t)((const char *)(memchr(rest.p, '?', rest.n) ?: rest.p + rest.n) - rest.p);
	t->form = PREVIEW_PATH;
	if (!str_next(&rest, '/', &name) || !str_next(&rest, '/', &port) || !take_place(name, port, t))
		t->form = PREVIEW_BAD;
	else
		t->prefix = (size_t)(port.p + port.n - target.p);
	return true;
}

static bool by_headers(const struct http_head *h, struct preview_target *t)
{
	struct str name = http_head_get(h, "E2b-Sandbox-Id"), port = http_head_get(h, "E2b-Sandbox-Port");
	if (!name.p && !port.p)
		return false;
	t->form = name.p && port.p && take_place(name, port, t) ? PREVIEW_HEADERS : PREVIEW_BAD;
	return true;
}

static int count(const struct http_head *h, const char *name)
{
	int n = 0;
	for (int i = 0; i < h->n_fields; i++)
		n += http_name_is(h->fields[i].name, name);
	return n;
}

void preview_target_parse(const struct http_head *h, uint16_t reserved, struct preview_target *out)
{
	*out = (struct preview_target){.host = http_head_get(h, "Host")};
	if (out->host.p && of_host(out))
		out->form = PREVIEW_HOST;
	else if (!of_path(h->target, out) && !by_headers(h, out))
		return;
	if (count(h, "Host") > 1)
		out->form = PREVIEW_BAD; // two readers might choose another one each
	if (reserved && out->port == reserved && out->form != PREVIEW_PATH)
		out->form = PREVIEW_NONE;
}

// --- pieces ---

struct str preview_query(struct str target, const char *name)
{
	const char *mark = memchr(target.p, '?', target.n);
	struct str rest = {NULL, 0}, part, key;
	if (mark)
		rest = (struct str){mark + 1, target.n - (size_t)(mark + 1 - target.p)};
	while (rest.p && str_next(&rest, '&', &part)) {
		struct str value = part;
		if (str_next(&value, '=', &key) && str_is(key, name) && value.p)
			return value;
	}
	return (struct str){NULL, 0};
}

void preview_without(struct str target, const char *name, struct buf *out)
{
	const char *mark = memchr(target.p, '?', target.n);
	struct str rest, part, key;
	char sep = '?';
	buf_add(out, target.p, mark ? (size_t)(mark - target.p) : target.n);
	if (!mark)
		return;
	rest = (struct str){mark + 1, target.n - (size_t)(mark + 1 - target.p)};
	while (rest.p && str_next(&rest, '&', &part)) {
		struct str value = part;
		if (str_next(&value, '=', &key) && str_is(key, name))
			continue;
		buf_byte(out, sep);
		buf_add(out, part.p, part.n);
		sep = '&';
	}
}

static struct str trimmed(struct str s)
{
	while (s.n && (*s.p == ' ' || *s.p == '\t'))
		s.p++, s.n--;
	while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

static bool is_cookie(struct str pair, const char *name, struct str *out_value)
{
	struct str key, value = trimmed(pair);
	if (!str_next(&value, '=', &key) || !str_is(trimmed(key), name) || !value.p)
		return false;
	*out_value = trimmed(value);
	return true;
}

struct str preview_cookie(const struct http_head *h, const char *name, int n)
{
	struct str value, pair;
	for (int i = 0; i < h->n_fields; i++) {
		struct str all = h->fields[i].value;
		while (http_name_is(h->fields[i].name, "Cookie") && str_next(&all, ';', &pair))
			if (is_cookie(pair, name, &value) && !n--)
				return value;
	}
	return (struct str){NULL, 0};
}

static void put(struct buf *out, const char *name, struct str value)
{
	buf_str(out, name);
	buf_str(out, ": ");
	buf_add(out, value.p, value.n);
	buf_str(out, "\r\n");
}

static bool is_one_of(struct str name, const char *const *list)
{
	for (; *list; list++)
		if (http_name_is(name, *list))
			return true;
	return false;
}

// Fields that concern one connection, and those that Connection names.
static bool is_hop(const struct http_head *h, struct str name)
{
	static const char *const hops[] = {"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "TE",
					   "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "HTTP2-Settings", NULL};
	if (is_one_of(name, hops))
		return true;
	for (int i = 0; i < h->n_fields; i++) {
		struct str all = h->fields[i].value, token;
		while (http_name_is(h->fields[i].name, "Connection") && str_next(&all, ',', &token)) {
			token = trimmed(token);
			if (token.n == name.n && token.n && !strncasecmp(token.p, name.p, name.n))
				return true;
		}
	}
	return false;
}

static bool is_upgrade(const struct http_head *h)
{
	bool asked = false, websocket = false;
	for (int i = 0; i < h->n_fields; i++) {
		asked |= http_name_is(h->fields[i].name, "Connection") && http_list_has(h->fields[i].value, "upgrade");
		websocket |= http_name_is(h->fields[i].name, "Upgrade") && http_name_is(h->fields[i].value, "websocket");
	}
	return asked && websocket && h->minor;
}

static void put_frame(enum body_frame frame, uint64_t length, struct buf *out)
{
	if (frame == FRAME_CHUNKED)
		buf_str(out, "Transfer-Encoding: chunked\r\n");
	else if (frame == FRAME_LENGTH)
		buf_fmt(out, "Content-Length: %llu\r\n", (unsigned long long)length);
}

// --- whose page asks ---

struct str preview_host_rest(struct str host)
{
	const char *dot = host.p ? memchr(host.p, '.', host.n) : NULL;
	return dot ? (struct str){dot + 1, host.n - (size_t)(dot + 1 - host.p)} : (struct str){NULL, 0};
}

static bool is_same_text(struct str a, struct str b)
{
	return a.n == b.n && a.n && !strncasecmp(a.p, b.p, a.n);
}

// The page is the preview's own, or of another port of the same sandbox.
static bool is_own_page(struct str origin, const struct preview_target *t)
{
	static const char *const schemes[] = {"http://", "https://"};
	for (size_t i = 0; i < countof(schemes); i++) {
		size_t n = strlen(schemes[i]);
		if (origin.n <= n || strncasecmp(origin.p, schemes[i], n))
			continue;
		struct preview_target o = {.host = {origin.p + n, origin.n - n}};
		if (is_same_text(o.host, t->host))
			return true;
		return t->form == PREVIEW_HOST && of_host(&o) && !strcmp(o.sandbox, t->sandbox) &&
		       is_same_text(preview_host_rest(o.host), preview_host_rest(t->host));
	}
	return false;
}

enum preview_origin preview_origin(const struct http_head *h, const struct preview_target *t)
{
	struct str origin = http_head_get(h, "Origin"), site = http_head_get(h, "Sec-Fetch-Site"), dest = http_head_get(h, "Sec-Fetch-Dest");
	if (count(h, "Origin") > 1 || count(h, "Sec-Fetch-Site") > 1)
		return ORIGIN_FOREIGN;
	if (origin.p)
		return is_own_page(origin, t) ? ORIGIN_OWN : ORIGIN_FOREIGN;
	if (!site.p || str_is(site, "same-origin") || str_is(site, "none"))
		return ORIGIN_OWN;
	bool reads = str_is(h->method, "GET") || str_is(h->method, "HEAD");
	bool window = str_is(http_head_get(h, "Sec-Fetch-Mode"), "navigate") && (!dest.p || str_is(dest, "document"));
	return reads && window && !is_upgrade(h) ? ORIGIN_NAVIGATION : ORIGIN_FOREIGN;
}

bool preview_came_from_elsewhere(const struct http_head *h)
{
	struct str site = http_head_get(h, "Sec-Fetch-Site");
	return !str_is(site, "same-origin") && !str_is(site, "none");
}

// --- inwards ---

// A token has one of two prefixes and 64 digits (model/access.h); only such a one is ours to hide.
static bool is_our_token(struct str s)
{
	static const char *const prefixes[] = {"skep_", "e2b_"};
	for (size_t i = 0; i < countof(prefixes); i++) {
		size_t n = strlen(prefixes[i]);
		if (s.n == n + 64 && !strncasecmp(s.p, prefixes[i], n))
			return true;
	}
	return false;
}

static bool is_our_authorization(struct str v)
{
	struct str scheme;
	if (!str_next(&v, ' ', &scheme) || !v.p)
		return false;
	return http_name_is(scheme, "Bearer") && is_our_token(trimmed(v));
}

static bool is_hidden(const struct http_field *f)
{
	static const char *const ours[] = {"E2b-Sandbox-Id", "E2b-Sandbox-Port", "E2B-Traffic-Access-Token", "X-Skep-Token", NULL};
	return is_one_of(f->name, ours) || (http_name_is(f->name, "Authorization") && is_our_authorization(f->value)) ||
	       ((http_name_is(f->name, "X-API-Key") || http_name_is(f->name, "X-Access-Token")) && is_our_token(f->value));
}

static bool is_forwarded(struct str name)
{
	static const char start[] = "X-Forwarded-";
	return http_name_is(name, "Forwarded") || (name.n >= sizeof start - 1 && !strncasecmp(name.p, start, sizeof start - 1));
}

// Without our own cookie; nothing is left: no field.
static void put_cookies(struct str all, struct buf *out)
{
	struct str pair, value;
	bool any = false;
	while (str_next(&all, ';', &pair)) {
		pair = trimmed(pair);
		if (!pair.n || is_cookie(pair, PREVIEW_COOKIE, &value))
			continue;
		buf_str(out, any ? "; " : "Cookie: ");
		buf_add(out, pair.p, pair.n);
		any = true;
	}
	if (any)
		buf_str(out, "\r\n");
}

// "http://HOST" of this preview itself is, for the inside, its own origin; any other stays what it is, so that the
// server inside can refuse it.
static bool put_own_origin(const char *name, struct str v, const struct preview_target *t, const char *own, struct buf *out)
{
	static const char *const schemes[] = {"http://", "https://"};
	for (size_t i = 0; i < countof(schemes); i++) {
		size_t n = strlen(schemes[i]);
		if (v.n < n + t->host.n || strncasecmp(v.p, schemes[i], n) || strncasecmp(v.p + n, t->host.p, t->host.n))
			continue;
		struct str rest = {v.p + n + t->host.n, v.n - n - t->host.n};
		if (rest.n && rest.p[0] != '/')
			continue;
		if (t->form == PREVIEW_PATH && rest.n >= t->prefix) // a Referer
			rest = (struct str){rest.p + t->prefix, rest.n - t->prefix};
		buf_fmt(out, "%s: http://%s%.*s\r\n", name, own, (int)rest.n, rest.p);
		return true;
	}
	return false;
}

static void put_forwarded(const struct http_head *h, const struct preview_target *t, const struct preview_way *way, struct buf *out)
{
	struct str before = way->trusted ? http_head_get(h, "X-Forwarded-For") : (struct str){NULL, 0};
	struct str proto = way->trusted ? http_head_get(h, "X-Forwarded-Proto") : (struct str){NULL, 0};
	struct str host = way->trusted ? http_head_get(h, "X-Forwarded-Host") : (struct str){NULL, 0};
	if (before.n)
		buf_fmt(out, "X-Forwarded-For: %.*s, %s\r\n", (int)before.n, before.p, way->peer);
	else
		put(out, "X-Forwarded-For", str_of(way->peer));
	put(out, "X-Forwarded-Proto", proto.n ? proto : str_of(way->https ? "https" : "http"));
	if (host.n || t->host.n)
		put(out, "X-Forwarded-Host", host.n ? host : t->host);
	if (t->form == PREVIEW_PATH)
		put(out, "X-Forwarded-Prefix", (struct str){h->target.p, t->prefix});
}

static void put_fields_in(const struct http_head *h, const struct preview_target *t, const struct preview_way *way, const char *own, struct buf *out)
{
	for (int i = 0; i < h->n_fields; i++) {
		const struct http_field *f = &h->fields[i];
		bool origin = http_name_is(f->name, "Origin"), referer = http_name_is(f->name, "Referer");
		if (is_hop(h, f->name) || is_hidden(f) || is_forwarded(f->name) || http_name_is(f->name, "Host"))
			continue;
		if (http_name_is(f->name, "Cookie")) {
			put_cookies(f->value, out);
			continue;
		}
		if ((origin || referer) && !way->keep_host && t->host.n && put_own_origin(origin ? "Origin" : "Referer", f->value, t, own, out))
			continue;
		buf_add(out, f->name.p, f->name.n);
		buf_str(out, ": ");
		buf_add(out, f->value.p, f->value.n);
		buf_str(out, "\r\n");
	}
}

static int put_target(const struct http_head *h, const struct preview_target *t, struct buf *out, struct err *e)
{
	struct str target = h->target;
	auto_buf struct buf plain = BUF_INIT(HTTP_HEAD_MAX), path = BUF_INIT(HTTP_HEAD_MAX);
	if (target.n == 1 && *target.p == '*' && str_is(h->method, "OPTIONS")) {
		buf_byte(out, '*');
		return 0;
	}
	if (*target.p != '/')
		return err_set(e, ERR_INVALID, "the target of a request here begins with a slash");
	target = (struct str){target.p + t->prefix, target.n - t->prefix};
	if (!target.n || *target.p != '/')
		buf_byte(&path, '/');
	buf_add(&path, target.p, target.n);
	preview_without((struct str){path.p, path.n}, PREVIEW_COOKIE, &plain);
	struct str token = preview_query((struct str){plain.p, plain.n}, "token");
	if (token.p && is_our_token(token))
		preview_without((struct str){plain.p, plain.n}, "token", out);
	else
		buf_add(out, plain.p, plain.n);
	return 0;
}

int preview_put_request(const struct http_head *h, const struct preview_target *t, const struct preview_way *way, struct buf *out,
			struct preview_request *r, struct err *e)
{
	*r = (struct preview_request){.keep = !h->close, .head = str_is(h->method, "HEAD"), .length = h->length};
	r->frame = h->chunked ? FRAME_CHUNKED : h->has_length ? FRAME_LENGTH : FRAME_NONE;
	r->websocket = is_upgrade(h) && str_is(h->method, "GET") && (r->frame == FRAME_NONE || (r->frame == FRAME_LENGTH && !h->length));
	if (str_is(h->method, "CONNECT") || str_is(h->method, "TRACE"))
		return err_set(e, ERR_INVALID, "%.*s is not passed on", (int)h->method.n, h->method.p);
	buf_add(out, h->method.p, h->method.n);
	buf_byte(out, ' ');
	if (put_target(h, t, out, e))
		return -1;
	buf_str(out, " HTTP/1.1\r\n");
	auto_free char *own = way->host ? xstrdup(way->host) : xasprintf("localhost:%u", t->port);
	put(out, "Host", way->keep_host && t->host.n ? t->host : str_of(own));
	put_fields_in(h, t, way, own, out);
	put_forwarded(h, t, way, out);
	put_frame(r->frame, r->length, out);
	buf_str(out, r->websocket ? "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" : "Connection: close\r\n\r\n");
	return out->overflow ? err_set(e, ERR_LIMIT, "the head of the request is too long") : 0;
}

// --- outwards ---

static const char *reason_of(int status)
{
	static const struct {
		int status;
		const char *reason;
	} known[] = {
		{100, "Continue"}, {101, "Switching Protocols"}, {103, "Early Hints"}, {200, "OK"}, {201, "Created"}, {204, "No Content"},
		{206, "Partial Content"}, {301, "Moved Permanently"}, {302, "Found"}, {303, "See Other"}, {304, "Not Modified"},
		{307, "Temporary Redirect"}, {308, "Permanent Redirect"}, {400, "Bad Request"}, {401, "Unauthorized"}, {403, "Forbidden"},
		{404, "Not Found"}, {405, "Method Not Allowed"}, {500, "Internal Server Error"}, {502, "Bad Gateway"},
		{503, "Service Unavailable"},
	};
	for (size_t i = 0; i < countof(known); i++)
		if (known[i].status == status)
			return known[i].reason;
	return status < 300 ? "OK" : status < 400 ? "Redirect" : "Error";
}

// Only for the host that the browser asked, and on a path only below it; never under our own cookie's name.
static void put_set_cookie(struct str v, const struct preview_target *t, const char *prefix, struct buf *out)
{
	struct str part, key;
	bool first = true;
	while (str_next(&v, ';', &part)) {
		part = trimmed(part);
		struct str value = part;
		if (!str_next(&value, '=', &key))
			key = part;
		key = trimmed(key);
		if (first && str_is(key, PREVIEW_COOKIE))
			return;
		bool dropped = !first && (http_name_is(key, "Domain") || (t->form == PREVIEW_PATH && http_name_is(key, "Path")));
		if (!dropped) {
			buf_str(out, first ? "Set-Cookie: " : "; ");
			buf_add(out, part.p, part.n);
		}
		first = false;
	}
	if (!first && t->form == PREVIEW_PATH)
		buf_fmt(out, "; Path=%s/", prefix);
	if (!first)
		buf_str(out, "\r\n");
}

// What the server inside takes for its own address is not where the browser is.
static void put_location(struct str v, const struct preview_target *t, const char *prefix, struct buf *out)
{
	auto_buf struct buf own = BUF_INIT(64), loop = BUF_INIT(64);
	buf_fmt(&own, "http://localhost:%u", t->port);
	buf_fmt(&loop, "http://127.0.0.1:%u", t->port);
	const struct buf *both[] = {&own, &loop};
	for (size_t i = 0; i < countof(both); i++) {
		size_t n = both[i]->n;
		if (v.n >= n && !strncasecmp(v.p, both[i]->p, n) && (v.n == n || v.p[n] == '/')) {
			v = v.n == n ? str_of("/") : (struct str){v.p + n, v.n - n};
			break;
		}
	}
	bool below = v.n && v.p[0] == '/' && !(v.n > 1 && (v.p[1] == '/' || v.p[1] == '\\'));
	buf_fmt(out, "Location: %s", below ? prefix : "");
	buf_add(out, v.p, v.n);
	buf_str(out, "\r\n");
}

static void put_fields_out(const struct http_head *h, const struct preview_target *t, const char *prefix, bool ambient, struct buf *out)
{
	// They speak for more than this one page, or of other places where it could be had.
	// Clear-Site-Data would take the cookies of all names below the public one.
	static const char *const never[] = {"Alt-Svc", "Strict-Transport-Security", "Public-Key-Pins", "Service-Worker-Allowed", "Server-Timing",
					    "Clear-Site-Data", NULL};
	static const char *const ours[] = {"Cross-Origin-Resource-Policy", NULL};
	for (int i = 0; i < h->n_fields; i++) {
		const struct http_field *f = &h->fields[i];
		if (is_hop(h, f->name) || is_one_of(f->name, never) || (ambient && is_one_of(f->name, ours)))
			continue;
		if (http_name_is(f->name, "Set-Cookie")) {
			put_set_cookie(f->value, t, prefix, out);
		} else if (http_name_is(f->name, "Location")) {
			put_location(f->value, t, prefix, out);
		} else {
			buf_add(out, f->name.p, f->name.n);
			buf_str(out, ": ");
			buf_add(out, f->value.p, f->value.n);
			buf_str(out, "\r\n");
		}
	}
}

static enum body_frame frame_of(const struct http_head *h, bool to_head)
{
	if (to_head || h->status < 200 || h->status == 204 || h->status == 304)
		return FRAME_NONE;
	return h->chunked ? FRAME_CHUNKED : h->has_length ? FRAME_LENGTH : FRAME_END;
}

int preview_put_answer(const struct http_head *h, const struct preview_target *t, const struct preview_request *r, bool old,
		       struct buf *out, struct preview_answer *a, struct err *e)
{
	char prefix[sizeof "/preview//65535" + PREVIEW_NAME_MAX] = "";
	*a = (struct preview_answer){.status = h->status, .frame = frame_of(h, r->head), .length = h->length};
	a->websocket = h->status == 101;
	if (a->websocket && (!r->websocket || !is_upgrade(h)))
		return err_set(e, ERR_INVALID, "it changed the protocol and nobody had asked it to");
	if (h->chunked && !h->minor)
		return err_set(e, ERR_INVALID, "Transfer-Encoding in HTTP/1.0");
	if (t->form == PREVIEW_PATH && fmt_to(prefix, sizeof prefix, "/preview/%s/%u", t->sandbox, t->port))
		return err_set(e, ERR_BUG, "prefix");
	bool open_end = a->frame == FRAME_CHUNKED || a->frame == FRAME_END;
	a->chunk = open_end && !old;
	a->close = h->status >= 200 && (!r->keep || (open_end && old));
	buf_fmt(out, "HTTP/1.1 %d %s\r\n", h->status, reason_of(h->status));
	bool guarded = r->ambient && t->form != PREVIEW_PATH && h->status >= 200;
	put_fields_out(h, t, prefix, guarded, out);
	if (guarded) // no other page shows it in a frame, or as an image or a script of its own
		buf_str(out, "Cross-Origin-Resource-Policy: same-origin\r\nContent-Security-Policy: frame-ancestors 'self'\r\n");
	if (t->form == PREVIEW_PATH && h->status >= 200) // its origin is ours: a page from inside gets none at all
		buf_str(out, "Content-Security-Policy: sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads\r\n"
			     "X-Content-Type-Options: nosniff\r\n");
	if (a->chunk)
		buf_str(out, "Transfer-Encoding: chunked\r\n");
	else if (h->has_length && h->status >= 200 && h->status != 204 && a->frame != FRAME_END)
		put_frame(FRAME_LENGTH, h->length, out);
	if (a->websocket)
		buf_str(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	else if (a->close)
		buf_str(out, "Connection: close\r\n");
	buf_str(out, "\r\n");
	return out->overflow ? err_set(e, ERR_LIMIT, "the head of the answer is too long") : 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "gate/hello.h"

#include "base/mem.h"
#include <string.h>
#include <strings.h>

enum {
	RECORD_HEADER = 5,
	RECORD_MAX = 1 << 14,
	RECORD_HANDSHAKE = 22,
	HANDSHAKE_HEADER = 4,
	CLIENT_HELLO = 1,
	EXT_SERVER_NAME = 0,
	EXT_ALPN = 16,
	EXT_ECH = 0xfe0d,
	EXT_ESNI = 0xffce, // its forerunner
	EXTENSIONS = 256,  // more than any client has
	METHOD_MAX = 64,
};

// A strict reader: after the first read past the end `bad` stays set and reads give nothing.
struct cut {
	const uint8_t *p;
	size_t n;
	bool bad;
};

static struct cut cut_bytes(struct cut *c, size_t n)
{
	if (c->bad || n > c->n) {
		c->bad = true;
		c->n = 0;
		return (struct cut){.bad = true};
	}
	struct cut out = {c->p, n, false};
	c->p += n;
	c->n -= n;
	return out;
}

static size_t cut_num(struct cut *c, int bytes)
{
	struct cut part = cut_bytes(c, (size_t)bytes);
	size_t v = 0;
	for (size_t i = 0; i < part.n; i++)
		v = v << 8 | part.p[i];
	return v;
}

static struct cut cut_vector(struct cut *c, int length_bytes)
{
	return cut_bytes(c, cut_num(c, length_bytes));
}

static bool cut_is_end(const struct cut *c)
{
	return !c->bad && !c->n;
}

static bool is_token(uint8_t c)
{
	bool letter = (c | 32) >= 'a' && (c | 32) <= 'z', digit = c >= '0' && c <= '9';
	return letter || digit || (c && strchr("!#$%&'*+-.^_`|~", c));
}

// A whole line: is it a request line of HTTP/1 or the preface of HTTP/2? Loosely read, as loose servers would.
static bool is_request_line(const char *p, size_t n)
{
	for (size_t i = 1; i + 5 < n; i++)
		if ((p[i] == ' ' || p[i] == '\t') && !strncasecmp(p + i + 1, "HTTP/", 5))
			return true;
	return false;
}

static enum sniff sniff_line(const char *p, size_t n)
{
	const char *end = memchr(p, '\n', n);
	size_t len = end ? (size_t)(end - p) : n;
	size_t word = 0;
	while (word < len && is_token((uint8_t)p[word]))
		word++;
	if (!word || word > METHOD_MAX)
		return SNIFF_OTHER;
	for (size_t i = 0; i < len; i++)
		if ((uint8_t)p[i] < 32 && p[i] != '\t' && p[i] != '\r')
			return SNIFF_OTHER;
	if (end)
		return is_request_line(p, len) ? SNIFF_HTTP : SNIFF_OTHER;
	if (n < HELLO_LINE)
		return SNIFF_MORE;
	return SNIFF_HTTP; // who opens it refuses a line this long
}

enum sniff hello_sniff(const void *data, size_t n)
{
	const char *p = data;
	while (n && (*p == '\r' || *p == '\n')) {
		p++;
		n--;
	}
	if (!n)
		return SNIFF_MORE;
	if (p == data && *p == RECORD_HANDSHAKE)
		return n < 2 ? SNIFF_MORE : p[1] == 3 ? SNIFF_TLS : SNIFF_OTHER;
	return sniff_line(p, n);
}

static bool is_blank(uint8_t c)
{
	return c <= ' ' || c >= 0x7f;
}

// METHOD, blanks, and the begin of a target: a path, *, or a scheme. Without a version it is a request of HTTP/0.9.
static bool is_versionless(const char *p, size_t n)
{
	static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"};
	for (size_t i = 0; i < countof(methods); i++) {
		size_t at = strlen(methods[i]);
		if (n <= at || memcmp(p, methods[i], at) || !is_blank((uint8_t)p[at]))
			continue;
		while (at < n && is_blank((uint8_t)p[at]))
			at++;
		if (at == n)
			return n == REQUEST_START; // nothing but blanks: loosely read servers skip them
		return p[at] == '/' || p[at] == '*' || memmem(p + at, n - at, "://", 3);
	}
	return false;
}

// "HTTP/" in any case; blanks before the slash are skipped.
static unsigned version_match(unsigned matched, uint8_t c)
{
	static const char word[] = "HTTP/";
	if (matched == 4 && is_blank(c))
		return matched;
	if ((c & 0xdf) == (word[matched] & 0xdf) && (matched < 4 || c == '/'))
		return matched + 1;
	return (c | 32) == 'h' ? 1 : 0;
}

enum request_scan_state request_scan_feed(struct request_scan *s, const void *data, size_t n)
{
	const uint8_t *p = data;
	for (size_t i = 0; i < n && s->state == SCAN_MORE; i++) {
		if (!s->seen && is_blank(p[i]))
			continue;
		if (p[i] == '\n' || ++s->seen > REQUEST_LINE) {
			s->state = SCAN_OVER;
			break;
		}
		bool at_start = s->n < sizeof s->start;
		if (at_start)
			s->start[s->n++] = (char)p[i];
		s->matched = version_match(s->matched, p[i]);
		if (s->matched == 5 || (at_start && is_versionless(s->start, s->n)))
			s->state = SCAN_REQUEST;
	}
	return s->state;
}

static enum hello_state bad(struct hello *h, const char *why)
{
	h->why = why;
	return HELLO_BAD;
}

// Joins the handshake's pieces out of its records. Gives the message without its header in body.
static enum hello_state join(const uint8_t *p, size_t n, uint8_t *body, size_t *out_n, struct hello *h)
{
	size_t at = 0, have = 0, need = HANDSHAKE_HEADER;
	while (have < need) {
		if (at < n && p[at] != RECORD_HANDSHAKE)
			return bad(h, "not a TLS handshake");
		if (at + 1 < n && p[at + 1] != 3)
			return bad(h, "unknown TLS version");
		if (n - at < RECORD_HEADER)
			return n < HELLO_MAX ? HELLO_MORE : bad(h, "ClientHello too long");
		size_t len = (size_t)p[at + 3] << 8 | p[at + 4];
		if (!len || len > RECORD_MAX || at + RECORD_HEADER + len > HELLO_MAX)
			return bad(h, len ? "ClientHello too long" : "empty TLS record");
		at += RECORD_HEADER;
		size_t take = len < n - at ? len : n - at;
		memcpy(body + have, p + at, take);
		have += take;
		at += take;
		if (have && body[0] != CLIENT_HELLO)
			return bad(h, "not a ClientHello");
		if (have >= HANDSHAKE_HEADER && need == HANDSHAKE_HEADER)
			need += (size_t)body[1] << 16 | (size_t)body[2] << 8 | body[3];
		if (need > HELLO_MAX)
			return bad(h, "ClientHello too long");
		if (take < len)
			return HELLO_MORE;
	}
	if (have != need)
		return bad(h, "bytes after the ClientHello in its record");
	h->n = at;
	*out_n = have - HANDSHAKE_HEADER;
	memmove(body, body + HANDSHAKE_HEADER, *out_n);
	return HELLO_OK;
}

static enum hello_state read_server_name(struct cut ext, struct hello *h)
{
	struct err e;
	struct cut list = cut_vector(&ext, 2);
	if (!cut_is_end(&ext) || list.bad || cut_num(&list, 1) != 0)
		return bad(h, "malformed server name");
	struct cut name = cut_vector(&list, 2);
	if (name.bad || !cut_is_end(&list))
		return bad(h, "malformed server name");
	if (host_parse((const char *)name.p, name.n, &h->sni, &e))
		return bad(h, "the server name is not a host name");
	h->has_sni = true;
	return HELLO_OK;
}

static enum hello_state read_alpn(struct cut ext, struct hello *h)
{
	struct cut list = cut_vector(&ext, 2);
	if (!cut_is_end(&ext) || list.bad)
		return bad(h, "malformed protocol list");
	while (list.n) {
		struct cut name = cut_vector(&list, 1);
		if (name.bad || !name.n)
			return bad(h, "malformed protocol list");
		h->h2 |= name.n == 2 && !memcmp(name.p, "h2", 2);
	}
	return HELLO_OK;
}

static enum hello_state read_extensions(struct cut list, struct hello *h)
{
	size_t seen[EXTENSIONS], n = 0;
	while (list.n) {
		size_t type = cut_num(&list, 2);
		struct cut ext = cut_vector(&list, 2);
		enum hello_state rc = HELLO_OK;
		if (ext.bad || n == EXTENSIONS)
			return bad(h, "malformed extensions");
		for (size_t i = 0; i < n; i++)
			if (seen[i] == type)
				return bad(h, "an extension twice");
		seen[n++] = type;
		if (type == EXT_SERVER_NAME)
			rc = read_server_name(ext, h);
		else if (type == EXT_ALPN)
			rc = read_alpn(ext, h);
		else if (type == EXT_ECH || type == EXT_ESNI)
			h->ech = true;
		if (rc != HELLO_OK)
			return rc;
	}
	return HELLO_OK;
}

enum hello_state hello_parse(const void *p, size_t n, struct hello *out)
{
	uint8_t body[HELLO_MAX];
	size_t body_n = 0;
	*out = (struct hello){0};
	enum hello_state rc = join(p, n, body, &body_n, out);
	if (rc != HELLO_OK)
		return rc;
	struct cut c = {body, body_n, false};
	size_t version = cut_num(&c, 2);
	cut_bytes(&c, 32); // random
	struct cut session = cut_vector(&c, 1), ciphers = cut_vector(&c, 2), methods = cut_vector(&c, 1);
	if (c.bad || version < 0x0300 || version > 0x0303 || session.n > 32 || !ciphers.n || ciphers.n % 2 ||
	    !methods.n)
		return bad(out, "malformed ClientHello");
	if (!c.n)
		return HELLO_OK; // no extensions: an old client, and so no server name
	struct cut extensions = cut_vector(&c, 2);
	if (extensions.bad || !cut_is_end(&c))
		return bad(out, "malformed ClientHello");
	return read_extensions(extensions, out);
}

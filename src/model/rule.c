// SPDX-License-Identifier: Apache-2.0
// One rule: text to struct and back. The text is also its binary form (policy.c), so there is one validator.
#include "model/policy_int.h"

#include "base/mem.h"
#include "base/str.h"
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define METHOD_MAX 32

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_escape(const char *p, size_t n)
{
	return n >= 3 && p[0] == '%' && hex_value(p[1]) >= 0 && hex_value(p[2]) >= 0;
}

static bool decode(const char *p, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] != '%') {
			if ((unsigned char)p[i] >= 0x80) // raw: servers do not agree on its meaning
				return false;
			buf_byte(out, p[i]);
			continue;
		}
		if (!is_escape(p + i, n - i))
			return false;
		buf_byte(out, (char)(hex_value(p[i + 1]) << 4 | hex_value(p[i + 2])));
		i += 2;
	}
	return !out->overflow;
}

static bool has_odd_byte(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)p[i] < 0x20 || p[i] == 0x7f || p[i] == '\\' || p[i] == ';' ||
		    is_escape(p + i, n - i)) // encoded twice
			return true;
	return !str_is_utf8(p, n); // overlong forms hide dots and slashes
}

// p starts with '/'. An empty segment is fine only at the end.
static bool has_odd_segment(const char *p, size_t n)
{
	struct str rest = {p + 1, n - 1}, s;
	while (str_next(&rest, '/', &s))
		if ((!s.n && rest.p) || str_is(s, ".") || str_is(s, ".."))
			return true;
	return false;
}

char *path_canonical(const char *target, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (target[i] == '?' || target[i] == '#')
			n = i;
	if (!n || target[0] != '/')
		return NULL;
	auto_buf struct buf b = BUF_INIT(n + 1);
	if (!decode(target, n, &b) || has_odd_byte(b.p, b.n) || has_odd_segment(b.p, b.n))
		return NULL;
	return buf_take(&b);
}

void rule_done(struct rule *r)
{
	free(r->method);
	free(r->path);
	free(r->address);
	free(r->from);
	*r = (struct rule){0};
}

static int take_method(struct str s, struct rule *r, struct err *e)
{
	bool ok = s.n && s.n <= METHOD_MAX && s.p[0] != '-';
	for (size_t i = 0; i < s.n; i++)
		ok = ok && ((s.p[i] >= 'A' && s.p[i] <= 'Z') || s.p[i] == '-');
	if (!ok)
		return err_set(e, ERR_INVALID, "a method is written in capitals, as GET");
	r->method = xstrndup(s.p, s.n);
	return 0;
}

// What stands as itself in a rule's path; the rest is written as %XX.
static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("-._~!$&'()+,:@/", c));
}

static int take_path(struct str s, struct rule *r, struct err *e)
{
	bool prefix = s.p[s.n - 1] == '*';
	size_t n = prefix ? s.n - 1 : s.n;
	for (size_t i = 0; i < n; i++) {
		if (s.p[i] == '*')
			return err_set(e, ERR_INVALID, "a '*' in a path stands only at its end");
		if (!is_plain(s.p[i]) && s.p[i] != '%')
			return err_set(e, ERR_INVALID, "byte 0x%02x in the path is written as %%%02X",
				       (unsigned char)s.p[i], (unsigned char)s.p[i]);
	}
	auto_free char *path = path_canonical(s.p, n);
	if (!path || strchr(path, '*'))
		return err_set(e, ERR_INVALID, "the path has '//', '.' or '..' parts, ';', '*', '\\' or a bad escape");
	r->path = prefix ? xasprintf("%s*", path) : take(&path);
	return 0;
}

static int take_v4(const char *text, char *out, struct err *e)
{
	struct in_addr a;
	if (inet_pton(AF_INET, text, &a) != 1)
		return err_set(e, ERR_INVALID, "after '=' stands an address, 1.2.3.4 or [::1]");
	uint32_t v = ntohl(a.s_addr);
	if (v >> 24 == 0 || v >> 28 >= 14)
		return err_set(e, ERR_INVALID, "nothing can listen on that address");
	inet_ntop(AF_INET, &a, out, INET6_ADDRSTRLEN);
	return 0;
}

static int take_v6(const char *text, char *out, struct err *e)
{
	struct in6_addr a;
	if (inet_pton(AF_INET6, text, &a) != 1)
		return err_set(e, ERR_INVALID, "after '=' stands an address, 1.2.3.4 or [::1]");
	if (IN6_IS_ADDR_V4MAPPED(&a) || IN6_IS_ADDR_V4COMPAT(&a))
		return err_set(e, ERR_INVALID, "write an IPv4 address as 1.2.3.4");
	if (IN6_IS_ADDR_UNSPECIFIED(&a) || IN6_IS_ADDR_MULTICAST(&a))
		return err_set(e, ERR_INVALID, "nothing can listen on that address");
	inet_ntop(AF_INET6, &a, out, INET6_ADDRSTRLEN);
	return 0;
}

static int take_address(struct str s, struct rule *r, struct err *e)
{
	char canonical[INET6_ADDRSTRLEN];
	bool v6 = s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']';
	auto_free char *text = v6 ? xstrndup(s.p + 1, s.n - 2) : xstrndup(s.p, s.n);
	if (v6 ? take_v6(text, canonical, e) : take_v4(text, canonical, e))
		return -1;
	r->address = xstrdup(canonical);
	return 0;
}

// No name looks like this: digits and dots up to the end, a '/' or a ':'; a bracket; or two colons.
static bool is_range(struct str s)
{
	size_t n = 0;
	while (n < s.n && ((s.p[n] >= '0' && s.p[n] <= '9') || s.p[n] == '.'))
		n++;
	if (n && (n == s.n || s.p[n] == '/' || s.p[n] == ':'))
		return true;
	const char *slash = memchr(s.p, '/', s.n), *colon = memchr(s.p, ':', s.n);
	size_t head = slash ? (size_t)(slash - s.p) : s.n;
	return s.p[0] == '[' || (colon && colon < s.p + head && memchr(colon + 1, ':', (size_t)(s.p + head - colon - 1)));
}

// Inside a cell these are its own, or nobody's.
static int check_range(const struct rule *r, struct err *e)
{
	static const char *const nobodys[] = {"this network", "unspecified", "multicast", "mapped"};
	const char *kind = range_kind(&r->range);
	if (r->deny || !kind)
		return 0;
	if (!strcmp(kind, "loopback"))
		return err_set(e, ERR_INVALID, "loopback is the sandbox's own inside; a port of the host is given by --expose-host");
	if (!strcmp(kind, "synthetic"))
		return err_set(e, ERR_INVALID, "198.18.0.0/15 stands for names inside a sandbox; allow the name");
	for (size_t i = 0; i < countof(nobodys); i++)
		if (!strcmp(kind, nobodys[i]))
			return err_set(e, ERR_INVALID, "nothing can listen on that address");
	return 0;
}

// RANGE[:port]
static int take_range(struct str s, struct rule *r, struct err *e)
{
	struct str port;
	if (range_split(s.p, s.n, &r->range, &port, e))
		return -1;
	r->any_port = str_is(port, "*");
	if (port.p && !r->any_port && port_parse(port.p, port.n, &r->port, e))
		return -1;
	if (r->any_port && r->deny) // it is what a denial without a port says
		r->any_port = false;
	return check_range(r, e);
}

// [*.]host[:port][/path][=ADDR]
static int take_target(struct str s, struct rule *r, struct err *e)
{
	struct str address = s, name;
	str_next(&address, '=', &s);
	if (is_range(s))
		return address.p ? err_set(e, ERR_INVALID, "an address has no other address") : take_range(s, r, e);
	if (address.p && take_address(address, r, e))
		return -1;
	const char *slash = memchr(s.p, '/', s.n);
	name = (struct str){s.p, slash ? (size_t)(slash - s.p) : s.n};
	if (slash && take_path((struct str){slash, s.n - name.n}, r, e))
		return -1;
	if (name.n == 1 && name.p[0] == '*')
		return err_set(e, ERR_INVALID,
			       "a rule names a host or *.host; for everything there is the preset open");
	r->wildcard = name.n > 2 && name.p[0] == '*' && name.p[1] == '.';
	if (r->wildcard)
		name = (struct str){name.p + 2, name.n - 2};
	if (host_port_parse(name.p, name.n, &r->host, &r->port, e))
		return -1;
	if (!strcmp(r->host.s, "open") || !strcmp(r->host.s, "pass")) // its text could not be told from the word
		return err_set(e, ERR_INVALID, "a rule can not name a host called open or pass");
	return 0;
}

static int check_whole(const struct rule *r, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(RULE_TEXT + 1);
	if (r->deny && (r->address || r->open || r->pass))
		return err_set(e, ERR_INVALID, "a rule that denies takes no address, open or pass");
	if (r->range.family && (r->method || r->open || r->pass))
		return err_set(e, ERR_INVALID, "a rule for addresses takes a port and nothing else: requests are judged by name");
	if (r->pass && (r->method || r->path))
		return err_set(e, ERR_INVALID, "what is passed untouched has no method or path to judge");
	rule_print(&b, r);
	return b.overflow ? err_set(e, ERR_LIMIT, "the rule is longer than %d bytes", RULE_TEXT) : 0;
}

static int parse(const char *s, struct rule *r, struct err *e)
{
	struct str rest = str_of(s), part, words[4];
	int n = 0;
	if (rest.n > RULE_TEXT)
		return err_set(e, ERR_LIMIT, "the rule is longer than %d bytes", RULE_TEXT);
	s += strspn(s, " ");
	r->deny = *s == '!';
	rest = str_of(s + r->deny);
	while (str_next(&rest, ' ', &part)) {
		if (n == 4)
			return err_set(e, ERR_INVALID, "too many words");
		if (part.n)
			words[n++] = part;
	}
	if (n > 1 && (str_is(words[n - 1], "open") || str_is(words[n - 1], "pass")))
		*(words[--n].p[0] == 'o' ? &r->open : &r->pass) = true;
	if (!n || n > 2)
		return err_set(e, ERR_INVALID, n ? "too many words" : "it is empty");
	if (n == 2 && take_method(words[0], r, e))
		return -1;
	if (host_is_url(words[n - 1].p, words[n - 1].n))
		return err_set(e, ERR_INVALID, "a rule has no scheme: write host, host:port or host/path");
	return take_target(words[n - 1], r, e) || check_whole(r, e) ? -1 : 0;
}

static bool is_printable(const char *s)
{
	size_t n = 0;
	while (s[n] >= 0x20 && s[n] < 0x7f && n < 100)
		n++;
	return !s[n];
}

int rule_parse(const char *s, const char *from, struct rule *out, struct err *e)
{
	struct rule r = {0};
	if (strlen(from) > FROM_MAX)
		return err_set(e, ERR_LIMIT, "the origin of a rule is longer than %d bytes", FROM_MAX);
	if (parse(s, &r, e)) {
		rule_done(&r);
		return is_printable(s) ? err_wrap(e, "rule \"%s\"", s) : err_wrap(e, "rule");
	}
	r.from = xstrdup(from);
	*out = r;
	return 0;
}

static void print_path(struct buf *b, const char *path)
{
	for (const char *p = path; *p; p++)
		if (is_plain(*p) || (*p == '*' && !p[1]))
			buf_byte(b, *p);
		else
			buf_fmt(b, "%%%02X", (unsigned char)*p);
}

static void print_range(struct buf *b, const struct range *r)
{
	buf_str(b, r->family == 6 ? "[" : "");
	range_print(b, r);
	buf_str(b, r->family == 6 ? "]" : "");
}

void rule_print(struct buf *b, const struct rule *r)
{
	buf_fmt(b, "%s%s%s%s%s", r->deny ? "!" : "", r->method ? r->method : "", r->method ? " " : "",
		r->wildcard ? "*." : "", r->host.s);
	if (r->range.family)
		print_range(b, &r->range);
	buf_str(b, r->any_port ? ":*" : "");
	if (r->port)
		buf_fmt(b, ":%u", r->port);
	if (r->path)
		print_path(b, r->path);
	if (r->address)
		buf_fmt(b, strchr(r->address, ':') ? "=[%s]" : "=%s", r->address);
	buf_str(b, r->open ? " open" : r->pass ? " pass" : "");
}

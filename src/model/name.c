// SPDX-License-Identifier: Apache-2.0
// Strict on purpose: every spelling that two programs could read differently is refused here, once.
#include "model/name.h"

#include "base/str.h"
#include <string.h>

#define LABEL_MAX 63
#define NAME_MAX_LEN (sizeof((struct host_name *)0)->s - 1)

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z');
}

static bool is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f');
}

// Why a byte can not stand in a name; NULL when it can. Upper case was folded before.
static const char *byte_fault(unsigned char c)
{
	if (is_alnum((char)c) || c == '-' || c == '_' || c == '.')
		return NULL;
	if (!c)
		return "has a NUL byte";
	if (c < 0x20 || c == 0x7f)
		return "has a control character";
	if (c >= 0x80)
		return "is not ASCII; write it in its xn-- form";
	if (c == ' ')
		return "has a space";
	if (c == '%')
		return "has a '%'; names are not percent-encoded";
	if (c == ':' || c == '[' || c == ']')
		return "is an IPv6 address or has a stray ':'; rules are by name";
	if (c == '*')
		return "has a '*'; a wildcard is *.NAME and only in a rule";
	if (c == '@')
		return "has an '@'; leave the user out";
	if (c == '/' || c == '\\')
		return "has a slash; give the host alone";
	return "has a character that no host name has";
}

static const char *label_fault(const char *p, size_t n)
{
	if (!n)
		return "has an empty label";
	if (n > LABEL_MAX)
		return "has a label over 63 bytes";
	if (p[0] == '-' || p[n - 1] == '-')
		return "has a label that starts or ends with '-'";
	if (memchr(p + 1, '_', n - 1))
		return "has a '_' that is not the first byte of its label";
	return NULL;
}

// The rule of the URL standard: a last label that is a number makes the whole an IPv4 address to some resolver.
static bool is_number(const char *p, size_t n)
{
	bool hex = n >= 2 && p[0] == '0' && p[1] == 'x';
	for (size_t i = hex ? 2 : 0; i < n; i++)
		if (hex ? !is_hex(p[i]) : !is_digit(p[i]))
			return false;
	return true;
}

static const char *labels_fault(const char *p, size_t n)
{
	struct str rest = {p, n}, label = {0};
	while (str_next(&rest, '.', &label)) {
		const char *fault = label_fault(label.p, label.n);
		if (fault)
			return fault;
	}
	return is_number(label.p, label.n) ? "is an IPv4 address in some spelling; rules are by name" : NULL;
}

static const char *canonical(const char *p, size_t n, struct host_name *out)
{
	memset(out, 0, sizeof *out);
	if (n && p[n - 1] == '.')
		n--;
	if (!n)
		return "is empty";
	for (size_t i = 0; i < n; i++) {
		char c = p[i] >= 'A' && p[i] <= 'Z' ? (char)(p[i] - 'A' + 'a') : p[i];
		const char *fault = byte_fault((unsigned char)c);
		if (fault)
			return fault;
		if (i >= NAME_MAX_LEN)
			return "is longer than 253 bytes";
		out->s[i] = c;
	}
	return labels_fault(out->s, n);
}

int host_parse(const char *p, size_t n, struct host_name *out, struct err *e)
{
	struct host_name h;
	const char *fault = canonical(p, n, &h);
	if (fault)
		return err_set(e, ERR_INVALID, "the host name %s", fault);
	*out = h;
	return 0;
}

int port_parse(const char *p, size_t n, uint16_t *out, struct err *e)
{
	uint64_t v;
	if (str_to_u64((struct str){p, n}, 1, 65535, &v))
		return err_set(e, ERR_INVALID, "a port is a plain number from 1 to 65535");
	*out = (uint16_t)v;
	return 0;
}

bool host_is_url(const char *p, size_t n)
{
	return n > 3 && memmem(p, n, "://", 3);
}

int host_port_parse(const char *s, size_t n, struct host_name *h, uint16_t *port, struct err *e)
{
	struct host_name host;
	uint16_t given = 0;
	const char *colon = n ? memchr(s, ':', n) : NULL;
	size_t head = colon ? (size_t)(colon - s) : n, tail = n - head;
	if (host_is_url(s, n))
		return err_set(e, ERR_INVALID, "that is a URL: name the host alone, as host or host:port");
	// Two colons or a bracket: an IPv6 address, which host_parse refuses by name when it sees the whole.
	bool address = colon && (memchr(colon + 1, ':', tail - 1) || memchr(s, '[', n));
	if (host_parse(s, address ? n : head, &host, e))
		return -1;
	if (colon && port_parse(colon + 1, tail - 1, &given, e))
		return -1;
	*h = host;
	*port = given;
	return 0;
}

bool host_equal(const struct host_name *a, const struct host_name *b)
{
	return !strcmp(a->s, b->s);
}

bool host_is_below(const struct host_name *h, const struct host_name *zone)
{
	size_t n = strlen(h->s), m = strlen(zone->s);
	return m && n > m + 1 && h->s[n - m - 1] == '.' && !memcmp(h->s + n - m, zone->s, m);
}

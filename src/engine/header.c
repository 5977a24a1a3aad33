// SPDX-License-Identifier: Apache-2.0
// Headers that the gate sets for one sandbox on requests to a host over TLS. They are the sandbox's own, so no other can use
// them and they go with it; a fork has them too. To the gate each is a secret with the place set:HEADER. A line is
// "[*.]HOST[:PORT]\tHEADER\tVALUE" as it comes (443 without a port), and has hex of the sealed value in its last field as it is kept.
#include "engine/net_int.h"
#include "engine/vault_int.h"

#include "base/mem.h"
#include "base/seal.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define VALUE_MAX 8192

struct line {
	struct str host, header, value;
};

static struct line line_of(const char *text)
{
	struct str rest = str_of(text);
	struct line l = {0};
	str_next(&rest, '\t', &l.host);
	str_next(&rest, '\t', &l.header);
	l.value = rest;
	return l;
}

static int parse_host(struct str s, struct secret_ref *out, struct err *e)
{
	out->wildcard = s.n > 2 && !memcmp(s.p, "*.", 2);
	size_t skip = out->wildcard ? 2 : 0;
	return host_port_parse(s.p + skip, s.n - skip, &out->host, &out->port, e);
}

// Owned parts of *out; its name and placeholder are those of the n-th line.
static int parse(const char *text, size_t n, struct secret_ref *out, struct err *e)
{
	struct line l = line_of(text);
	auto_free char *as = xasprintf("set:%.*s", (int)l.header.n, l.header.p);
	struct secret_ref s = {0};
	if (parse_host(l.host, &s, e) || secret_as_parse(as, &s.as, &s.key, e))
		return err_wrap(e, "header %.*s for %.*s", (int)(l.header.n < 60 ? l.header.n : 60), l.header.p,
				(int)(l.host.n < 80 ? l.host.n : 80), l.host.p);
	s.name = xasprintf("HEADER_%zu", n + 1);
	s.placeholder = xasprintf(PLACEHOLDER_PLAIN "HEADER_%zu_is_set", n + 1);
	*out = s;
	return 0;
}

static int check_value(struct str v, struct err *e)
{
	if (!v.n || v.n > VALUE_MAX)
		return err_set(e, v.n ? ERR_LIMIT : ERR_INVALID, "the value of a header that is set has 1 to %d bytes", VALUE_MAX);
	for (size_t i = 0; i < v.n; i++)
		if ((unsigned char)v.p[i] < 0x20 || v.p[i] == 0x7f)
			return err_set(e, ERR_INVALID, "the value of a header that is set holds a control character at byte %zu", i + 1);
	return 0;
}

int headers_check(char *const *lines, struct err *e)
{
	if (strv_len(lines) > HEADERS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d headers are set", HEADERS_MAX);
	for (size_t i = 0; lines && lines[i]; i++) {
		struct secret_ref s;
		if (check_value(line_of(lines[i]).value, e) || parse(lines[i], i, &s, e))
			return -1;
		secret_ref_done(&s);
	}
	return 0;
}

// What it is bound to is sealed with it. Not the sandbox: a fork has the same.
static char *sealed_as(const struct line *l)
{
	return xasprintf("header %.*s %.*s", (int)l->host.n, l->host.p, (int)l->header.n, l->header.p);
}

char **headers_seal(struct engine *g, char *const *lines, struct err *e)
{
	const struct seal *key = engine_seal(g, e);
	char **out = key ? xcalloc(1, sizeof *out) : NULL;
	for (size_t i = 0; key && lines[i]; i++) {
		struct line l = line_of(lines[i]);
		auto_free char *as = sealed_as(&l);
		auto_buf struct buf sealed = BUF_INIT(VALUE_MAX + 1024), text = BUF_INIT(4 * VALUE_MAX);
		seal_lock(key, as, l.value.p, l.value.n, &sealed);
		buf_fmt(&text, "%.*s\t%.*s\t", (int)l.host.n, l.host.p, (int)l.header.n, l.header.p);
		for (size_t k = 0; k < sealed.n; k++)
			buf_fmt(&text, "%02x", (unsigned char)sealed.p[k]);
		strv_add(&out, buf_cstr(&text));
	}
	return out;
}

int headers_add(struct policy *p, char *const *lines, struct err *e)
{
	for (size_t i = 0; lines && lines[i]; i++) {
		struct secret_ref s;
		if (parse(lines[i], i, &s, e) || policy_add_secret(p, &s, e))
			return -1;
	}
	return 0;
}

static int hex_value(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int header_value(struct engine *g, char *const *lines, const char *name, struct buf *out, struct err *e)
{
	uint64_t n;
	const char *number = name + strlen("HEADER_");
	if (str_to_u64(str_of(number), 1, strv_len(lines), &n))
		return err_set(e, ERR_BUG, "no header %s", name);
	struct line l = line_of(lines[n - 1]);
	auto_free char *as = sealed_as(&l);
	auto_buf struct buf sealed = BUF_INIT(VALUE_MAX + 1024);
	for (size_t i = 0; i + 1 < l.value.n; i += 2) {
		int high = hex_value(l.value.p[i]), low = hex_value(l.value.p[i + 1]);
		if (high < 0 || low < 0)
			return err_set(e, ERR_INVALID, "header %.*s: malformed in the database", (int)l.header.n, l.header.p);
		buf_byte(&sealed, (char)(high << 4 | low));
	}
	const struct seal *key = engine_seal(g, e);
	if (!key || seal_unlock(key, as, sealed.p, sealed.n, out, e) || vault_expand(g, out, e))
		return err_wrap(e, "header %.*s", (int)l.header.n, l.header.p);
	return 0;
}

char **headers_names(char *const *lines)
{
	char **out = xcalloc(1, sizeof *out);
	for (; lines && *lines; lines++) {
		struct line l = line_of(*lines);
		auto_free char *name = xasprintf("%.*s %.*s", (int)l.host.n, l.host.p, (int)l.header.n, l.header.p);
		strv_add(&out, name);
	}
	return out;
}

void headers_wipe(char **lines)
{
	for (char **l = lines; l && *l; l++)
		explicit_bzero(*l, strlen(*l));
	strv_free(lines);
}

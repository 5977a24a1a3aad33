// SPDX-License-Identifier: Apache-2.0
// Which handler a request is for: the target split and decoded, compared with the tables.
#include "api/route.h"

#include "base/id.h"
#include "model/imageref.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/volume.h"
#include <stdlib.h>
#include <string.h>

static int hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

// Owned; NULL for a NUL byte or half an escape: nobody means that well.
char *percent_decode(struct str s, bool plus)
{
	char *out = xcalloc(1, s.n + 1), *o = out;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (c == '%') {
			int a = i + 1 < s.n ? hex(s.p[i + 1]) : -1, b = i + 2 < s.n ? hex(s.p[i + 2]) : -1;
			if (a < 0 || b < 0 || !(a | b)) {
				free(out);
				return NULL;
			}
			c = (char)(a << 4 | b);
			i += 2;
		} else if (c == '+' && plus) {
			c = ' ';
		}
		*o++ = c;
	}
	return out;
}

// The segments that stand where the pattern has {}, as they came.
struct taken {
	struct str p[REQUEST_PARTS];
	int n;
};

static bool take_part(struct taken *t, struct str s)
{
	if (t->n == countof(t->p))
		return false;
	t->p[t->n++] = s;
	return true;
}

static bool path_fits(const char *pattern, struct str got, struct taken *t)
{
	struct str pat = str_of(pattern + 1), a, b;
	t->n = 0;
	for (;;) {
		if (pat.n == 3 && !memcmp(pat.p, "{*}", 3))
			return take_part(t, got);
		bool more_a = str_next(&pat, '/', &a), more_b = str_next(&got, '/', &b);
		if (!more_a || !more_b)
			return more_a == more_b;
		if (a.n == 2 && a.p[0] == '{' && b.n ? !take_part(t, b) : a.n != b.n || memcmp(a.p, b.p, a.n))
			return false;
	}
}

static int keep_parts(struct request *r, const struct taken *t, struct err *e)
{
	for (int i = 0; i < t->n; i++) {
		char *part = percent_decode(t->p[i], false);
		if (!part)
			return err_set(e, ERR_INVALID, "the path has a broken escape");
		r->parts[r->n_parts++] = part;
	}
	return 0;
}

static int split_query(struct request *r, struct str s, struct err *e)
{
	size_t n = 0;
	struct str pair;
	for (struct str rest = s; str_next(&rest, '&', &pair);)
		n++;
	r->query = xcalloc(2 * n + 1, sizeof *r->query);
	for (char **q = r->query; str_next(&s, '&', &pair);) {
		struct str name = pair, value = {0};
		const char *eq = memchr(pair.p, '=', pair.n);
		if (eq) {
			name.n = (size_t)(eq - pair.p);
			value = (struct str){eq + 1, pair.n - name.n - 1};
		}
		if (!pair.n)
			continue;
		q[0] = percent_decode(name, true);
		q[1] = q[0] ? percent_decode(value, true) : NULL;
		if (!q[1])
			return err_set(e, ERR_INVALID, "the query has a broken escape");
		q += 2;
	}
	return 0;
}

static int check_parts(const struct request *r, struct err *e)
{
	static const char names[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
	static const char references[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/@-[]";
	if (r->surface->any_parts)
		return 0;
	if (!strcmp(r->route->path, "/v1/secrets/{}"))
		return strlen(r->parts[0]) <= 64 && strspn(r->parts[0], names) == strlen(r->parts[0])
			       ? 0
			       : err_set(e, ERR_INVALID, "not the name of a secret");
	if (!strcmp(r->route->path, "/v1/images/{}")) // a reference names an image as well
		return strlen(r->parts[0]) <= IMAGE_REF_MAX && strspn(r->parts[0], references) == strlen(r->parts[0])
			       ? 0
			       : err_set(e, ERR_INVALID, "not an id, a name or a reference of an image");
	if (str_has_prefix(r->route->path, "/v1/volumes/"))
		return volume_name_is(r->parts[0]) || id_is(r->parts[0]) ? 0 : err_set(e, ERR_INVALID, "not the name or id of a volume");
	for (int i = 0; i < r->n_parts; i++)
		if (strlen(r->parts[i]) > 40 ||
		    strspn(r->parts[i], "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(r->parts[i]))
			return err_set(e, ERR_INVALID, "not an id or a name: only a-z, 0-9 and - occur in them");
	return 0;
}

int route_find(struct request *r, const struct surface *const *surfaces, const char *method, struct err *e)
{
	size_t n = strcspn(r->target, "?#");
	struct str path = {r->target, n}, query = str_of(r->target + n + (r->target[n] == '?'));
	struct taken taken;
	bool known = false;
	while (*surfaces && (*surfaces)->mine && !(*surfaces)->mine(r))
		surfaces++;
	r->surface = *surfaces ? *surfaces : surfaces[-1];
	if (!n || path.p[0] != '/')
		return err_set(e, ERR_INVALID, "the target must be a path");
	if (split_query(r, query, e))
		return -1;
	size_t skip = r->surface->prefix ? strlen(r->surface->prefix) : 0;
	if (skip && path.n > skip && !memcmp(path.p, r->surface->prefix, skip) && path.p[skip] == '/')
		path = (struct str){path.p + skip, path.n - skip};
	path.p++, path.n--;
	for (const struct route *t = r->surface->routes; t->method; t++) {
		if (!path_fits(t->path, path, &taken))
			continue;
		known = true;
		if (strcmp(t->method, method))
			continue;
		r->route = t;
		return keep_parts(r, &taken, e) ? -1 : check_parts(r, e);
	}
	return err_set(e, ERR_NOT_FOUND, known ? "%s is not possible here" : "no such path (%s)", method);
}

const char *request_query(struct request *r, const char *key)
{
	for (char **q = r->query; q && *q; q += 2)
		if (!strcmp(q[0], key))
			return q[1];
	return NULL;
}

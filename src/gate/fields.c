// SPDX-License-Identifier: Apache-2.0
#include "gate/fields.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void wipe(char *s, bool ours)
{
	if (s && ours)
		explicit_bzero(s, strlen(s));
	free(s);
}

static void field_done(struct field *f)
{
	free(f->name);
	wipe(f->value, f->ours);
}

void head_done(struct head *h)
{
	for (size_t i = 0; i < h->n; i++)
		field_done(&h->f[i]);
	free(h->f);
	free(h->method);
	wipe(h->path, h->path_ours);
	*h = (struct head){0};
}

void head_add(struct head *h, struct str name, struct str value)
{
	if (h->n == h->cap) {
		h->cap = h->cap ? h->cap * 2 : 16;
		h->f = xrealloc(h->f, h->cap * sizeof *h->f);
	}
	h->f[h->n++] = (struct field){xstrndup(name.p, name.n), xstrndup(value.p, value.n), false};
	h->bytes += name.n + value.n;
}

bool head_add_bounded(struct head *h, struct str name, struct str value)
{
	if (h->n >= HTTP_FIELDS_MAX || name.n + value.n > HTTP_HEAD_MAX || h->bytes > HTTP_HEAD_MAX - name.n - value.n)
		return false;
	head_add(h, name, value);
	return true;
}

const char *head_get(const struct head *h, const char *name)
{
	for (size_t i = 0; i < h->n; i++)
		if (!strcasecmp(h->f[i].name, name))
			return h->f[i].value;
	return NULL;
}

bool head_lists(const struct head *h, const char *name, const char *token)
{
	for (size_t i = 0; i < h->n; i++)
		if (!strcasecmp(h->f[i].name, name) && http_list_has(str_of(h->f[i].value), token))
			return true;
	return false;
}

void head_drop_at(struct head *h, size_t i)
{
	field_done(&h->f[i]);
	memmove(&h->f[i], &h->f[i + 1], (h->n - i - 1) * sizeof *h->f);
	h->n--;
}

void head_drop(struct head *h, const char *name)
{
	for (size_t i = h->n; i-- > 0;)
		if (!strcasecmp(h->f[i].name, name))
			head_drop_at(h, i);
}

void head_value(struct field *f, const char *p, size_t n, bool ours)
{
	wipe(f->value, f->ours);
	f->value = xstrndup(p, n);
	f->ours = ours;
}

bool query_next(struct str *rest, struct str *pair)
{
	size_t n = 0;
	if (!rest->p)
		return false;
	while (n < rest->n && rest->p[n] != '&' && rest->p[n] != ';')
		n++;
	*pair = (struct str){rest->p, n};
	*rest = n < rest->n ? (struct str){rest->p + n + 1, rest->n - n - 1} : (struct str){NULL, 0};
	return true;
}

struct str query_key(struct str pair)
{
	const char *equals = memchr(pair.p, '=', pair.n);
	return (struct str){pair.p, equals ? (size_t)(equals - pair.p) : pair.n};
}

// What Connection may not take away: naming them there is how one server is made to read another request than the next.
static bool is_fixed(const char *name)
{
	static const char *const fixed[] = {"Host", "Content-Length", "Transfer-Encoding", "Content-Encoding",
					    "Authorization"};
	for (size_t i = 0; i < countof(fixed); i++)
		if (!strcasecmp(name, fixed[i]))
			return true;
	return false;
}

void head_strip_hops(struct head *h, bool keep_upgrade)
{
	static const char *const hops[] = {"Connection",	 "Keep-Alive",		"Proxy-Connection",
					   "Proxy-Authenticate", "Proxy-Authorization", "Transfer-Encoding",
					   "Content-Length"};
	bool trailers = head_lists(h, "TE", "trailers");
	for (size_t i = h->n; i-- > 0;)
		if (!is_fixed(h->f[i].name) && strcasecmp(h->f[i].name, "Connection") &&
		    (!keep_upgrade || strcasecmp(h->f[i].name, "Upgrade")) && head_lists(h, "Connection", h->f[i].name))
			head_drop_at(h, i);
	for (size_t i = 0; i < countof(hops); i++)
		head_drop(h, hops[i]);
	if (!keep_upgrade)
		head_drop(h, "Upgrade");
	head_drop(h, "TE");
	if (trailers)
		head_add(h, str_of("TE"), str_of("trailers"));
}

// SPDX-License-Identifier: Apache-2.0
#include "gate/swap.h"

#include "base/mem.h"
#include "gate/credential.h"
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define VALUE_MAX (256u << 10)
#define PLACEHOLDER_START "skep_" // what every placeholder begins with: one search tells that there is none

static void wiped(struct buf *b)
{
	if (b->p)
		explicit_bzero(b->p, b->cap);
	buf_done(b);
}
#define secret_buf __attribute__((cleanup(wiped)))

static bool is_bound_here(const struct swap *s, const struct secret_ref *r)
{
	return r->as != SECRET_SSH && s->verified && policy_binds(s->policy, r, s->host, s->port);
}

bool swap_is_bound(const struct swap *s)
{
	for (size_t i = 0; i < s->policy->n_secrets; i++)
		if (is_bound_here(s, &s->policy->secrets[i]))
			return true;
	return false;
}

bool swap_knows_host(const struct swap *s)
{
	for (size_t i = 0; i < s->policy->n_secrets; i++) {
		const struct secret_ref *r = &s->policy->secrets[i];
		if (r->as != SECRET_SSH && !secret_ref_is_plain(r) && host_equal(&r->host, s->host))
			return true;
	}
	return false;
}

static const struct secret_value *value_of(const struct swap *s, const struct secret_ref *r)
{
	for (size_t i = 0; i < s->n_values; i++)
		if (!strcmp(s->values[i].name, r->name) && s->values[i].n)
			return &s->values[i];
	return NULL;
}

void swap_place(const struct secret_ref *r, struct buf *out)
{
	buf_str(out, secret_as_name(r->as));
	if (r->key)
		buf_fmt(out, ":%s", r->key);
}

// A value that could end a header line would let one secret write another header: it is not usable there.
static bool fits_header(const struct secret_value *v)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->value[i] < ' ' || v->value[i] == 0x7f)
			return false;
	return true;
}

// text with every placeholder replaced by p; false when there is none.
static bool replace(struct str text, const char *placeholder, struct str by, struct buf *out)
{
	size_t k = strlen(placeholder);
	const char *at;
	bool any = false;
	while (k && (at = memmem(text.p, text.n, placeholder, k))) {
		buf_add(out, text.p, (size_t)(at - text.p));
		buf_add(out, by.p, by.n);
		text = (struct str){at + k, text.n - (size_t)(at - text.p) - k};
		any = true;
	}
	buf_add(out, text.p, text.n);
	return any;
}

static bool swap_value(struct field *f, size_t from, const char *placeholder, const struct secret_value *v)
{
	secret_buf struct buf b = BUF_INIT(VALUE_MAX);
	struct str text = {f->value + from, strlen(f->value + from)};
	buf_add(&b, f->value, from);
	if (!fits_header(v) || !replace(text, placeholder, (struct str){(char *)v->value, v->n}, &b) || b.overflow)
		return false;
	head_value(f, b.p, b.n, true);
	return true;
}

// Length of "Scheme " at the start of an Authorization value, 0 when it is another scheme.
static size_t scheme(const char *value, const char *name)
{
	size_t n = strlen(name);
	if (strncasecmp(value, name, n) || value[n] != ' ')
		return 0;
	while (value[n] == ' ')
		n++;
	return n;
}

// Decodes the credentials of Basic; false when they are not base64.
static bool basic_decode(const char *b64, struct buf *out)
{
	size_t n = strlen(b64);
	if (!n || n % 4 || n > VALUE_MAX)
		return false;
	char *room = buf_room(out, n / 4 * 3);
	int got = room ? EVP_DecodeBlock((uint8_t *)room, (const uint8_t *)b64, (int)n) : -1;
	if (got < 0)
		return false;
	out->n += (size_t)got;
	for (int i = 1; i <= 2 && b64[n - (size_t)i] == '='; i++)
		out->n--;
	return true;
}

static bool swap_basic(struct field *f, const char *placeholder, const struct secret_value *v)
{
	secret_buf struct buf plain = BUF_INIT(VALUE_MAX), clear = BUF_INIT(VALUE_MAX), b = BUF_INIT(VALUE_MAX * 2);
	size_t from = scheme(f->value, "Basic");
	if (!from || !basic_decode(f->value + from, &plain))
		return false;
	if (!replace((struct str){plain.p, plain.n}, placeholder, (struct str){(char *)v->value, v->n}, &clear))
		return false;
	buf_str(&b, "Basic ");
	char *room = buf_room(&b, (clear.n + 2) / 3 * 4 + 1);
	if (!room || clear.overflow)
		return false;
	b.n += (size_t)EVP_EncodeBlock((uint8_t *)room, (const uint8_t *)clear.p, (int)clear.n);
	head_value(f, b.p, b.n, true);
	return true;
}

static void add_percent(struct buf *b, const struct secret_value *v)
{
	for (size_t i = 0; i < v->n; i++) {
		uint8_t c = v->value[i];
		if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c && strchr("-._~", c)))
			buf_byte(b, (char)c);
		else
			buf_fmt(b, "%%%02X", c);
	}
}

static void set_path(struct head *h, struct buf *b, bool ours)
{
	if (h->path_ours)
		explicit_bzero(h->path, strlen(h->path));
	free(h->path);
	h->path = xstrndup(buf_cstr(b), b->n);
	h->path_ours |= ours;
}

static bool is_bound_query(const struct swap *s, struct str key)
{
	for (size_t i = 0; i < s->policy->n_secrets; i++) {
		const struct secret_ref *r = &s->policy->secrets[i];
		if (r->as == SECRET_QUERY && is_bound_here(s, r) && credential_key_is(key, r->key))
			return true;
	}
	return false;
}

// key=PLACEHOLDER in the query. A key of that name without our placeholder is a credential of the client: it goes.
static bool swap_query(struct head *h, const struct secret_ref *r, const struct secret_value *v)
{
	secret_buf struct buf b = BUF_INIT(VALUE_MAX), value = BUF_INIT(VALUE_MAX);
	struct str rest = str_of(h->path), part;
	bool any = false, first = true;
	add_percent(&value, v);
	str_next(&rest, '?', &part);
	buf_add(&b, part.p, part.n);
	while (query_next(&rest, &part)) {
		bool here = credential_key_is(query_key(part), r->key);
		secret_buf struct buf one = BUF_INIT(VALUE_MAX);
		bool swapped = here && replace(part, r->placeholder, (struct str){value.p, value.n}, &one);
		any |= swapped;
		if (here && !swapped)
			continue;
		buf_byte(&b, first ? '?' : part.p[-1]);
		buf_add(&b, swapped ? one.p : part.p, swapped ? one.n : part.n);
		first = false;
	}
	if (b.overflow)
		return false;
	set_path(h, &b, any);
	return any;
}

static bool swap_field(struct field *f, const struct secret_ref *r, const struct secret_value *v)
{
	bool auth = !strcasecmp(f->name, "Authorization");
	size_t from;
	switch (r->as) {
	case SECRET_HEADER:
		return !strcasecmp(f->name, r->key) && swap_value(f, 0, r->placeholder, v);
	case SECRET_BEARER:
		from = auth ? scheme(f->value, "Bearer") : 0;
		return from && swap_value(f, from, r->placeholder, v);
	case SECRET_BASIC:
	case SECRET_GIT:
		return auth && swap_basic(f, r->placeholder, v);
	case SECRET_FILE:
		return auth && (swap_basic(f, r->placeholder, v) || swap_value(f, 0, r->placeholder, v));
	case SECRET_QUERY:
	case SECRET_SET: // whatever the client sent (set)
	case SECRET_SSH: // the agent's (agent.c)
	case SECRET_AS:
		break;
	}
	return false;
}

// A value that was put in is never searched again: one secret's value can not name another's placeholder.
static bool swap_one(struct head *h, const struct secret_ref *r, const struct secret_value *v)
{
	bool any = r->as == SECRET_QUERY && swap_query(h, r, v);
	for (size_t i = 0; i < h->n; i++)
		if (!h->f[i].ours && swap_field(&h->f[i], r, v))
			any = true;
	return any;
}

static const char *injected_name(const struct secret_ref *r)
{
	return r->as == SECRET_HEADER ? r->key : r->as == SECRET_BEARER ? "Authorization" : NULL;
}

static bool inject(struct head *h, const struct secret_ref *r, const struct secret_value *v)
{
	secret_buf struct buf b = BUF_INIT(VALUE_MAX);
	const char *name = injected_name(r);
	if (!name || !fits_header(v))
		return false;
	for (size_t i = 0; i < h->n; i++)
		if (h->f[i].ours && !strcasecmp(h->f[i].name, name))
			return false;
	head_drop(h, name);
	if (r->as == SECRET_BEARER)
		buf_str(&b, "Bearer ");
	buf_add(&b, v->value, v->n);
	head_add(h, str_of(name), str_of("")); // filled below, so that one place owns the copying of secrets
	head_value(&h->f[h->n - 1], b.p, b.n, true);
	return true;
}

static bool set(struct head *h, const struct secret_ref *r, const struct secret_value *v)
{
	if (r->as != SECRET_SET || !fits_header(v))
		return false;
	head_drop(h, r->key);
	head_add(h, str_of(r->key), str_of(""));
	head_value(&h->f[h->n - 1], (const char *)v->value, v->n, true);
	return true;
}

// Whatever stands there goes, also a placeholder.
static void clear_set(const struct swap *s, struct head *h)
{
	for (size_t i = 0; i < s->policy->n_secrets; i++)
		if (s->policy->secrets[i].as == SECRET_SET && is_bound_here(s, &s->policy->secrets[i]))
			head_drop(h, s->policy->secrets[i].key);
}

static bool is_bound_header(const struct swap *s, const char *name)
{
	for (size_t i = 0; i < s->policy->n_secrets; i++) {
		const struct secret_ref *r = &s->policy->secrets[i];
		const char *own = r->as == SECRET_SET ? r->key : injected_name(r);
		if (own && is_bound_here(s, r) && !strcasecmp(name, own))
			return true;
	}
	return false;
}

// Some secret bound here is a credential of this host, not only a header that is set.
static bool has_credential(const struct swap *s)
{
	for (size_t i = 0; i < s->policy->n_secrets; i++)
		if (s->policy->secrets[i].as != SECRET_SET && is_bound_here(s, &s->policy->secrets[i]))
			return true;
	return false;
}

static void drop_credentials(const struct swap *s, struct head *h)
{
	bool all = has_credential(s);
	for (size_t i = h->n; i-- > 0;)
		if (!h->f[i].ours && ((all && credential_is_field(h->f[i].name)) || is_bound_header(s, h->f[i].name)))
			head_drop_at(h, i);
}

// A credential stands in one field: of several that a value was put into, the first counts.
static void drop_repeats(struct head *h)
{
	for (size_t i = 0; i < h->n; i++)
		for (size_t k = h->n; h->f[i].ours && --k > i;)
			if (h->f[k].ours && !strcasecmp(h->f[i].name, h->f[k].name))
				head_drop_at(h, k);
}

// A query without credentials of the client's own stays byte for byte what it is: it may be signed.
static void drop_query(const struct swap *s, struct head *h)
{
	secret_buf struct buf b = BUF_INIT(VALUE_MAX);
	struct str rest = str_of(h->path), part;
	bool first = true, dropped = false;
	str_next(&rest, '?', &part);
	buf_add(&b, part.p, part.n);
	while (query_next(&rest, &part)) {
		if (credential_is_query(query_key(part)) && !is_bound_query(s, query_key(part))) {
			dropped = true;
			continue;
		}
		buf_byte(&b, first ? '?' : part.p[-1]);
		buf_add(&b, part.p, part.n);
		first = false;
	}
	if (dropped && !b.overflow)
		set_path(h, &b, false);
}

static const char *placeholder_in(const struct swap *s, const char *p, size_t n)
{
	const char *at = n ? memmem(p, n, PLACEHOLDER_START, strlen(PLACEHOLDER_START)) : NULL;
	if (!at)
		return NULL;
	n -= (size_t)(at - p);
	for (size_t i = 0; i < s->policy->n_secrets; i++) {
		const struct secret_ref *r = &s->policy->secrets[i];
		if (r->placeholder && *r->placeholder && memmem(at, n, r->placeholder, strlen(r->placeholder)))
			return r->name;
	}
	for (size_t i = 0; i < s->n_values; i++)
		if (*s->values[i].placeholder &&
		    memmem(at, n, s->values[i].placeholder, strlen(s->values[i].placeholder)))
			return s->values[i].name;
	return NULL;
}

static const char *placeholder_in_field(const struct swap *s, const struct field *f)
{
	auto_buf struct buf plain = BUF_INIT(VALUE_MAX);
	const char *name = placeholder_in(s, f->name, strlen(f->name));
	if (!name && !f->ours)
		name = placeholder_in(s, f->value, strlen(f->value));
	size_t from = scheme(f->value, "Basic");
	if (!name && !f->ours && from && basic_decode(f->value + from, &plain))
		name = placeholder_in(s, plain.p, plain.n);
	return name;
}

// The path is searched without what was put in: a swapped query no longer has its own placeholder.
static const char *stray(const struct swap *s, const struct head *h)
{
	const char *name = h->path ? placeholder_in(s, h->path, strlen(h->path)) : NULL;
	for (size_t i = 0; i < h->n && !name; i++)
		name = placeholder_in_field(s, &h->f[i]);
	return name;
}

typedef bool put_fn(struct head *h, const struct secret_ref *r, const struct secret_value *v);

// Every secret bound here whose value is known, put in by fn.
static int put_bound(const struct swap *s, struct head *h, put_fn *fn, struct swap_used *used, int n)
{
	for (size_t i = 0; i < s->policy->n_secrets && n < POLICY_SECRETS; i++) {
		const struct secret_ref *r = &s->policy->secrets[i];
		const struct secret_value *v = is_bound_here(s, r) ? value_of(s, r) : NULL;
		if (v && fn(h, r, v))
			used[n++] = (struct swap_used){r, v};
	}
	return n;
}

// What the client asked for first; what needs no asking only if it asked for nothing, and only once it is known that no
// placeholder stands where it may not.
int swap_request(const struct swap *s, struct head *h, struct swap_used *used, const char **out_name)
{
	bool bound = swap_is_bound(s);
	int n = bound ? put_bound(s, h, swap_one, used, 0) : 0;
	clear_set(s, h);
	*out_name = stray(s, h);
	if (*out_name)
		return -1;
	if (bound && !n)
		n = put_bound(s, h, inject, used, 0);
	if (bound)
		n = put_bound(s, h, set, used, n);
	if (has_credential(s))
		drop_query(s, h);
	if (bound)
		drop_credentials(s, h);
	drop_repeats(h);
	return n;
}

const char *swap_trailer(const struct swap *s, struct head *trailer)
{
	if (swap_is_bound(s))
		drop_credentials(s, trailer);
	return stray(s, trailer);
}

const char *swap_search_add(const struct swap *s, struct swap_search *q, const char *p, size_t n)
{
	if (q->seen >= SWAP_BODY)
		return NULL;
	n = n < SWAP_BODY - q->seen ? n : (size_t)(SWAP_BODY - q->seen);
	q->seen += n;
	auto_buf struct buf joint = BUF_INIT(2 * sizeof q->tail);
	buf_add(&joint, q->tail, q->n_tail);
	buf_add(&joint, p, n < sizeof q->tail ? n : sizeof q->tail);
	const char *name = placeholder_in(s, joint.p, joint.n);
	if (!name)
		name = placeholder_in(s, p, n);
	const char *from = n >= sizeof q->tail ? p + n : joint.p + joint.n;
	size_t have = n >= sizeof q->tail ? n : joint.n, keep = have < sizeof q->tail - 1 ? have : sizeof q->tail - 1;
	if (keep)
		memcpy(q->tail, from - keep, keep);
	q->n_tail = keep;
	return name;
}

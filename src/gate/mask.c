// SPDX-License-Identifier: Apache-2.0
// A position is looked at closely only when its two bytes start some form: one table look-up for nearly all bytes.
// Forms live in OpenSSL's secure heap (locked, not dumped) when there is one and it has room, and are wiped when they go.
#include "gate/mask.h"

#include "base/mem.h"
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#define FORM_MIN 8 // shorter values are searched for as they are, not encoded: the forms would match by chance
#define FORM_MAX (64u << 10)
#define FORMS_SECURE (128u << 10) // of the secure heap: the rest is for the keys of connections, which get no other

struct form {
	char *p; // OPENSSL_secure_clear_free knows where it is
	size_t n;
	const char *placeholder; // borrowed from the set
};

struct mask_set {
	unsigned users;
	struct form *forms;
	size_t n, cap, longest;
	char **placeholders;
	uint8_t pairs[8192]; // bit set of the first two bytes of every form
};

static char *keep(const char *p, size_t n)
{
	bool secure = CRYPTO_secure_malloc_initialized() && CRYPTO_secure_used() + n <= FORMS_SECURE;
	char *copy = secure ? OPENSSL_secure_malloc(n) : NULL;
	copy = copy ? copy : OPENSSL_malloc(n);
	if (!copy)
		abort();
	return memcpy(copy, p, n);
}

static void add_form(struct mask_set *s, const char *p, size_t n, const char *placeholder)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->forms[i].n == n && !memcmp(s->forms[i].p, p, n))
			return;
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 16;
		s->forms = xrealloc(s->forms, s->cap * sizeof *s->forms);
	}
	s->forms[s->n++] = (struct form){keep(p, n), n, placeholder};
	s->longest = n > s->longest ? n : s->longest;
	for (unsigned second = 0; second < 256; second++) {
		unsigned pair = (unsigned)(uint8_t)p[0] << 8 | (n > 1 ? (uint8_t)p[1] : second);
		s->pairs[pair >> 3] |= (uint8_t)(1u << (pair & 7));
	}
}

// The characters of the base64 of (lead bytes + value + anything) that depend on the value alone.
static void add_base64(struct mask_set *s, const struct secret_value *v, size_t lead, bool url)
{
	static const char std[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	auto_buf struct buf b = BUF_INIT(FORM_MAX * 2);
	size_t bits = (lead + v->n) * 8, first = (lead * 8 + 5) / 6 * 6;
	for (size_t at = first; at + 6 <= bits; at += 6) {
		unsigned c = 0;
		for (size_t i = at; i < at + 6; i++)
			c = c << 1 | (v->value[i / 8 - lead] >> (7 - i % 8) & 1u);
		char ch = std[c];
		buf_byte(&b, !url ? ch : ch == '+' ? '-' : ch == '/' ? '_' : ch);
	}
	add_form(s, b.p, b.n, v->placeholder);
	explicit_bzero(b.p, b.cap);
}

static bool is_plain_in(const char *safe, uint8_t c)
{
	return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c && strchr(safe, c));
}

// safe: what stands as itself beside letters and digits.
static void add_percent(struct mask_set *s, const struct secret_value *v, const char *safe, bool upper, bool plus)
{
	auto_buf struct buf b = BUF_INIT(FORM_MAX * 3);
	for (size_t i = 0; i < v->n; i++)
		if (is_plain_in(safe, v->value[i]))
			buf_byte(&b, (char)v->value[i]);
		else if (plus && v->value[i] == ' ')
			buf_byte(&b, '+');
		else
			buf_fmt(&b, upper ? "%%%02X" : "%%%02x", v->value[i]);
	add_form(s, b.p, b.n, v->placeholder);
	explicit_bzero(b.p, b.cap);
}

static void add_json(struct mask_set *s, const struct secret_value *v, bool slash)
{
	auto_buf struct buf b = BUF_INIT(FORM_MAX * 6);
	for (size_t i = 0; i < v->n; i++) {
		uint8_t c = v->value[i];
		if (c == '"' || c == '\\' || (c == '/' && slash))
			buf_byte(&b, '\\');
		if (c == '\n')
			buf_str(&b, "\\n");
		else if (c == '\r' || c == '\t')
			buf_str(&b, c == '\r' ? "\\r" : "\\t");
		else if (c < ' ')
			buf_fmt(&b, "\\u%04x", c);
		else
			buf_byte(&b, (char)c);
	}
	add_form(s, b.p, b.n, v->placeholder);
	explicit_bzero(b.p, b.cap);
}

static void add_hex(struct mask_set *s, const struct secret_value *v, bool upper)
{
	auto_buf struct buf b = BUF_INIT(FORM_MAX * 2);
	for (size_t i = 0; i < v->n; i++)
		buf_fmt(&b, upper ? "%02X" : "%02x", v->value[i]);
	add_form(s, b.p, b.n, v->placeholder);
	explicit_bzero(b.p, b.cap);
}

// What common writers of JSON and HTML put for single characters.
struct dialect {
	const char *from;
	const char *to[8];
};

static const struct dialect dialects[] = {
	{"\"\\<>&", {"\\\"", "\\\\", "\\u003c", "\\u003e", "\\u0026"}},
	{"\"\\<>&'+`", {"\\u0022", "\\\\", "\\u003C", "\\u003E", "\\u0026", "\\u0027", "\\u002B", "\\u0060"}},
	{"&<>\"'", {"&amp;", "&lt;", "&gt;", "&quot;", "&#x27;"}},
	{"&<>\"'", {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}},
	{"&<>\"'", {"&amp;", "&lt;", "&gt;", "&quot;", "&#039;"}},
	{"&<>\"'", {"&amp;", "&lt;", "&gt;", "&quot;", "'"}},
	{"&<>\"'+", {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;", "&#43;"}},
	{"&<>\"'+", {"&amp;", "&lt;", "&gt;", "&quot;", "&#x27;", "&#x2B;"}},
};

static void add_dialect(struct mask_set *s, const struct secret_value *v, const struct dialect *d)
{
	auto_buf struct buf b = BUF_INIT(FORM_MAX * 6);
	for (size_t i = 0; i < v->n; i++) {
		const char *at = v->value[i] ? strchr(d->from, v->value[i]) : NULL;
		if (at)
			buf_str(&b, d->to[at - d->from]);
		else
			buf_byte(&b, (char)v->value[i]);
	}
	add_form(s, b.p, b.n, v->placeholder);
	explicit_bzero(b.p, b.cap);
}

static void add_value(struct mask_set *s, const struct secret_value *v)
{
	add_form(s, (const char *)v->value, v->n, v->placeholder);
	if (v->n < FORM_MIN)
		return;
	for (size_t lead = 0; lead < 3; lead++) {
		add_base64(s, v, lead, false);
		add_base64(s, v, lead, true);
	}
	// RFC 3986; encodeURIComponent; a path with and without its own characters.
	static const char *const safe[] = {"-._~", "-._~!'()*", "-._~/", "-._~/!$&'()*+,;=:@"};
	for (size_t k = 0; k < countof(safe); k++)
		for (int i = 0; i < 4; i++)
			add_percent(s, v, safe[k], i & 1, i & 2);
	for (int i = 0; i < 2; i++) {
		add_json(s, v, i);
		add_hex(s, v, i);
	}
	for (size_t k = 0; k < countof(dialects); k++)
		add_dialect(s, v, &dialects[k]);
}

// user:password in one value: the password alone is as secret as the whole.
static void add_password(struct mask_set *s, const struct secret_value *v)
{
	const uint8_t *colon = memchr(v->value, ':', v->n);
	if (!colon || v->n - (size_t)(colon - v->value) - 1 < FORM_MIN)
		return;
	struct secret_value part = *v;
	part.value = (uint8_t *)colon + 1;
	part.n = v->n - (size_t)(colon - v->value) - 1;
	add_value(s, &part);
}

struct mask_set *mask_set_new(const struct secret_value *v, size_t n)
{
	struct mask_set *s = xcalloc(1, sizeof *s);
	s->users = 1;
	for (size_t i = 0; i < n; i++) {
		// One with line ends is a private key, which is never sent: nothing can echo it.
		if (!v[i].n || v[i].n > FORM_MAX || memchr(v[i].value, '\n', v[i].n) || str_has_prefix(v[i].placeholder, PLACEHOLDER_PLAIN))
			continue;
		strv_add(&s->placeholders, v[i].placeholder);
		struct secret_value one = v[i];
		one.placeholder = s->placeholders[strv_len(s->placeholders) - 1];
		add_value(s, &one);
		add_password(s, &one);
	}
	if (s->n)
		return s;
	mask_set_put(s);
	return NULL;
}

struct mask_set *mask_set_get(struct mask_set *s)
{
	if (s)
		s->users++;
	return s;
}

void mask_set_put(struct mask_set *s)
{
	if (!s || --s->users)
		return;
	for (size_t i = 0; i < s->n; i++)
		OPENSSL_secure_clear_free(s->forms[i].p, s->forms[i].n);
	free(s->forms);
	strv_free(s->placeholders);
	free(s);
}

void mask_init(struct mask *m, struct mask_set *set, bool same_length)
{
	*m = (struct mask){.set = set, .held = BUF_INIT(FORM_MAX * 8), .same_length = same_length};
}

void mask_done(struct mask *m)
{
	if (m->held.p)
		explicit_bzero(m->held.p, m->held.cap);
	buf_done(&m->held);
	mask_set_put(m->set);
	*m = (struct mask){0};
}

// What begins at p: a form (returned, the longest), or *begun that may become one with more bytes.
static const struct form *form_at(const struct mask_set *s, const char *p, size_t n, const struct form **begun)
{
	const struct form *best = NULL;
	for (size_t i = 0; i < s->n; i++) {
		const struct form *f = &s->forms[i];
		size_t k = f->n < n ? f->n : n;
		if (f->p[0] != p[0] || memcmp(f->p, p, k))
			continue;
		if (f->n > n)
			*begun = !*begun || f->n < (*begun)->n ? f : *begun;
		else if (!best || f->n > best->n)
			best = f;
	}
	return best;
}

// True when no form can begin with these two bytes (one, at the end of what is there).
static bool is_plain(const struct mask_set *s, const char *p, size_t n)
{
	if (n < 2)
		return false;
	unsigned pair = (unsigned)(uint8_t)p[0] << 8 | (uint8_t)p[1];
	return !(s->pairs[pair >> 3] & 1u << (pair & 7));
}

// From at on, n bytes that it stands for.
static void put(struct mask *m, const struct form *f, size_t at, size_t n, struct buf *out)
{
	m->found++;
	if (!m->same_length) {
		buf_str(out, f->placeholder);
		return;
	}
	for (size_t i = at < m->told ? m->told : at; i < at + n; i++)
		buf_byte(out, '*');
}

static void put_clean(const struct mask *m, const char *p, size_t from, size_t to, struct buf *out)
{
	from = from < m->told ? m->told : from;
	if (from < to)
		buf_add(out, p + from, to - from);
}

// A text that ends inside a value tells it too when most of it is there.
static bool is_telling(const struct form *f, size_t n)
{
	return f && n >= FORM_MIN && n >= f->n / 2;
}

// Copies p to out with forms replaced; returns how many bytes were dealt with (the rest may be the start of a form).
static size_t scan(struct mask *m, const char *p, size_t n, bool end, struct buf *out)
{
	size_t clean = 0, at = 0;
	while (at < n) {
		const struct form *begun = NULL;
		const struct form *f = is_plain(m->set, p + at, n - at) ? NULL : form_at(m->set, p + at, n - at, &begun);
		if (begun && !end)
			break;
		size_t len = f ? f->n : n - at;
		f = f ? f : is_telling(begun, len) ? begun : NULL;
		if (!f) {
			at++;
			continue;
		}
		put_clean(m, p, clean, at, out);
		put(m, f, at, len, out);
		clean = at += len;
	}
	put_clean(m, p, clean, at, out);
	m->told = m->told > at ? m->told - at : 0;
	return at;
}

void mask_add(struct mask *m, const void *p, size_t n, bool end, struct buf *out)
{
	if (!m->set) {
		buf_add(out, p, n);
		return;
	}
	if (!m->held.n) {
		size_t used = scan(m, p, n, end, out);
		if (used < n)
			buf_add(&m->held, (const char *)p + used, n - used);
		return;
	}
	buf_add(&m->held, p, n);
	buf_cut(&m->held, scan(m, m->held.p, m->held.n, end, out));
}

bool mask_holds(const struct mask *m)
{
	return m->held.n > m->told && m->held.n < FORM_MIN;
}

void mask_late(struct mask *m, struct buf *out)
{
	const struct form *begun = NULL;
	if (!mask_holds(m))
		return;
	form_at(m->set, m->held.p, m->held.n, &begun);
	if (begun && m->held.n > begun->n / 2)
		return;
	buf_add(out, m->held.p + m->told, m->held.n - m->told);
	m->told = m->held.n;
}

bool mask_text(struct mask_set *set, const char *p, size_t n, struct buf *out)
{
	struct mask m = {.set = set};
	if (!set)
		return false;
	auto_buf struct buf b = BUF_INIT(n + (n + 1) * 512);
	scan(&m, p, n, true, &b);
	if (!m.found)
		return false;
	buf_add(out, b.p, b.n);
	return true;
}

// SPDX-License-Identifier: Apache-2.0
#include "gate/override.h"

#include "base/mem.h"
#include <string.h>
#include <strings.h>

#define KEY_MAX 128 // longer ones are no names that a server would know

static bool is_alnum(char c)
{
	return ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9');
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

// Letters and digits of a key, escapes undone. *marked: something else stands before them, as in _method.
static void key_fold(struct str key, char out[KEY_MAX + 1], bool *marked)
{
	size_t n = 0;
	*marked = false;
	for (size_t i = 0; i < key.n && n < KEY_MAX; i++) {
		char c = key.p[i];
		if (c == '%' && i + 2 < key.n && hex_digit(key.p[i + 1]) >= 0 && hex_digit(key.p[i + 2]) >= 0) {
			c = (char)(hex_digit(key.p[i + 1]) << 4 | hex_digit(key.p[i + 2]));
			i += 2;
		}
		if (is_alnum(c))
			out[n++] = c;
		else if (!n && c != ' ' && c != '+')
			*marked = true;
	}
	out[n] = 0;
}

static bool is_method_key(struct str key)
{
	char plain[KEY_MAX + 1];
	bool marked;
	key_fold(key, plain, &marked);
	if (!strcasestr(plain, "method") && !strcasestr(plain, "verb"))
		return false;
	return marked || strcasestr(plain, "http") || strcasestr(plain, "override");
}

static bool has_part(const char *name, const char *part)
{
	return strcasestr(name, part) != NULL;
}

// Asks a browser's question before another request, which is judged itself.
static bool is_method_field(const char *name)
{
	if (!strcasecmp(name, "Access-Control-Request-Method"))
		return false;
	return has_part(name, "method") || has_part(name, "verb") || has_part(name, "override");
}

static bool is_path_word(const char *p, size_t n)
{
	static const char *const ends[] = {"url", "uri", "path"};
	static const char *const words[] = {"copy", "destination", "location", "prefix", "script"};
	for (size_t i = 0; i < countof(ends); i++) {
		size_t k = strlen(ends[i]);
		if (n >= k && (!strncasecmp(p, ends[i], k) || !strncasecmp(p + n - k, ends[i], k)))
			return true;
	}
	for (size_t i = 0; i < countof(words); i++)
		if (n == strlen(words[i]) && !strncasecmp(p, words[i], n))
			return true;
	return false;
}

static bool is_path_field(const char *name)
{
	if (has_part(name, "rewrit") || has_part(name, "redirect"))
		return true;
	for (const char *p = name, *end; *p; p = end) {
		while (*p && !is_alnum(*p))
			p++;
		for (end = p; is_alnum(*end); end++)
			;
		if (end > p && is_path_word(p, (size_t)(end - p)))
			return true;
	}
	return false;
}

static const char *query_override(const char *path)
{
	struct str rest = str_of(path), pair;
	str_next(&rest, '?', &pair);
	while (query_next(&rest, &pair))
		if (is_method_key(query_key(pair)))
			return "a key of the query";
	return NULL;
}

// A form that is packed can not be read here, and some servers unpack it.
static const char *packed_form(const struct head *h)
{
	struct form_scan f;
	const char *coding = head_get(h, "Content-Encoding");
	form_scan_begin(&f, h, (struct looked_at){.method = true});
	return f.kind && coding && strcasecmp(coding, "identity") ? "a form with Content-Encoding" : NULL;
}

const char *head_override(const struct head *h, struct looked_at counts)
{
	for (size_t i = 0; i < h->n; i++)
		if ((counts.method && is_method_field(h->f[i].name)) || (counts.path && is_path_field(h->f[i].name)))
			return h->f[i].name;
	if (!counts.method)
		return NULL;
	const char *in_query = query_override(h->path);
	return in_query ? in_query : packed_form(h);
}

void form_scan_begin(struct form_scan *f, const struct head *h, struct looked_at counts)
{
	bool typed = false;
	*f = (struct form_scan){0};
	if (!counts.method)
		return;
	for (size_t i = 0; i < h->n; i++) {
		if (strcasecmp(h->f[i].name, "Content-Type"))
			continue;
		typed = true;
		if (has_part(h->f[i].value, "multipart/"))
			f->kind = FORM_PARTS;
		else if (has_part(h->f[i].value, "urlencoded") && !f->kind)
			f->kind = FORM_PAIRS;
	}
	if (!typed && h->method && strcmp(h->method, "GET") && strcmp(h->method, "HEAD"))
		f->kind = FORM_PAIRS; // some servers take it for one
}

// Content-Disposition: form-data; name="KEY"
static bool part_line_says(const struct form_scan *f)
{
	static const char start[] = "Content-Disposition";
	const char *end = f->text + f->n;
	if (f->n < sizeof start || strncasecmp(f->text, start, sizeof start - 1))
		return false;
	for (const char *p = f->text; p + 4 < end; p++) {
		if (strncasecmp(p, "name", 4))
			continue;
		const char *key = p + 4;
		while (key < end && strchr("* \t=\"'", *key))
			key++;
		size_t n = 0;
		while (key + n < end && !strchr("\";\r", key[n]))
			n++;
		const char *quotes = memmem(key, n, "''", 2); // name*=utf-8''KEY
		if (quotes) {
			n -= (size_t)(quotes + 2 - key);
			key = quotes + 2;
		}
		if (is_method_key((struct str){key, n}))
			return true;
	}
	return false;
}

static bool scan_parts(struct form_scan *f, char c)
{
	bool says = false;
	if (f->folded && c != ' ' && c != '\t') {
		says = part_line_says(f);
		f->n = 0;
	}
	f->folded = c == '\n';
	if (f->n < sizeof f->text)
		f->text[f->n++] = c ? c : ' ';
	return says;
}

static bool scan_pairs(struct form_scan *f, char c)
{
	bool ends = c == '&' || c == ';', says = false;
	if (!f->skip && (ends || c == '=')) {
		says = is_method_key((struct str){f->text, f->n});
		f->n = 0;
		f->skip = true;
	}
	if (ends)
		f->skip = false;
	else if (!f->skip && f->n < sizeof f->text)
		f->text[f->n++] = c;
	return says;
}

bool form_scan_add(struct form_scan *f, const char *p, size_t n)
{
	for (size_t i = 0; i < n && f->kind; i++)
		if (f->kind == FORM_PARTS ? scan_parts(f, p[i]) : scan_pairs(f, p[i]))
			return true;
	return false;
}

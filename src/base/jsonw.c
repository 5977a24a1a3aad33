// SPDX-License-Identifier: Apache-2.0
#include "base/jsonw.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include <string.h>

static void separate(struct jsonw *w)
{
	if (w->comma)
		buf_byte(w->b, ',');
	w->comma = true;
}

void jw_open(struct jsonw *w, char bracket)
{
	separate(w);
	buf_byte(w->b, bracket);
	w->comma = false;
}

void jw_close(struct jsonw *w, char bracket)
{
	buf_byte(w->b, bracket);
	w->comma = true;
}

static bool is_plain(unsigned char c, bool utf8)
{
	return c >= 0x20 && c != '"' && c != '\\' && c != 0x7f && (c < 0x80 || utf8);
}

static void quoted(struct jsonw *w, const char *p, size_t n)
{
	bool utf8 = str_is_utf8(p, n);
	buf_byte(w->b, '"');
	for (size_t i = 0; i < n; i++) {
		size_t plain = i;
		while (plain < n && is_plain((unsigned char)p[plain], utf8))
			plain++;
		buf_add(w->b, p + i, plain - i);
		if ((i = plain) == n)
			break;
		unsigned char c = (unsigned char)p[i];
		if (c == '"' || c == '\\')
			buf_fmt(w->b, "\\%c", c);
		else if (c == '\n')
			buf_str(w->b, "\\n");
		else
			buf_fmt(w->b, "\\u%04x", c);
	}
	buf_byte(w->b, '"');
}

void jw_key(struct jsonw *w, const char *key)
{
	separate(w);
	quoted(w, key, strlen(key));
	buf_byte(w->b, ':');
	w->comma = false;
}

void jw_str(struct jsonw *w, const char *p, size_t n)
{
	separate(w);
	quoted(w, p, n);
}

void jw_u64(struct jsonw *w, uint64_t v)
{
	separate(w);
	buf_u64(w->b, v);
}

void jw_i64(struct jsonw *w, int64_t v)
{
	separate(w);
	buf_fmt(w->b, "%lld", (long long)v);
}

void jw_bool(struct jsonw *w, bool v)
{
	separate(w);
	buf_str(w->b, v ? "true" : "false");
}

void jw_null(struct jsonw *w)
{
	separate(w);
	buf_str(w->b, "null");
}

void jw_raw(struct jsonw *w, const char *json)
{
	separate(w);
	buf_str(w->b, json);
}

static void put_b64(struct jsonw *w, const char *p, size_t n)
{
	separate(w);
	buf_byte(w->b, '"');
	base64_add(w->b, p, n);
	buf_byte(w->b, '"');
}

void jw_kb64(struct jsonw *w, const char *key, const char *p, size_t n)
{
	jw_key(w, key);
	put_b64(w, p, n);
}

void jw_kbytes(struct jsonw *w, const char *key, const char *p, size_t n)
{
	jw_key(w, key);
	jw_str(w, p, n);
	if (str_is_utf8(p, n))
		return;
	auto_free char *key64 = xasprintf("%s_b64", key);
	jw_kb64(w, key64, p, n);
}

void jw_kstr(struct jsonw *w, const char *key, const char *s)
{
	if (s)
		jw_kbytes(w, key, s, strlen(s));
}

void jw_ku64(struct jsonw *w, const char *key, uint64_t v)
{
	jw_key(w, key);
	jw_u64(w, v);
}

void jw_ki64(struct jsonw *w, const char *key, int64_t v)
{
	jw_key(w, key);
	jw_i64(w, v);
}

void jw_kbool(struct jsonw *w, const char *key, bool v)
{
	jw_key(w, key);
	jw_bool(w, v);
}

void jw_kstrv(struct jsonw *w, const char *key, char *const *v)
{
	bool utf8 = true;
	jw_key(w, key);
	jw_open(w, '[');
	for (char *const *s = v; s && *s; s++) {
		utf8 &= str_is_utf8(*s, strlen(*s));
		jw_str(w, *s, strlen(*s));
	}
	jw_close(w, ']');
	if (utf8)
		return;
	auto_free char *key64 = xasprintf("%s_b64", key);
	jw_key(w, key64);
	jw_open(w, '[');
	for (char *const *s = v; *s; s++)
		put_b64(w, *s, strlen(*s));
	jw_close(w, ']');
}

void jw_ktime(struct jsonw *w, const char *key, uint64_t unix_ms)
{
	char iso[32];
	clock_iso(unix_ms, iso);
	jw_kstr(w, key, iso);
}

void jw_nstr(struct jsonw *w, const char *key, const char *s)
{
	if (s) {
		jw_kstr(w, key, s);
		return;
	}
	jw_key(w, key);
	jw_null(w);
}

void jw_nu64(struct jsonw *w, const char *key, uint64_t v)
{
	if (v)
		jw_ku64(w, key, v);
	else
		jw_nstr(w, key, NULL);
}

void jw_ntime(struct jsonw *w, const char *key, uint64_t unix_ms)
{
	if (unix_ms)
		jw_ktime(w, key, unix_ms);
	else
		jw_nstr(w, key, NULL);
}

// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"

#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIRE_NULL UINT32_MAX
#define WIRE_STRV_MAX 65536

void buf_done(struct buf *b)
{
	free(b->p);
	*b = BUF_INIT(b->max);
}

void buf_clear(struct buf *b)
{
	b->n = 0;
	b->overflow = false;
}

char *buf_room(struct buf *b, size_t n)
{
	if (b->overflow || n > b->max || b->n > b->max - n) {
		b->overflow = true;
		return NULL;
	}
	if (b->n + n + 1 > b->cap) {
		size_t cap = b->cap ? b->cap * 2 : 128;
		while (cap < b->n + n + 1)
			cap *= 2;
		b->p = xrealloc(b->p, cap);
		b->cap = cap;
	}
	return b->p + b->n;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
	char *room = buf_room(b, n);
	if (!room)
		return;
	if (n)
		memcpy(room, p, n);
	b->n += n;
	b->p[b->n] = 0;
}

void buf_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_byte(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

// Most texts fit what is there already: then they are made once, not measured first.
void buf_fmt(struct buf *b, const char *fmt, ...)
{
	size_t have = b->overflow ? 0 : b->cap - b->n;
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(have ? b->p + b->n : NULL, have, fmt, ap);
	va_end(ap);
	char *room = n < 0 ? NULL : buf_room(b, n);
	if (room && (size_t)n >= have) {
		va_start(ap, fmt);
		vsnprintf(room, n + 1, fmt, ap);
		va_end(ap);
	}
	if (room)
		b->n += n;
	else if (have)
		b->p[b->n] = 0;
}

void buf_u64(struct buf *b, uint64_t v)
{
	char digits[20], *p = digits + sizeof digits;
	do
		*--p = (char)('0' + v % 10);
	while (v /= 10);
	buf_add(b, p, (size_t)(digits + sizeof digits - p));
}

void buf_cut(struct buf *b, size_t n)
{
	if (n >= b->n) {
		b->n = 0;
		return;
	}
	memmove(b->p, b->p + n, b->n - n);
	b->n -= n;
	b->p[b->n] = 0;
}

const char *buf_cstr(struct buf *b)
{
	return b->n ? b->p : "";
}

char *buf_take(struct buf *b)
{
	char *s = b->n ? b->p : xstrdup("");
	if (b->n)
		b->p = NULL;
	buf_done(b);
	return s;
}

void wire_u8(struct buf *b, uint8_t v)
{
	buf_add(b, &v, 1);
}

void wire_u32(struct buf *b, uint32_t v)
{
	uint8_t le[4] = {v, v >> 8, v >> 16, v >> 24};
	buf_add(b, le, sizeof le);
}

void wire_u64(struct buf *b, uint64_t v)
{
	wire_u32(b, (uint32_t)v);
	wire_u32(b, (uint32_t)(v >> 32));
}

void wire_bytes(struct buf *b, const void *p, size_t n)
{
	wire_u32(b, (uint32_t)n);
	buf_add(b, p, n);
}

void wire_str(struct buf *b, const char *s)
{
	if (s)
		wire_bytes(b, s, strlen(s));
	else
		wire_u32(b, WIRE_NULL);
}

void wire_strv(struct buf *b, char *const *v)
{
	size_t n = strv_len(v);
	wire_u32(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		wire_str(b, v[i]);
}

static const uint8_t *wire_next(struct wire *w, size_t n)
{
	if (w->bad || w->n < n) {
		w->bad = true;
		return NULL;
	}
	const uint8_t *p = w->p;
	w->p += n;
	w->n -= n;
	return p;
}

uint8_t wire_get_u8(struct wire *w)
{
	const uint8_t *p = wire_next(w, 1);
	return p ? *p : 0;
}

uint32_t wire_get_u32(struct wire *w)
{
	const uint8_t *p = wire_next(w, 4);
	return p ? p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24 : 0;
}

uint64_t wire_get_u64(struct wire *w)
{
	uint64_t lo = wire_get_u32(w);
	return lo | (uint64_t)wire_get_u32(w) << 32;
}

const uint8_t *wire_get_bytes(struct wire *w, size_t *out_n)
{
	uint32_t n = wire_get_u32(w);
	const uint8_t *p = wire_next(w, n);
	*out_n = p ? n : 0;
	return p;
}

char *wire_get_str(struct wire *w)
{
	uint32_t n = wire_get_u32(w);
	if (n == WIRE_NULL)
		return NULL;
	const uint8_t *p = wire_next(w, n);
	if (p && memchr(p, 0, n)) // a C string can not carry it: refuse rather than cut
		w->bad = true;
	return p && !w->bad ? xstrndup((const char *)p, n) : NULL;
}

char **wire_get_strv(struct wire *w)
{
	uint32_t n = wire_get_u32(w);
	if (n > WIRE_STRV_MAX || n > w->n) // every element takes at least four bytes
		w->bad = true;
	if (w->bad)
		return NULL;
	char **v = xcalloc(n + 1, sizeof *v);
	for (uint32_t i = 0; i < n; i++) {
		v[i] = wire_get_str(w);
		if (!v[i]) {
			w->bad = true;
			strv_free(v);
			return NULL;
		}
	}
	return v;
}

// SPDX-License-Identifier: Apache-2.0
#include "cli/plain.h"

#include "base/mem.h"
#include "base/str.h"
#include "cli/out.h"
#include <string.h>

#define ESC '\033'

// Length of the colour that begins at s, 0: it is none, -1: more must come to tell.
static int colour_len(const char *s, size_t n)
{
	size_t i = 2;
	if (n > 1 && s[1] != '[')
		return 0;
	while (i < n && s[i] && strchr("0123456789;:", s[i]))
		i++;
	if (i < n)
		return s[i] == 'm' && i < PLAIN_HELD ? (int)i + 1 : 0;
	return n < PLAIN_HELD ? -1 : 0;
}

// Bytes from s on that need no second look: up to the next one that may stay though it steers.
static size_t text_len(const char *s, size_t n)
{
	size_t i = 0;
	while (i < n && s[i] != ESC && s[i] != '\n' && s[i] != '\r' && s[i] != '\t')
		i++;
	return i;
}

static void hold(struct plain *p, const char *s, size_t n)
{
	memcpy(p->held, s, n);
	p->n = n;
}

// One step from s on; how many bytes it took. 0: the rest is held.
static size_t step(struct plain *p, const char *s, size_t n, bool end, struct buf *out)
{
	size_t text = text_len(s, n), whole = text == n && !end ? str_utf8_whole(s, n) : text;
	int colour = *s == ESC ? colour_len(s, n) : 0;
	if (colour > 0) {
		p->coloured = true;
		buf_add(out, s, (size_t)colour);
		return (size_t)colour;
	}
	if ((colour < 0 && !end) || (text && !whole)) {
		hold(p, s, n);
		return 0;
	}
	if (text)
		out_text_n(out, s, whole);
	else if (*s == ESC)
		out_text_n(out, s, 1);
	else
		buf_byte(out, *s);
	return text ? whole : 1;
}

static void go_through(struct plain *p, const char *s, size_t n, bool end, struct buf *out)
{
	size_t used;
	for (p->n = 0; n && (used = step(p, s, n, end, out)); n -= used)
		s += used;
}

void plain_add(struct plain *p, const void *bytes, size_t n, struct buf *out)
{
	auto_buf struct buf all = BUF_INIT(sizeof p->held + n + 1);
	buf_add(&all, p->held, p->n);
	buf_add(&all, bytes, n);
	go_through(p, buf_cstr(&all), all.n, false, out);
}

void plain_end(struct plain *p, struct buf *out)
{
	struct plain was = *p;
	go_through(p, was.held, was.n, true, out);
	if (p->coloured)
		buf_str(out, "\033[m");
	*p = (struct plain){0};
}

// SPDX-License-Identifier: Apache-2.0
// The delimiter begins with a CR and has no other: when it breaks off, all of what fitted was data, and the byte that did not
// fit is looked at anew. So nothing is ever read twice.
#include "http/multipart.h"

#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_boundary_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c && strchr("'()+_,-./:=? ", c));
}

// The value of a parameter of a header, unquoted; NULL when it has none. Owned.
static char *parameter(const char *header, const char *name)
{
	size_t len = strlen(name);
	const char *p = header;
	while ((p = strchr(p, ';'))) {
		p += 1 + strspn(p + 1, " \t");
		bool mine = !strncasecmp(p, name, len) && p[len] == '=';
		p += strcspn(p, "=;\"");
		if (*p != '=')
			continue;
		struct buf b = BUF_INIT(MULTIPART_HEAD);
		if (*++p == '"') {
			for (p++; *p && *p != '"'; p++) {
				if (*p == '\\' && (p[1] == '"' || p[1] == '\\'))
					p++;
				buf_byte(&b, *p);
			}
		} else {
			size_t n = strcspn(p, "; \t\r\n");
			buf_add(&b, p, n);
			p += n;
		}
		if (mine)
			return buf_take(&b);
		buf_done(&b);
	}
	return NULL;
}

int multipart_init(struct multipart *m, const char *content_type, const struct multipart_ops *ops, void *ctx, struct err *e)
{
	auto_free char *boundary = parameter(content_type, "boundary");
	size_t n = boundary ? strlen(boundary) : 0;
	if (!n || n > MULTIPART_BOUNDARY)
		return err_set(e, ERR_INVALID, "multipart/form-data without a boundary of 1 to %d characters", MULTIPART_BOUNDARY);
	for (size_t i = 0; i < n; i++)
		if (!is_boundary_char(boundary[i]))
			return err_set(e, ERR_INVALID, "the boundary has characters that it may not have");
	*m = (struct multipart){.ops = ops, .ctx = ctx, .matched = 2, .head = BUF_INIT(MULTIPART_HEAD)};
	memcpy(m->delimiter, "\r\n--", 4);
	memcpy(m->delimiter + 4, boundary, n);
	m->n_delimiter = n + 4;
	return 0;
}

void multipart_done(struct multipart *m)
{
	buf_done(&m->head);
}

bool multipart_is_over(const struct multipart *m)
{
	return m->state == MULTIPART_OVER;
}

// Form data escapes these three and nothing else.
static void unescape(char *s)
{
	static const struct {
		const char *from;
		char to;
	} escapes[] = {{"%22", '"'}, {"%0D", '\r'}, {"%0A", '\n'}};
	char *out = s;
	while (*s) {
		char c = *s;
		size_t len = 1;
		for (size_t i = 0; i < countof(escapes); i++)
			if (!strncmp(s, escapes[i].from, 3))
				c = escapes[i].to, len = 3;
		*out++ = c;
		s += len;
	}
	*out = 0;
}

static int begin_part(struct multipart *m, struct err *e)
{
	auto_free char *name = NULL, *filename = NULL;
	struct str rest = {m->head.p, m->head.n}, line;
	if (++m->parts > MULTIPART_PARTS)
		return err_set(e, ERR_LIMIT, "more than %d parts", MULTIPART_PARTS);
	if (memchr(m->head.p, 0, m->head.n))
		return err_set(e, ERR_INVALID, "a part's head has a NUL");
	while (str_next(&rest, '\n', &line)) {
		if (line.n < 20 || strncasecmp(line.p, "content-disposition:", 20) || name || filename)
			continue;
		auto_free char *text = xstrndup(line.p, line.n);
		text[strcspn(text, "\r")] = 0;
		name = parameter(text, "name");
		filename = parameter(text, "filename");
	}
	if (filename)
		unescape(filename);
	m->state = MULTIPART_DATA;
	m->matched = 2; // a part without bytes ends at once: the line's end that led here is the delimiter's
	m->unread = true;
	buf_clear(&m->head);
	return m->ops->part(m->ctx, name ? name : "", filename, e);
}

static int take_head(struct multipart *m, char c, struct err *e)
{
	buf_byte(&m->head, c);
	if (m->head.overflow)
		return err_set(e, ERR_LIMIT, "the head of a part is longer than %u bytes", MULTIPART_HEAD);
	bool blank = c == '\n' && (m->head.n == 2 || (m->head.n >= 4 && !memcmp(m->head.p + m->head.n - 4, "\r\n\r\n", 4)));
	return blank ? begin_part(m, e) : 0;
}

// Behind a boundary: two dashes end all, blanks may follow, then the line is over.
static int take_line(struct multipart *m, char c, struct err *e)
{
	if (c == '-' && m->dash)
		m->state = MULTIPART_OVER;
	else if (c == '-')
		m->dash = true;
	else if (c == '\n' && !m->dash)
		m->state = MULTIPART_HEADS;
	else if (m->dash || (c != ' ' && c != '\t' && c != '\r'))
		return err_set(e, ERR_INVALID, "a boundary is followed by what does not belong there");
	return 0;
}

static void on_delimiter(struct multipart *m)
{
	bool data = m->state == MULTIPART_DATA;
	m->matched = 0;
	m->dash = m->unread = false;
	m->state = MULTIPART_LINE;
	if (data)
		m->ops->part_end(m->ctx);
}

// What looked like a delimiter and was none. False: not all of it was taken.
static bool flush(struct multipart *m)
{
	if (m->flush_at < m->flush)
		m->flush_at += m->ops->data(m->ctx, m->delimiter + m->flush_at, m->flush - m->flush_at);
	if (m->flush_at < m->flush)
		return false;
	m->flush = m->flush_at = 0;
	return true;
}

// Bytes before and in parts; how many were looked at. 0: none was taken.
static size_t take_body(struct multipart *m, const char *p, size_t n)
{
	bool data = m->state == MULTIPART_DATA;
	if (!m->matched) {
		const char *cr = memchr(p, '\r', n);
		size_t plain = cr ? (size_t)(cr - p) : n;
		if (plain)
			return data ? m->ops->data(m->ctx, p, plain) : plain;
	}
	if (*p == m->delimiter[m->matched]) {
		if (++m->matched == m->n_delimiter)
			on_delimiter(m);
		return 1;
	}
	m->flush = data ? m->matched : 0;
	m->flush_at = m->unread && m->flush ? 2 : 0;
	m->unread = false;
	m->matched = 0;
	return SIZE_MAX; // the same byte again
}

long multipart_feed(struct multipart *m, const char *p, size_t n, struct err *e)
{
	size_t at = 0;
	while (at < n && !m->hold) {
		size_t took = 1;
		if (!flush(m))
			break;
		switch (m->state) {
		case MULTIPART_BEFORE:
		case MULTIPART_DATA:
			took = take_body(m, p + at, n - at);
			break;
		case MULTIPART_LINE:
			if (take_line(m, p[at], e))
				return -1;
			break;
		case MULTIPART_HEADS:
			if (take_head(m, p[at], e))
				return -1;
			break;
		case MULTIPART_OVER:
			took = n - at; // what follows means nothing
			break;
		}
		if (!took)
			break;
		at += took == SIZE_MAX ? 0 : took;
	}
	return (long)at;
}

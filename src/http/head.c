// SPDX-License-Identifier: Apache-2.0
#include "http/head.h"

#include <string.h>
#include <strings.h>

#define CHUNK_LINE_MAX 256u
#define TRAILER_MAX 4096u

static bool is_token(unsigned char c)
{
	return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static int bad(struct err *e, const char *why)
{
	return err_set(e, ERR_INVALID, "malformed HTTP answer: %s", why);
}

// "HTTP/1.1 200 OK"
static int parse_status(struct str line, struct http_head *h, struct err *e)
{
	uint64_t code;
	if (line.n < 12 || memcmp(line.p, "HTTP/1.", 7) || (line.p[7] != '0' && line.p[7] != '1') || line.p[8] != ' ')
		return bad(e, "no status line");
	if (str_to_u64((struct str){line.p + 9, 3}, 100, 599, &code) || (line.n > 12 && line.p[12] != ' '))
		return bad(e, "no status code");
	h->status = (int)code;
	h->close = line.p[7] == '0';
	return 0;
}

static struct str trimmed(struct str s)
{
	while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
		s.p++, s.n--;
	while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

static bool same(struct str s, const char *lit)
{
	return s.n == strlen(lit) && !strncasecmp(s.p, lit, s.n);
}

static int parse_field(struct str line, struct http_head *h, struct err *e)
{
	const char *colon = memchr(line.p, ':', line.n);
	if (!colon || colon == line.p)
		return bad(e, "a header line without a name");
	struct http_field f = {{line.p, (size_t)(colon - line.p)}, {colon + 1, line.n - (size_t)(colon - line.p) - 1}};
	for (size_t i = 0; i < f.name.n; i++)
		if (!is_token((unsigned char)f.name.p[i]))
			return bad(e, "a header name with a strange character");
	for (size_t i = 0; i < f.value.n; i++)
		if ((unsigned char)f.value.p[i] < ' ' && f.value.p[i] != '\t')
			return bad(e, "a control character in a header");
	f.value = trimmed(f.value);
	if (h->n_fields == HTTP_FIELDS_MAX)
		return bad(e, "too many headers");
	h->fields[h->n_fields++] = f;
	return 0;
}

// How the body is framed. Two ways at once, or one said twice, is how answers get smuggled.
static int parse_framing(struct http_head *h, struct err *e)
{
	for (int i = 0; i < h->n_fields; i++) {
		struct http_field *f = &h->fields[i];
		if (same(f->name, "Content-Length")) {
			if (h->has_length || str_to_u64(f->value, 0, UINT64_MAX, &h->length))
				return bad(e, "Content-Length");
			h->has_length = true;
		} else if (same(f->name, "Transfer-Encoding")) {
			if (h->chunked || !same(f->value, "chunked"))
				return bad(e, "Transfer-Encoding");
			h->chunked = true;
		} else if (same(f->name, "Connection")) {
			h->close |= same(f->value, "close");
		}
	}
	return h->has_length && h->chunked ? bad(e, "two framings") : 0;
}

ssize_t http_head_parse(const char *p, size_t n, struct http_head *out, struct err *e)
{
	size_t all = n < HTTP_HEAD_MAX ? n : HTTP_HEAD_MAX;
	const char *end = memmem(p, all, "\r\n\r\n", 4);
	if (!end)
		return n >= HTTP_HEAD_MAX ? bad(e, "the head is too long") : 0;
	*out = (struct http_head){0};
	struct str rest = {p, (size_t)(end - p) + 2};
	for (bool first = true; rest.n; first = false) {
		const char *eol = memmem(rest.p, rest.n, "\r\n", 2);
		struct str line = {rest.p, (size_t)(eol - rest.p)};
		if (memchr(line.p, '\n', line.n) || memchr(line.p, 0, line.n))
			return bad(e, "a bare line feed or zero byte");
		if (first ? parse_status(line, out, e) : parse_field(line, out, e))
			return -1;
		rest = (struct str){eol + 2, rest.n - line.n - 2};
	}
	return parse_framing(out, e) ? -1 : end - p + 4;
}

struct str http_head_get(const struct http_head *h, const char *name)
{
	for (int i = 0; i < h->n_fields; i++)
		if (same(h->fields[i].name, name))
			return h->fields[i].value;
	return (struct str){NULL, 0};
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 32;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int end_of_size(struct http_chunks *c, struct err *e)
{
	if (!c->line)
		return bad(e, "a chunk without a size");
	c->state = c->left ? CHUNK_DATA : CHUNK_TRAILER;
	c->line = 0;
	c->digits_over = c->cr = false;
	return 0;
}

static int size_byte(struct http_chunks *c, char ch, struct err *e)
{
	if (c->cr)
		return ch == '\n' ? end_of_size(c, e) : bad(e, "a chunk size line");
	if (ch == '\r') {
		c->cr = true;
		return 0;
	}
	int digit = hex_digit(ch);
	if (!c->digits_over && digit < 0 && (ch != ';' || !c->line))
		return bad(e, "a chunk size line");
	if (ch == '\n' || ++c->line > CHUNK_LINE_MAX)
		return bad(e, "a chunk size line");
	c->digits_over |= digit < 0;
	if (c->digits_over)
		return 0;
	if (c->left > (UINT64_MAX >> 5))
		return bad(e, "a chunk is too large");
	c->left = c->left * 16 + (uint64_t)digit;
	return 0;
}

static int trailer_byte(struct http_chunks *c, char ch, struct err *e)
{
	if (++c->trailer > TRAILER_MAX)
		return bad(e, "the trailer is too long");
	if (c->cr && ch != '\n')
		return bad(e, "a trailer line");
	if (c->cr) {
		c->state = c->line ? CHUNK_TRAILER : CHUNK_DONE;
		c->line = 0;
		c->cr = false;
	} else if (ch == '\r') {
		c->cr = true;
	} else {
		c->line++;
	}
	return 0;
}

// The CRLF behind the bytes of a chunk.
static int data_end_byte(struct http_chunks *c, char ch, struct err *e)
{
	if (ch != (c->cr ? '\n' : '\r'))
		return bad(e, "a chunk longer than its size");
	if (c->cr)
		c->state = CHUNK_SIZE;
	c->cr = !c->cr;
	return 0;
}

ssize_t http_chunks_add(struct http_chunks *c, const char *p, size_t n, struct buf *out, struct err *e)
{
	size_t at = 0;
	while (at < n && c->state != CHUNK_DONE) {
		int rc = 0;
		if (c->state == CHUNK_DATA) {
			size_t k = n - at < c->left ? n - at : (size_t)c->left;
			buf_add(out, p + at, k);
			if (out->overflow)
				return err_set(e, ERR_LIMIT, "the answer is longer than %zu bytes", out->max);
			at += k;
			c->left -= k;
			if (!c->left)
				c->state = CHUNK_DATA_END;
			continue;
		}
		char ch = p[at++];
		if (c->state == CHUNK_SIZE)
			rc = size_byte(c, ch, e);
		else if (c->state == CHUNK_DATA_END)
			rc = data_end_byte(c, ch, e);
		else
			rc = trailer_byte(c, ch, e);
		if (rc)
			return -1;
	}
	return (ssize_t)at;
}

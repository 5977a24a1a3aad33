// SPDX-License-Identifier: Apache-2.0
#include "http/head.h"

#include <string.h>
#include <strings.h>

#define CHUNK_LINE_MAX 256u
#define TRAILER_MAX 8192u
#define METHOD_MAX 32u

static bool is_token(unsigned char c)
{
	return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static int bad(struct err *e, const char *why)
{
	return err_set(e, ERR_INVALID, "malformed HTTP head or body: %s", why);
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
	h->minor = line.p[7] - '0';
	h->close = !h->minor;
	return 0;
}

// "GET /path HTTP/1.1": one space each, nothing else that could be taken for one.
static int parse_request_line(struct str line, struct http_head *h, struct err *e)
{
	struct str rest = line, version;
	if (!str_next(&rest, ' ', &h->method) || !str_next(&rest, ' ', &h->target) || !str_next(&rest, ' ', &version) ||
	    rest.p)
		return bad(e, "no request line");
	if (version.n != 8 || memcmp(version.p, "HTTP/1.", 7) || (version.p[7] != '0' && version.p[7] != '1'))
		return bad(e, "not HTTP/1.0 or HTTP/1.1");
	if (!h->method.n || h->method.n > METHOD_MAX || !h->target.n)
		return bad(e, "no method or no target");
	for (size_t i = 0; i < h->method.n; i++)
		if (!is_token((unsigned char)h->method.p[i]))
			return bad(e, "a method with a strange character");
	for (size_t i = 0; i < h->target.n; i++)
		if ((unsigned char)h->target.p[i] <= ' ' || h->target.p[i] == 0x7f)
			return bad(e, "a control character in the target");
	h->minor = version.p[7] - '0';
	h->close = !h->minor;
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

bool http_name_is(struct str name, const char *lit)
{
	return name.n == strlen(lit) && !strncasecmp(name.p, lit, name.n);
}

bool http_list_has(struct str value, const char *token)
{
	struct str part;
	while (str_next(&value, ',', &part))
		if (http_name_is(trimmed(part), token))
			return true;
	return false;
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
		if (((unsigned char)f.value.p[i] < ' ' && f.value.p[i] != '\t') || f.value.p[i] == 0x7f)
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
		if (http_name_is(f->name, "Content-Length")) {
			if (h->has_length || str_to_u64(f->value, 0, UINT64_MAX, &h->length))
				return bad(e, "Content-Length");
			h->has_length = true;
		} else if (http_name_is(f->name, "Transfer-Encoding")) {
			if (h->chunked || !http_name_is(f->value, "chunked"))
				return bad(e, "Transfer-Encoding");
			h->chunked = true;
		} else if (http_name_is(f->name, "Connection")) {
			h->close |= http_list_has(f->value, "close");
		}
	}
	return h->has_length && h->chunked ? bad(e, "two framings") : 0;
}

typedef int first_line_fn(struct str line, struct http_head *h, struct err *e);

static int parse_lines(struct str rest, struct http_head *out, first_line_fn *first, struct err *e)
{
	for (; rest.n; first = NULL) {
		const char *eol = memmem(rest.p, rest.n, "\r\n", 2);
		struct str line = {rest.p, eol ? (size_t)(eol - rest.p) : rest.n};
		if (!eol || memchr(line.p, '\n', line.n) || memchr(line.p, '\r', line.n) || memchr(line.p, 0, line.n))
			return bad(e, "a bare line feed, carriage return or zero byte");
		if (first ? first(line, out, e) : parse_field(line, out, e))
			return -1;
		rest = (struct str){eol + 2, rest.n - line.n - 2};
	}
	return 0;
}

static ssize_t parse_head(struct str s, struct http_head *out, first_line_fn *first, struct err *e)
{
	size_t all = s.n < HTTP_HEAD_MAX ? s.n : HTTP_HEAD_MAX;
	const char *end = memmem(s.p, all, "\r\n\r\n", 4);
	if (!end)
		return s.n >= HTTP_HEAD_MAX ? bad(e, "the head is too long") : 0;
	*out = (struct http_head){0};
	if (parse_lines((struct str){s.p, (size_t)(end - s.p) + 2}, out, first, e) || parse_framing(out, e))
		return -1;
	return end - s.p + 4;
}

ssize_t http_head_parse(const char *p, size_t n, struct http_head *out, struct err *e)
{
	return parse_head((struct str){p, n}, out, parse_status, e);
}

ssize_t http_request_parse(const char *p, size_t n, struct http_head *out, struct err *e)
{
	ssize_t used = parse_head((struct str){p, n}, out, parse_request_line, e);
	if (used > 0 && out->chunked && !out->minor)
		return bad(e, "Transfer-Encoding in HTTP/1.0");
	return used;
}

int http_trailer_parse(const char *p, size_t n, struct http_head *out, struct err *e)
{
	*out = (struct http_head){0};
	if (parse_lines((struct str){p, n}, out, NULL, e) || parse_framing(out, e))
		return -1;
	if (out->has_length || out->chunked || http_head_get(out, "Host").p)
		return bad(e, "a framing header in a trailer");
	return 0;
}

struct str http_head_get(const struct http_head *h, const char *name)
{
	for (int i = 0; i < h->n_fields; i++)
		if (http_name_is(h->fields[i].name, name))
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
	if (c->keep && (c->line || (!c->cr && ch != '\r')))
		buf_add(c->keep, &ch, 1);
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

// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 messages: how their bodies are framed, and writing them anew. Nothing is passed on as it came.
#include "gate/h1.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void h1_message_done(struct h1_message *m)
{
	head_done(&m->head);
	free(m->authority);
	*m = (struct h1_message){0};
}

static void copy_fields(const struct http_head *h, struct head *out)
{
	for (int i = 0; i < h->n_fields; i++)
		head_add(out, h->fields[i].name, h->fields[i].value);
}

static void take_authority(struct h1_message *m)
{
	const char *first = head_get(&m->head, "Host");
	size_t n = 0;
	for (size_t i = 0; i < m->head.n; i++)
		n += !strcasecmp(m->head.f[i].name, "Host");
	if (n == 1)
		m->authority = xstrdup(first);
	head_drop(&m->head, "Host");
}

static void frame_request(const struct http_head *h, struct h1_message *m)
{
	m->length = h->length;
	m->body = h->chunked ? BODY_CHUNKED : h->has_length && h->length ? BODY_LENGTH : BODY_NONE;
	m->has_length = h->has_length; // an empty body that was announced stays announced
}

ssize_t h1_read_request(const char *p, size_t n, struct h1_message *out, struct err *e)
{
	struct http_head h;
	ssize_t used = http_request_parse(p, n, &h, e);
	if (used <= 0)
		return used;
	struct h1_message m = {.keep = !h.close, .old = !h.minor};
	m.head.method = xstrndup(h.method.p, h.method.n);
	m.head.path = xstrndup(h.target.p, h.target.n);
	copy_fields(&h, &m.head);
	frame_request(&h, &m);
	const char *expect = head_get(&m.head, "Expect");
	if (expect && strcasecmp(expect, "100-continue")) {
		h1_message_done(&m);
		return err_set(e, ERR_INVALID, "an expectation nobody knows");
	}
	take_authority(&m);
	m.websocket = !m.old && m.body == BODY_NONE && !strcmp(m.head.method, "GET") &&
		      head_lists(&m.head, "Connection", "upgrade") && head_lists(&m.head, "Upgrade", "websocket");
	head_strip_hops(&m.head, m.websocket);
	if (m.old)
		head_drop(&m.head, "Expect");
	*out = m;
	return used;
}

static void frame_answer(const struct http_head *h, bool to_head, struct h1_message *m)
{
	bool empty = to_head || h->status < 200 || h->status == 204 || h->status == 304;
	m->length = h->length;
	m->has_length = h->has_length && h->status >= 200 && h->status != 204;
	if (empty)
		m->body = BODY_NONE;
	else
		m->body = h->chunked ? BODY_CHUNKED : h->has_length ? BODY_LENGTH : BODY_EOF;
	if (m->body == BODY_EOF)
		m->keep = false;
}

ssize_t h1_read_answer(const char *p, size_t n, bool to_head, struct h1_message *out, struct err *e)
{
	struct http_head h;
	ssize_t used = http_head_parse(p, n, &h, e);
	if (used <= 0)
		return used;
	if (h.chunked && !h.minor)
		return err_set(e, ERR_INVALID, "Transfer-Encoding in HTTP/1.0");
	struct h1_message m = {.keep = !h.close, .old = !h.minor, .head.status = h.status};
	copy_fields(&h, &m.head);
	frame_answer(&h, to_head, &m);
	m.websocket = h.status == 101 && head_lists(&m.head, "Connection", "upgrade") &&
		      head_lists(&m.head, "Upgrade", "websocket");
	head_strip_hops(&m.head, m.websocket);
	*out = m;
	return used;
}

void body_init(struct body *b, const struct h1_message *m)
{
	*b = (struct body){.kind = m->body, .left = m->length, .trailer = BUF_INIT(HTTP_HEAD_MAX)};
	b->done = m->body == BODY_NONE || (m->body == BODY_LENGTH && !m->length);
}

void body_done(struct body *b)
{
	buf_done(&b->trailer);
	*b = (struct body){0};
}

ssize_t body_take(struct body *b, const char *p, size_t n, struct buf *out, struct err *e)
{
	if (b->done)
		return 0;
	if (b->kind == BODY_CHUNKED) {
		b->chunks.keep = &b->trailer;
		ssize_t used = http_chunks_add(&b->chunks, p, n, out, e);
		b->done = used >= 0 && b->chunks.state == CHUNK_DONE;
		return used;
	}
	if (b->kind == BODY_LENGTH) {
		n = n < b->left ? n : (size_t)b->left;
		b->left -= n;
		b->done = !b->left;
	}
	buf_add(out, p, n);
	return out->overflow ? err_set(e, ERR_LIMIT, "more bytes at once than are taken") : (ssize_t)n;
}

static void put_fields(const struct head *h, struct buf *out)
{
	for (size_t i = 0; i < h->n; i++) {
		buf_str(out, h->f[i].name);
		buf_str(out, ": ");
		buf_str(out, h->f[i].value);
		buf_str(out, "\r\n");
	}
}

static void put_framing(enum body_kind framing, bool has_length, uint64_t length, struct buf *out)
{
	if (framing == BODY_CHUNKED)
		buf_str(out, "Transfer-Encoding: chunked\r\n");
	else if (framing == BODY_LENGTH || (framing == BODY_NONE && has_length))
		buf_fmt(out, "Content-Length: %llu\r\n", (unsigned long long)length);
}

void h1_put_request(const struct h1_message *m, const char *authority, struct buf *out)
{
	buf_str(out, m->head.method);
	buf_byte(out, ' ');
	buf_str(out, m->head.path);
	buf_str(out, " HTTP/1.1\r\nHost: ");
	buf_str(out, authority);
	buf_str(out, "\r\n");
	put_fields(&m->head, out);
	put_framing(m->body, m->has_length, m->length, out);
	if (m->websocket)
		buf_str(out, "Connection: Upgrade\r\n");
	else if (!m->keep)
		buf_str(out, "Connection: close\r\n");
	buf_str(out, "\r\n");
}

static const char *reason_of(int status)
{
	static const struct {
		int status;
		const char *reason;
	} known[] = {
		{100, "Continue"},
		{101, "Switching Protocols"},
		{103, "Early Hints"},
		{200, "OK"},
		{201, "Created"},
		{202, "Accepted"},
		{204, "No Content"},
		{206, "Partial Content"},
		{301, "Moved Permanently"},
		{302, "Found"},
		{303, "See Other"},
		{304, "Not Modified"},
		{307, "Temporary Redirect"},
		{308, "Permanent Redirect"},
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{409, "Conflict"},
		{410, "Gone"},
		{413, "Payload Too Large"},
		{422, "Unprocessable Entity"},
		{429, "Too Many Requests"},
		{500, "Internal Server Error"},
		{502, "Bad Gateway"},
		{503, "Service Unavailable"},
		{504, "Gateway Timeout"},
	};
	for (size_t i = 0; i < countof(known); i++)
		if (known[i].status == status)
			return known[i].reason;
	return "";
}

// The host's own reason phrase is not passed on: it is text that nobody needs and that could hold anything.
void h1_put_answer(const struct h1_message *m, enum body_kind framing, bool keep, struct buf *out)
{
	buf_fmt(out, "HTTP/1.1 %d %s\r\n", m->head.status, reason_of(m->head.status));
	put_fields(&m->head, out);
	put_framing(framing, m->has_length, m->length, out);
	if (m->websocket)
		buf_str(out, "Connection: Upgrade\r\n");
	else if (!keep && m->head.status >= 200)
		buf_str(out, "Connection: close\r\n");
	buf_str(out, "\r\n");
}

void h1_put_body(enum body_kind framing, const char *p, size_t n, struct buf *out)
{
	if (!n)
		return; // an empty chunk would be the end
	if (framing == BODY_CHUNKED)
		buf_fmt(out, "%zx\r\n", n);
	buf_add(out, p, n);
	if (framing == BODY_CHUNKED)
		buf_str(out, "\r\n");
}

void h1_put_end(enum body_kind framing, const struct head *trailer, struct buf *out)
{
	if (framing != BODY_CHUNKED)
		return;
	buf_str(out, "0\r\n");
	if (trailer)
		put_fields(trailer, out);
	buf_str(out, "\r\n");
}

void h1_put_refusal(int status, const char *reason, const struct buf *text, bool to_head, struct buf *out)
{
	buf_fmt(out, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n", status,
		reason, text->n);
	buf_str(out, "Cache-Control: no-store\r\nConnection: close\r\n\r\n");
	if (!to_head)
		buf_add(out, text->p, text->n);
}

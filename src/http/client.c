// SPDX-License-Identifier: Apache-2.0
#include "http/client.h"

#include "base/fs.h"
#include "base/mem.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (64u << 10)
#define FIRST 4000u // most answers are shorter, and new pages cost more than to read twice

void http_client_init(struct http_client *c, int fd)
{
	*c = (struct http_client){.fd = fd, .in = BUF_INIT(HTTP_HEAD_MAX + CHUNK)};
}

void http_client_done(struct http_client *c)
{
	close_fd(&c->fd);
	buf_done(&c->in);
}

void http_reply_done(struct http_reply *r)
{
	buf_done(&r->raw);
	buf_done(&r->body);
}

void http_encode(struct buf *b, const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || strchr("-._~", c))
			buf_byte(b, (char)c);
		else
			buf_fmt(b, "%%%02X", c);
	}
}

static int send_all(struct http_client *c, const struct buf *b, struct err *e)
{
	for (size_t at = 0; at < b->n;) {
		ssize_t n = send(c->fd, b->p + at, b->n - at, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			err_sys(e, "send to skepd");
			e->kind = ERR_UNAVAILABLE;
			return -1;
		}
		at += (size_t)n;
	}
	return 0;
}

static void wait_announced(struct http_client *c)
{
	struct pollfd pfd = {.fd = c->fd, .events = POLLIN};
	if (poll(&pfd, 1, HTTP_WAIT_MS))
		return;
	c->on_wait(c->fd, HTTP_WAIT_MS);
	unsigned waited = HTTP_LONG_WAIT_MS;
	for (int next = HTTP_LONG_WAIT_MS - HTTP_WAIT_MS; !poll(&pfd, 1, next); next = HTTP_AGAIN_MS) {
		c->on_wait(c->fd, waited);
		waited += HTTP_AGAIN_MS;
	}
	c->on_wait(c->fd, 0);
}

// One read into c->in. Only the first wait of an answer is announced: after it bytes flow.
static int fill(struct http_client *c, struct err *e)
{
	size_t want = c->long_answer ? CHUNK : FIRST;
	char *room = buf_room(&c->in, want);
	if (!room)
		return err_set(e, ERR_LIMIT, "the answer's head is too long");
	if (c->on_wait)
		wait_announced(c);
	ssize_t n;
	do
		n = recv(c->fd, room, want, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		err_sys(e, "skepd ended before it answered: skep ps tells what was done, then try again");
	else if (!n)
		err_set(e, ERR_UNAVAILABLE, "skepd closed the connection without an answer: skep ps tells what was done, then try again");
	if (n <= 0) {
		e->kind = ERR_UNAVAILABLE;
		return -1;
	}
	c->in.n += (size_t)n;
	c->long_answer |= (size_t)n == want;
	return 0;
}

// Parses the head out of c->in and keeps its bytes in out->raw. Interim answers (1xx) are passed over.
static int read_head(struct http_client *c, struct http_reply *out, struct err *e)
{
	for (;;) {
		struct http_head h;
		ssize_t n = http_head_parse(buf_cstr(&c->in), c->in.n, &h, e);
		if (n < 0 || (!n && fill(c, e)))
			return -1;
		if (!n)
			continue;
		buf_clear(&out->raw);
		buf_add(&out->raw, c->in.p, (size_t)n);
		buf_cut(&c->in, (size_t)n);
		n = http_head_parse(out->raw.p, out->raw.n, &out->head, e); // again: the fields borrow from raw
		if (n < 0 || out->head.status >= 200)
			return n < 0 ? -1 : 0;
	}
}

static int read_chunked(struct http_client *c, const struct http_request *rq, int status, struct buf *body, struct err *e)
{
	struct http_chunks ch = {0};
	for (;;) {
		ssize_t n = http_chunks_add(&ch, buf_cstr(&c->in), c->in.n, body, e);
		if (n < 0)
			return -1;
		buf_cut(&c->in, (size_t)n);
		if (rq->on_piece && status < 300)
			rq->on_piece(rq->ctx, body);
		if (ch.state == CHUNK_DONE)
			return 0;
		if (fill(c, e))
			return -1;
	}
}

static int read_to_file(struct http_client *c, uint64_t left, int fd, struct err *e)
{
	while (left) {
		if (!c->in.n && fill(c, e))
			return -1;
		size_t n = c->in.n < left ? c->in.n : (size_t)left;
		if (fs_write_all(fd, c->in.p, n, e))
			return -1;
		buf_cut(&c->in, n);
		left -= n;
	}
	return 0;
}

static int read_counted(struct http_client *c, uint64_t left, struct buf *body, struct err *e)
{
	while (left) {
		if (!c->in.n && fill(c, e))
			return -1;
		size_t n = c->in.n < left ? c->in.n : (size_t)left;
		buf_add(body, c->in.p, n);
		if (body->overflow)
			return err_set(e, ERR_LIMIT, "the answer is longer than %zu bytes", body->max);
		buf_cut(&c->in, n);
		left -= n;
	}
	return 0;
}

static int read_reply(struct http_client *c, const struct http_request *rq, struct http_reply *out, struct err *e)
{
	if (read_head(c, out, e))
		return -1;
	const struct http_head *h = &out->head;
	if (h->status == 204 || h->status == 304)
		return 0;
	if (h->chunked)
		return read_chunked(c, rq, h->status, &out->body, e);
	if (!h->has_length)
		return err_set(e, ERR_INVALID, "malformed HTTP answer: no length");
	if (rq->reply_fd && h->status < 300)
		return read_to_file(c, h->length, *rq->reply_fd, e);
	if (h->length > out->body.max)
		return err_set(e, ERR_LIMIT, "the answer is longer than %zu bytes", out->body.max);
	return read_counted(c, h->length, &out->body, e);
}

// As many bytes as were announced: a file that became shorter meanwhile is an error, and ends the connection.
static int send_file(struct http_client *c, int fd, uint64_t left, struct err *e)
{
	char chunk[CHUNK];
	off_t at = 0;
	while (left) {
		ssize_t n = pread(fd, chunk, left < sizeof chunk ? (size_t)left : sizeof chunk, at);
		if (n <= 0)
			return n ? err_sys(e, "read the file") : err_set(e, ERR_CONFLICT, "the file became shorter while it was sent");
		if (send_all(c, &(struct buf){.p = chunk, .n = (size_t)n}, e))
			return -1;
		at += n;
		left -= (uint64_t)n;
	}
	return 0;
}

static int body_length(const struct http_request *rq, uint64_t *out, struct err *e)
{
	struct stat st;
	*out = rq->body_len;
	if (!rq->body_fd)
		return 0;
	if (fstat(*rq->body_fd, &st))
		return err_sys(e, "the file");
	*out = (uint64_t)st.st_size;
	return 0;
}

int http_call(struct http_client *c, const struct http_request *rq, struct http_reply *out, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(HTTP_BODY_MAX + HTTP_HEAD_MAX);
	buf_fmt(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", rq->method, rq->path, c->host ? c->host : "skep");
	if (c->token)
		buf_fmt(&b, "Authorization: Bearer %s\r\n", c->token);
	uint64_t length;
	if (body_length(rq, &length, e))
		return -1;
	if (rq->body || rq->body_fd)
		buf_fmt(&b, "Content-Type: application/%s\r\nContent-Length: %llu\r\n", rq->body ? "json" : "octet-stream",
			(unsigned long long)length);
	buf_str(&b, "\r\n");
	if (rq->body)
		buf_add(&b, rq->body, rq->body_len);
	if (b.overflow)
		return err_set(e, ERR_LIMIT, "the request is too long");
	out->raw.max = HTTP_HEAD_MAX;
	out->body.max = rq->reply_max ? rq->reply_max : HTTP_BODY_MAX;
	buf_clear(&out->body);
	bool ok = !send_all(c, &b, e) && !(rq->body_fd && send_file(c, *rq->body_fd, length, e)) && !read_reply(c, rq, out, e);
	if (!ok || out->head.close)
		close_fd(&c->fd);
	return ok ? 0 : -1;
}

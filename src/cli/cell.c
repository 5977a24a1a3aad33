// SPDX-License-Identifier: Apache-2.0
#include "cli/cell.h"

#include "base/json.h"
#include "base/mem.h"
#include "cli/home.h"
#include "http/client.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ANSWER_MAX (HTTP_HEAD_MAX + (64u << 10))

bool cell_is_far(void)
{
	const char *host = getenv("SKEP_HOST");
	return host && *host;
}

// A socket that was named for this machine may be out of our reach all the same: SKEP_HOST may be a forwarded one.
static int put_target(struct buf *b, const char *socket, struct err *e)
{
	const char *name = strrchr(socket, '/'), *dot = name ? strrchr(name, '.') : NULL;
	if (!strncmp(socket, "/v1/", 4))
		buf_str(b, socket);
	else if (dot && !strcmp(dot, ".sock"))
		buf_fmt(b, "/v1/sandboxes/%.*s/cell", (int)(dot - name - 1), name + 1);
	else
		return err_set(e, ERR_BUG, "skepd named no cell");
	return 0;
}

static int put_request(struct buf *b, const char *target, const char *protocol, struct err *e)
{
	const char *token = NULL, *host = home_remote();
	if (host && home_token(&token, e))
		return -1;
	buf_fmt(b, "GET %s HTTP/1.1\r\nHost: %s\r\n", target, host ? host : "skep");
	if (token)
		buf_fmt(b, "Authorization: Bearer %s\r\n", token);
	buf_fmt(b, "Connection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol);
	return 0;
}

static int refused(const struct http_head *h, const char *body, size_t n, struct err *e)
{
	struct err bad;
	auto_json json_t *j = h->has_length && h->length <= n ? json_read(body, (size_t)h->length, &bad) : NULL;
	const json_t *o = json_object_get(j, "error");
	if (!o)
		return err_set(e, ERR_UNAVAILABLE, "skepd answered with status %d", h->status);
	return err_set(e, err_kind_parse(json_str(o, "kind")), "%s", json_str(o, "message"));
}

// Whatever broke here may be whole again in a moment.
static int unavailable(int rc, struct err *e)
{
	if (rc)
		e->kind = ERR_UNAVAILABLE;
	return rc;
}

// One byte at a time: what stands behind the answer is not ours to read.
static int read_some(int fd, struct buf *b, struct err *e)
{
	char *p = buf_room(b, 1);
	ssize_t n;
	if (!p)
		return err_set(e, ERR_LIMIT, "the answer is too long");
	do
		n = recv(fd, p, 1, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return unavailable(err_sys(e, "receive from skepd"), e);
	b->n += (size_t)n;
	return n ? 0 : err_set(e, ERR_UNAVAILABLE, "skepd closed the connection without an answer");
}

static int send_all(int fd, const struct buf *b, struct err *e)
{
	for (size_t at = 0; at < b->n;) {
		ssize_t n = send(fd, b->p + at, b->n - at, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return err_sys(e, "send to skepd");
		at += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int read_answer(int fd, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(ANSWER_MAX);
	for (;;) {
		struct http_head h;
		ssize_t head = b.n ? http_head_parse(b.p, b.n, &h, e) : 0;
		if (head < 0)
			return -1;
		if (head && h.status == 101)
			return 0;
		if (head && h.status >= 200 && (!h.has_length || b.n - (size_t)head >= h.length))
			return refused(&h, b.p + head, b.n - (size_t)head, e);
		if (read_some(fd, &b, e))
			return -1;
	}
}

static int upgrade(const char *target, const char *protocol, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(8192);
	if (put_request(&b, target, protocol, e))
		return -1;
	auto_fd int fd = home_connect_skepd(e);
	if (fd < 0 || unavailable(send_all(fd, &b, e), e) || read_answer(fd, e))
		return -1;
	return take_fd(&fd);
}

int cell_connect(const char *socket, struct err *e)
{
	auto_buf struct buf target = BUF_INIT(4096);
	if (!cell_is_far())
		return home_connect(socket, e);
	return put_target(&target, socket, e) ? -1 : upgrade(buf_cstr(&target), "skep-cell", e);
}

int cell_connect_port(const char *sandbox, uint32_t port, struct err *e)
{
	auto_free char *target = xasprintf("/v1/sandboxes/%s/connect?port=%u", sandbox, port);
	return upgrade(target, "skep-port", e);
}

// SPDX-License-Identifier: Apache-2.0
#include "cli/flight.h"

#include "base/fs.h"
#include "base/mem.h"
#include "cli/home.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK (64u << 10)

static void flight_bury(void *obj)
{
	struct flight *f = obj;
	buf_done(&f->in);
	buf_done(&f->body);
	free(f->id);
	free(f);
}

void flight_free(struct flights *all, struct flight *f)
{
	for (struct flight **p = &all->list; *p; p = &(*p)->next)
		if (*p == f) {
			*p = f->next;
			all->n--;
			break;
		}
	int fd = f->w.fd;
	loop_del(all->loop, &f->w);
	close_fd(&fd);
	loop_bury(all->loop, f, flight_bury);
}

struct flight *flight_find(struct flights *all, const char *id)
{
	for (struct flight *f = all->list; f; f = f->next)
		if (f->id && !strcmp(f->id, id))
			return f;
	return NULL;
}

static struct flights *owner; // one bridge in a process

static void finish(struct flight *f, const struct err *e)
{
	owner->ops->end(owner->ctx, f, e);
}

// Events end with an empty line; ours have one data line each.
static void take_events(struct flight *f)
{
	for (;;) {
		const char *end = f->body.n ? memmem(f->body.p, f->body.n, "\n\n", 2) : NULL;
		if (!end)
			return;
		size_t n = (size_t)(end - f->body.p);
		const char *data = memmem(f->body.p, n, "data: ", 6);
		if (data)
			owner->ops->message(owner->ctx, data + 6, (size_t)(end - data) - 6);
		buf_cut(&f->body, n + 2);
	}
}

// True: the answer is whole.
static int take_body(struct flight *f, struct err *e)
{
	if (f->head.chunked) {
		ssize_t n = http_chunks_add(&f->chunks, buf_cstr(&f->in), f->in.n, &f->body, e);
		if (n < 0)
			return -1;
		buf_cut(&f->in, (size_t)n);
		if (f->events)
			take_events(f);
		return f->chunks.state == CHUNK_DONE;
	}
	buf_add(&f->body, f->in.p, f->in.n);
	buf_clear(&f->in);
	if (f->body.overflow)
		return err_set(e, ERR_LIMIT, "the answer is too long");
	return f->body.n >= (f->head.has_length ? f->head.length : 0);
}

static int take_head(struct flight *f, struct err *e)
{
	ssize_t n = http_head_parse(buf_cstr(&f->in), f->in.n, &f->head, e);
	if (n <= 0)
		return (int)n;
	f->events = http_name_is(http_head_get(&f->head, "Content-Type"), "text/event-stream");
	f->has_head = true;
	buf_cut(&f->in, (size_t)n);
	return 0;
}

static int take_bytes(struct flight *f, struct err *e)
{
	if (!f->has_head && take_head(f, e))
		return -1;
	return f->has_head ? take_body(f, e) : 0;
}

static void on_bytes(struct watch *w, uint32_t events)
{
	struct flight *f = container_of(w, struct flight, w);
	struct err e;
	char *room = buf_room(&f->in, CHUNK);
	ssize_t n = room ? recv(w->fd, room, CHUNK, MSG_DONTWAIT) : 0;
	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		err_set(&e, ERR_UNAVAILABLE, "skepd closed the connection without an answer: try again");
		finish(f, &e);
		return;
	}
	f->in.n += (size_t)n;
	int whole = take_bytes(f, &e);
	if (!whole)
		return;
	if (whole > 0 && !f->events && f->body.n)
		owner->ops->message(owner->ctx, f->body.p, f->body.n);
	finish(f, whole < 0 ? &e : NULL);
}

static int send_request(int fd, const char *target, const char *p, size_t n, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(n + HTTP_HEAD_MAX);
	const char *path = home_remote() ? NULL : getenv("PATH"), *token;
	if (home_token(&token, e))
		return -1;
	buf_fmt(&b,
		"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
		"Connection: close\r\nContent-Length: %zu\r\n",
		target, home_remote() ? home_remote() : "skep", n);
	if (token)
		buf_fmt(&b, "Authorization: Bearer %s\r\n", token);
	if (path && strlen(path) < 8192 && !strpbrk(path, "\r\n"))
		buf_fmt(&b, "X-Skep-Path: %s\r\n", path);
	buf_str(&b, "\r\n");
	buf_add(&b, p, n);
	return b.overflow ? err_set(e, ERR_LIMIT, "the request is too long") : fs_write_all(fd, b.p, b.n, e);
}

int flight_send(struct flights *all, const char *target, const char *p, size_t n, char *id, struct err *e)
{
	auto_free char *own = id;
	auto_fd int fd = home_connect_skepd(e);
	owner = all;
	if (fd < 0 || send_request(fd, target, p, n, e))
		return -1;
	struct flight *f = xcalloc(1, sizeof *f);
	f->w.fd = -1;
	f->w.fn = on_bytes;
	f->in = BUF_INIT(HTTP_HEAD_MAX + CHUNK);
	f->body = BUF_INIT(FLIGHT_ANSWER);
	if (loop_add(all->loop, &f->w, fd, LOOP_IN, e)) {
		free(f);
		return -1;
	}
	take_fd(&fd);
	f->id = take(&own);
	f->next = all->list;
	all->list = f;
	all->n++;
	return 0;
}

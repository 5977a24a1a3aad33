// SPDX-License-Identifier: Apache-2.0
// File operations whose bytes come or go in pieces, or that last: their jobs are open until they end or are closed.
#include "base/loop.h"
#include "base/mem.h"
#include "engine/fileargs.h"
#include <stdlib.h>

struct file_get {
	struct loop *loop;
	struct job_run *run;
	const struct file_get_ops *ops;
	void *ctx;
	struct buf head; // until it is whole
	bool headed, closed;
};

static void get_free(void *obj)
{
	struct file_get *g = obj;
	buf_done(&g->head);
	free(g);
}

static void get_data(void *ctx, const void *p, size_t n)
{
	struct file_get *g = ctx;
	struct file_record rec;
	if (g->headed) {
		g->ops->data(g->ctx, p, n);
		return;
	}
	buf_add(&g->head, p, n);
	struct wire w = {.p = (const uint8_t *)g->head.p, .n = g->head.n};
	if (file_record_read(&w, &rec))
		return;
	g->headed = true;
	g->ops->head(g->ctx, &rec);
	file_record_done(&rec);
	if (w.n && !g->closed)
		g->ops->data(g->ctx, w.p, w.n);
	buf_clear(&g->head);
}

static void get_end(void *ctx, const struct err *e)
{
	struct file_get *g = ctx;
	struct err bad;
	if (!e && !g->headed) {
		err_set(&bad, ERR_UNAVAILABLE, "the sandbox gave a malformed answer");
		e = &bad;
	}
	g->ops->end(g->ctx, e);
	loop_bury(g->loop, g, get_free);
}

// argv: taken.
static struct file_get *get_open(const struct file_at *at, char **argv, const struct file_get_ops *ops, void *ctx)
{
	static const struct job_ops jops = {.data = get_data, .end = get_end};
	struct file_get *g = xcalloc(1, sizeof *g);
	*g = (struct file_get){.loop = at->loop, .ops = ops, .ctx = ctx, .head = BUF_INIT(1 << 20)};
	g->run = job_open(at->loop, at->engine, &(struct job){.sandbox = at->sandbox, .user = at->user, .argv = argv}, &jops, g);
	strv_free(argv);
	return g;
}

struct file_get *file_get_open(const struct file_at *at, const char *path, const char *from, uint64_t len,
			       const struct file_get_ops *ops, void *ctx)
{
	char **v = fileargs_new(at, "get", path);
	if (from)
		fileargs_text(&v, "from=", from);
	if (len < INT64_MAX)
		fileargs_number(&v, "len=", len);
	return get_open(at, v, ops, ctx);
}

struct file_get *file_tar_open(const struct file_at *at, const char *path, const struct file_get_ops *ops, void *ctx)
{
	return get_open(at, fileargs_new(at, "tar", path), ops, ctx);
}

void file_get_pause(struct file_get *g, bool on)
{
	job_pause(g->run, on);
}

void file_get_close(struct file_get *g)
{
	g->closed = true;
	job_close(g->run);
	loop_bury(g->loop, g, get_free);
}

struct file_put {
	struct loop *loop;
	struct job_run *run;
	const struct file_put_ops *ops;
	void *ctx;
	struct buf answer;
};

static void put_free(void *obj)
{
	struct file_put *p = obj;
	buf_done(&p->answer);
	free(p);
}

static void put_data(void *ctx, const void *bytes, size_t n)
{
	buf_add(&((struct file_put *)ctx)->answer, bytes, n);
}

static void put_room(void *ctx)
{
	struct file_put *p = ctx;
	p->ops->room(p->ctx);
}

static void put_end(void *ctx, const struct err *e)
{
	struct file_put *p = ctx;
	struct file_record rec = {0};
	struct wire w = {.p = (const uint8_t *)p->answer.p, .n = p->answer.n};
	struct err bad;
	if (!e && file_record_read(&w, &rec)) {
		err_set(&bad, ERR_UNAVAILABLE, "the sandbox gave a malformed answer");
		e = &bad;
	}
	p->ops->end(p->ctx, e, e ? NULL : &rec);
	file_record_done(&rec);
	loop_bury(p->loop, p, put_free);
}

// argv: taken.
static struct file_put *put_open(const struct file_at *at, char **argv, const struct file_put_ops *ops, void *ctx)
{
	static const struct job_ops jops = {put_data, put_room, put_end};
	struct file_put *p = xcalloc(1, sizeof *p);
	*p = (struct file_put){.loop = at->loop, .ops = ops, .ctx = ctx, .answer = BUF_INIT(1 << 20)};
	p->run = job_open(at->loop, at->engine, &(struct job){.sandbox = at->sandbox, .user = at->user, .argv = argv}, &jops, p);
	strv_free(argv);
	return p;
}

struct file_put *file_put_open(const struct file_at *at, const char *path, const struct file_how *how,
			       const struct file_put_ops *ops, void *ctx)
{
	char **v = fileargs_new(at, "write", path);
	fileargs_how(&v, how);
	return put_open(at, v, ops, ctx);
}

struct file_put *file_untar_open(const struct file_at *at, const char *dir, unsigned flags, const struct file_put_ops *ops, void *ctx)
{
	char **v = fileargs_new(at, "untar", dir);
	fileargs_flags(&v, flags & FILE_PARENTS);
	return put_open(at, v, ops, ctx);
}

size_t file_put_send(struct file_put *p, const void *bytes, size_t n)
{
	return job_send(p->run, bytes, n);
}

void file_put_eof(struct file_put *p)
{
	job_eof(p->run);
}

void file_put_close(struct file_put *p)
{
	job_close(p->run);
	loop_bury(p->loop, p, put_free);
}

struct file_watch {
	struct loop *loop;
	struct job_run *run;
	const struct file_watch_ops *ops;
	void *ctx;
	struct buf in; // what is not a whole record yet
	bool closed;
};

static void watch_free(void *obj)
{
	struct file_watch *f = obj;
	buf_done(&f->in);
	free(f);
}

static void watch_data(void *ctx, const void *p, size_t n)
{
	struct file_watch *f = ctx;
	buf_add(&f->in, p, n);
	struct wire w = {.p = (const uint8_t *)f->in.p, .n = f->in.n};
	size_t used = 0;
	while (w.n && !f->closed) {
		enum file_event ev = (enum file_event)wire_get_u8(&w);
		bool dir = wire_get_u8(&w);
		auto_free char *name = wire_get_str(&w);
		if (w.bad)
			break;
		used = f->in.n - w.n;
		if (ev < FILE_EVENTS && name)
			f->ops->event(f->ctx, ev, dir, name);
	}
	buf_cut(&f->in, used);
}

static void watch_end(void *ctx, const struct err *e)
{
	struct file_watch *f = ctx;
	f->ops->end(f->ctx, e);
	loop_bury(f->loop, f, watch_free);
}

struct file_watch *file_watch_open(const struct file_at *at, const char *dir, unsigned flags, const struct file_watch_ops *ops, void *ctx)
{
	static const struct job_ops jops = {.data = watch_data, .end = watch_end};
	struct file_watch *f = xcalloc(1, sizeof *f);
	*f = (struct file_watch){.loop = at->loop, .ops = ops, .ctx = ctx, .in = BUF_INIT(1 << 20)};
	char **v = fileargs_new(at, "inotify", dir);
	fileargs_flags(&v, flags);
	f->run = job_open(at->loop, at->engine, &(struct job){.sandbox = at->sandbox, .user = at->user, .argv = v}, &jops, f);
	strv_free(v);
	return f;
}

void file_watch_pause(struct file_watch *w, bool on)
{
	job_pause(w->run, on);
}

void file_watch_close(struct file_watch *w)
{
	w->closed = true;
	job_close(w->run);
	loop_bury(w->loop, w, watch_free);
}

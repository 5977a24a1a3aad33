// SPDX-License-Identifier: Apache-2.0
// Typed calls: arguments become the words of one operation, its wire records become a struct file_result.
#include "engine/fileops.h"

#include "base/loop.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define ANSWER (64u << 20) // bytes of records
#define READ_SOME (64u << 20)
#define RECORDS_MAX 1000000

char *file_path(const struct file_at *at, const char *path)
{
	struct err e;
	const struct sandbox *s = *path == '/' ? NULL : engine_get(at->engine, at->sandbox, &e);
	if (!s)
		return xstrdup(path); // absolute, or of a sandbox that is not there
	return xasprintf("%s%s%s", s->ws_path, *path ? "/" : "", path);
}

// --- what comes back ---

enum answer { A_NONE, A_RECORDS, A_BYTES, A_EDIT, A_SEARCH };

struct call {
	enum answer answer;
	struct file_done done;
};

static int get_records(struct wire *w, struct file_result *r)
{
	size_t cap = 0;
	while (w->n && !w->bad && r->n < RECORDS_MAX) {
		if (r->n == cap)
			r->list = xrealloc(r->list, (cap = cap ? cap * 2 : 16) * sizeof *r->list);
		if (file_record_read(w, &r->list[r->n]))
			return -1;
		if (!r->list[r->n].name) {
			r->more = true;
			file_record_done(&r->list[r->n]);
			break;
		}
		r->n++;
	}
	return w->bad ? -1 : 0;
}

static int get_hits(struct wire *w, struct file_result *r)
{
	size_t cap = 0;
	for (;;) {
		char *path = wire_get_str(w);
		if (!path)
			break;
		if (r->n_hits == cap)
			r->hits = xrealloc(r->hits, (cap = cap ? cap * 2 : 64) * sizeof *r->hits);
		struct file_hit *h = &r->hits[r->n_hits++];
		*h = (struct file_hit){.path = path, .line = wire_get_u64(w), .column = wire_get_u64(w)};
		const uint8_t *text = wire_get_bytes(w, &h->n_text);
		h->n_text = w->bad ? 0 : h->n_text;
		h->text = xstrndup(w->bad ? "" : (const char *)text, h->n_text);
	}
	r->looked_at = wire_get_u64(w);
	r->more = wire_get_u8(w);
	return w->bad ? -1 : 0;
}

static int get_answer(enum answer kind, struct buf *out, struct file_result *r)
{
	struct wire w = {.p = (const uint8_t *)out->p, .n = out->n};
	switch (kind) {
	case A_NONE:
		return 0;
	case A_BYTES:
		r->bytes = out;
		return 0;
	case A_EDIT:
		r->replaced = wire_get_u64(&w);
		r->line = wire_get_u64(&w);
		return get_records(&w, r);
	case A_RECORDS:
		return get_records(&w, r);
	case A_SEARCH:
		return get_hits(&w, r);
	}
	return -1;
}

static void result_done(struct file_result *r)
{
	for (size_t i = 0; i < r->n; i++)
		file_record_done(&r->list[i]);
	for (size_t i = 0; i < r->n_hits; i++)
		free(r->hits[i].path), free(r->hits[i].text);
	free(r->list);
	free(r->hits);
}

static void on_done(void *ctx, const struct err *e, struct buf *out)
{
	struct call *c = ctx;
	struct file_result r = {0};
	struct err bad;
	if (!e && get_answer(c->answer, out, &r)) {
		err_set(&bad, ERR_UNAVAILABLE, "the sandbox gave a malformed answer");
		e = &bad;
	}
	c->done.fn(c->done.ctx, e, e ? NULL : &r);
	result_done(&r);
	free(c);
}

// --- what is asked ---

// argv: taken.
static void ask(const struct file_at *at, char **argv, const void *p, size_t n, enum answer kind, struct file_done d)
{
	struct call *c = xcalloc(1, sizeof *c);
	*c = (struct call){kind, d};
	engine_job(at->loop, at->engine,
		   &(struct job){.sandbox = at->sandbox, .user = at->user, .argv = argv, .input = p, .n_input = n,
				 .max = kind == A_BYTES ? READ_SOME : ANSWER},
		   (struct job_done){on_done, c});
	strv_free(argv);
}

static char **begin(const struct file_at *at, const char *op, const char *path)
{
	char **v = NULL;
	auto_free char *full = file_path(at, path);
	strv_add(&v, op);
	strv_add(&v, full);
	return v;
}

static void add_number(char ***v, const char *key, uint64_t n)
{
	auto_free char *s = xasprintf("%s%llu", key, (unsigned long long)n);
	strv_add(v, s);
}

static void add_text(char ***v, const char *key, const char *text)
{
	auto_free char *s = xasprintf("%s%s", key, text);
	strv_add(v, s);
}

static void add_flags(char ***v, unsigned flags)
{
	static const struct {
		unsigned flag;
		const char *word;
	} words[] = {{FILE_PARENTS, "parents"}, {FILE_NEW, "new"},   {FILE_FOLLOW, "follow"},
		     {FILE_PLAIN, "plain"},	{FILE_MUST, "must"}, {FILE_RECURSIVE, "recursive"}};
	for (size_t i = 0; i < countof(words); i++)
		if (flags & words[i].flag)
			strv_add(v, words[i].word);
}

static void add_how(char ***v, const struct file_how *how)
{
	add_flags(v, how->flags);
	if (how->mode) {
		auto_free char *s = xasprintf("mode=%o", how->mode);
		strv_add(v, s);
	}
	if (how->etag)
		add_text(v, "etag=", how->etag);
}

void file_stat(const struct file_at *at, const char *path, unsigned flags, struct file_done d)
{
	char **v = begin(at, "stat", path);
	add_flags(&v, flags);
	ask(at, v, NULL, 0, A_RECORDS, d);
}

void file_list(const struct file_at *at, const char *path, unsigned depth, unsigned max, struct file_done d)
{
	char **v = begin(at, "list", path);
	add_number(&v, "depth=", depth);
	add_number(&v, "max=", max);
	ask(at, v, NULL, 0, A_RECORDS, d);
}

void file_read_some(const struct file_at *at, const char *path, uint64_t from, uint64_t len, struct file_done d)
{
	char **v = begin(at, "read", path);
	add_number(&v, "from=", from);
	add_number(&v, "len=", len);
	ask(at, v, NULL, 0, A_BYTES, d);
}

void file_write(const struct file_at *at, const char *path, const void *p, size_t n, const struct file_how *how, struct file_done d)
{
	char **v = begin(at, "write", path);
	add_how(&v, how);
	ask(at, v, p, n, A_RECORDS, d);
}

void file_append(const struct file_at *at, const char *path, const void *p, size_t n, const struct file_how *how, struct file_done d)
{
	char **v = begin(at, "append", path);
	add_how(&v, how);
	ask(at, v, p, n, A_RECORDS, d);
}

void file_mkdir(const struct file_at *at, const char *path, const struct file_how *how, struct file_done d)
{
	char **v = begin(at, "mkdir", path);
	add_how(&v, how);
	ask(at, v, NULL, 0, A_RECORDS, d);
}

static void from_to(const struct file_at *at, const char *op, const char *from, const char *to, unsigned flags, struct file_done d)
{
	char **v = begin(at, op, from);
	auto_free char *full = file_path(at, to);
	strv_add(&v, full);
	add_flags(&v, flags);
	ask(at, v, NULL, 0, A_RECORDS, d);
}

void file_move(const struct file_at *at, const char *from, const char *to, unsigned flags, struct file_done d)
{
	from_to(at, "move", from, to, flags, d);
}

void file_copy(const struct file_at *at, const char *from, const char *to, unsigned flags, struct file_done d)
{
	from_to(at, "copy", from, to, flags, d);
}

void file_remove(const struct file_at *at, const char *path, unsigned flags, struct file_done d)
{
	char **v = begin(at, "remove", path);
	add_flags(&v, flags);
	ask(at, v, NULL, 0, A_NONE, d);
}

void file_edit(const struct file_at *at, const char *path, const struct file_edit *edits, size_t n, const char *etag, struct file_done d)
{
	auto_buf struct buf in = BUF_INIT(64u << 20);
	char **v = begin(at, "edit", path);
	if (etag)
		add_text(&v, "etag=", etag);
	wire_u32(&in, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		wire_bytes(&in, edits[i].old.p, edits[i].old.n);
		wire_bytes(&in, edits[i].put.p, edits[i].put.n);
		wire_u8(&in, edits[i].all);
	}
	ask(at, v, in.p, in.n, A_EDIT, d);
}

void file_search(const struct file_at *at, const struct file_query *q, struct file_done d)
{
	const struct {
		bool on;
		const char *word;
	} flags[] = {{q->literal, "literal"}, {q->nocase, "nocase"}, {q->hidden, "hidden"}, {q->files_only, "files"}};
	char **v = begin(at, "search", q->dir ? q->dir : "");
	if (q->regex)
		add_text(&v, "regex=", q->regex);
	for (size_t i = 0; i < countof(flags); i++)
		if (flags[i].on)
			strv_add(&v, flags[i].word);
	for (char *const *g = q->globs; g && *g; g++)
		add_text(&v, "glob=", *g);
	for (char *const *g = q->nots; g && *g; g++)
		add_text(&v, "not=", *g);
	add_number(&v, "limit=", q->limit && q->limit < FILE_HITS_MAX ? q->limit : FILE_HITS_MAX);
	add_number(&v, "ms=", q->ms ? q->ms : 10000);
	ask(at, v, NULL, 0, A_SEARCH, d);
}

// --- in pieces ---

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
	char **v = begin(at, "get", path);
	if (from)
		add_text(&v, "from=", from);
	if (len < INT64_MAX)
		add_number(&v, "len=", len);
	return get_open(at, v, ops, ctx);
}

struct file_get *file_tar_open(const struct file_at *at, const char *path, const struct file_get_ops *ops, void *ctx)
{
	return get_open(at, begin(at, "tar", path), ops, ctx);
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
	char **v = begin(at, "write", path);
	add_how(&v, how);
	return put_open(at, v, ops, ctx);
}

struct file_put *file_untar_open(const struct file_at *at, const char *dir, unsigned flags, const struct file_put_ops *ops, void *ctx)
{
	char **v = begin(at, "untar", dir);
	add_flags(&v, flags & FILE_PARENTS);
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
	char **v = begin(at, "inotify", dir);
	add_flags(&v, flags);
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

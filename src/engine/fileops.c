// SPDX-License-Identifier: Apache-2.0
// Typed calls: arguments become the words of one operation, its wire records become a struct file_result.
#include "engine/fileops.h"

#include "base/mem.h"
#include "engine/fileargs.h"
#include <stdlib.h>

#define ANSWER_BYTES (64u << 20)
#define RECORDS_MAX 1000000

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
		   &(struct job){.sandbox = at->sandbox, .user = at->user, .argv = argv, .input = p, .n_input = n, .max = ANSWER_BYTES},
		   (struct job_done){on_done, c});
	strv_free(argv);
}

void file_stat(const struct file_at *at, const char *path, unsigned flags, struct file_done d)
{
	char **v = fileargs_new(at, "stat", path);
	fileargs_flags(&v, flags);
	ask(at, v, NULL, 0, A_RECORDS, d);
}

void file_list(const struct file_at *at, const char *path, unsigned depth, unsigned max, struct file_done d)
{
	char **v = fileargs_new(at, "list", path);
	fileargs_number(&v, "depth=", depth);
	fileargs_number(&v, "max=", max);
	ask(at, v, NULL, 0, A_RECORDS, d);
}

void file_read_some(const struct file_at *at, const char *path, uint64_t from, uint64_t len, struct file_done d)
{
	char **v = fileargs_new(at, "read", path);
	fileargs_number(&v, "from=", from);
	fileargs_number(&v, "len=", len);
	ask(at, v, NULL, 0, A_BYTES, d);
}

void file_write(const struct file_at *at, const char *path, const void *p, size_t n, const struct file_how *how, struct file_done d)
{
	char **v = fileargs_new(at, "write", path);
	fileargs_how(&v, how);
	ask(at, v, p, n, A_RECORDS, d);
}

void file_mkdir(const struct file_at *at, const char *path, const struct file_how *how, struct file_done d)
{
	char **v = fileargs_new(at, "mkdir", path);
	fileargs_how(&v, how);
	ask(at, v, NULL, 0, A_RECORDS, d);
}

static void from_to(const struct file_at *at, const char *op, const char *from, const char *to, unsigned flags, struct file_done d)
{
	char **v = fileargs_new(at, op, from);
	auto_free char *full = file_path(at, to);
	strv_add(&v, full);
	fileargs_flags(&v, flags);
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
	char **v = fileargs_new(at, "remove", path);
	fileargs_flags(&v, flags);
	ask(at, v, NULL, 0, A_NONE, d);
}

void file_edit(const struct file_at *at, const char *path, const struct file_edit *edits, size_t n, const char *etag, struct file_done d)
{
	auto_buf struct buf in = BUF_INIT(64u << 20);
	char **v = fileargs_new(at, "edit", path);
	if (etag)
		fileargs_text(&v, "etag=", etag);
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
	char **v = fileargs_new(at, "search", q->dir ? q->dir : "");
	if (q->regex)
		fileargs_text(&v, "regex=", q->regex);
	for (size_t i = 0; i < countof(flags); i++)
		if (flags[i].on)
			strv_add(&v, flags[i].word);
	for (char *const *g = q->globs; g && *g; g++)
		fileargs_text(&v, "glob=", *g);
	for (char *const *g = q->nots; g && *g; g++)
		fileargs_text(&v, "not=", *g);
	fileargs_number(&v, "limit=", q->limit && q->limit < FILE_HITS_MAX ? q->limit : FILE_HITS_MAX);
	fileargs_number(&v, "ms=", q->ms ? q->ms : 10000);
	ask(at, v, NULL, 0, A_SEARCH, d);
}

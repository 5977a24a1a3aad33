// SPDX-License-Identifier: Apache-2.0
// Files of a sandbox, as a model works with them: by lines, by exact replacement, by search. Everything runs inside the cell.
#include "api/mcp_site_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "engine/fileops.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define READ_LINES 2000
#define READ_BYTES (128u << 10)
#define SCAN_BYTES (64u << 20) // of a file before the lines that are wanted
#define LIST_MAX 2000
#define HITS_DEFAULT 200

static struct file_at at(struct mcp_call *c, const struct sandbox *s)
{
	return (struct file_at){.loop = c->loop, .engine = c->engine, .sandbox = s->id};
}

static const char *arg_of(const struct mcp_call *c, const char *key)
{
	return mcp_arg(json_object_get(c->m.params, "arguments"), key);
}

static void refuse(struct mcp_call *c, const struct err *e)
{
	const char *next = NULL;
	switch (e->sys) {
	case ENOENT:
		next = "check the path with list, or find it with search (without a pattern it looks for names).";
		break;
	case EISDIR:
		next = "that is a directory: use list.";
		break;
	case ESTALE:
		next = "it changed since it was read: read it again.";
		break;
	default:
		break;
	}
	if (next)
		mcp_refuse(c, e, next);
	else
		mcp_refuse_kind(c, e);
}

// --- read ---

struct reading {
	struct mcp_call *c;
	struct file_get *get;
	struct buf text;
	uint64_t line, first, want; // line: the one that data is in, from 1
	uint64_t seen, size;
	bool full, binary;
};

static void reading_free(struct reading *r)
{
	buf_done(&r->text);
	free(r);
}

static void read_answer(struct reading *r, bool more)
{
	struct mcp_call *c = r->c;
	uint64_t last = r->first - 1;
	for (size_t i = 0; i < r->text.n; i++)
		last += r->text.p[i] == '\n';
	last += r->text.n && r->text.p[r->text.n - 1] != '\n';
	struct jsonw w = mcp_answer_begin(c);
	jw_kstr(&w, "path", arg_of(c, "path"));
	mcp_text(&w, "text", buf_cstr(&r->text), r->text.n);
	jw_ku64(&w, "first_line", r->first);
	jw_ku64(&w, "last_line", last);
	jw_ku64(&w, "size", r->size);
	jw_kbool(&w, "more", more);
	if (more)
		jw_kstr(&w, "next", "There is more: call read again with line = last_line + 1.");
	reading_free(r);
	mcp_answer_end(c, &w);
}

static void on_head(void *ctx, const struct file_record *rec)
{
	((struct reading *)ctx)->size = rec->size;
}

static void stop_reading(struct reading *r)
{
	struct file_get *g = r->get;
	struct err e;
	struct mcp_call *c = r->c;
	file_get_close(g);
	if (!r->binary) {
		read_answer(r, true);
		return;
	}
	err_set(&e, ERR_INVALID, "%s is not text", arg_of(c, "path"));
	reading_free(r);
	mcp_refuse(c, &e, "look at it with run (file, xxd, strings), or read the resource skep://file/SANDBOX/PATH, which gives bytes.");
}

static void on_bytes(void *ctx, const void *bytes, size_t n)
{
	struct reading *r = ctx;
	const char *p = bytes, *end = p + n;
	r->binary |= memchr(p, 0, n) != NULL;
	r->seen += n;
	while (p < end && !r->binary && !r->full) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t len = nl ? (size_t)(nl - p) + 1 : (size_t)(end - p);
		bool wanted = r->line >= r->first && r->line < r->first + r->want;
		size_t room = r->text.max - r->text.n;
		r->full = r->line >= r->first + r->want || (wanted && len > room);
		if (wanted)
			buf_add(&r->text, p, r->full ? str_utf8_whole(p, room) : len);
		r->line += nl != NULL;
		p += len;
	}
	r->full |= r->line < r->first && r->seen > SCAN_BYTES;
	if (r->full || r->binary)
		stop_reading(r);
}

static void on_read_end(void *ctx, const struct err *e)
{
	struct reading *r = ctx;
	struct mcp_call *c = r->c;
	if (!e) {
		read_answer(r, false);
		return;
	}
	reading_free(r);
	refuse(c, e);
}

static const struct file_get_ops read_ops = {.head = on_head, .data = on_bytes, .end = on_read_end};

void mcp_read(struct mcp_call *c, const json_t *args)
{
	const struct sandbox *s = mcp_box(c, args, SCOPE_READ);
	if (!s)
		return;
	struct reading *r = xcalloc(1, sizeof *r);
	struct file_at where = at(c, s);
	r->c = c;
	r->line = 1;
	r->first = mcp_arg_num(args, "line", 1);
	r->want = mcp_arg_num(args, "lines", READ_LINES);
	r->text = BUF_INIT(READ_BYTES);
	r->get = file_get_open(&where, mcp_arg(args, "path"), NULL, UINT64_MAX, &read_ops, r);
}

// --- write, edit ---

static void put_file(struct jsonw *w, const struct mcp_call *c, const struct file_result *res)
{
	char etag[FILE_ETAG];
	jw_kstr(w, "path", arg_of(c, "path"));
	if (!res->n)
		return;
	file_etag(&res->list[0], etag);
	jw_ku64(w, "size", res->list[0].size);
	jw_kstr(w, "etag", etag);
}

static void on_written(void *ctx, const struct err *e, struct file_result *res)
{
	struct mcp_call *c = ctx;
	if (e) {
		refuse(c, e);
		return;
	}
	struct jsonw w = mcp_answer_begin(c);
	put_file(&w, c, res);
	mcp_answer_end(c, &w);
}

void mcp_write(struct mcp_call *c, const json_t *args)
{
	const char *text = mcp_arg(args, "content");
	struct file_how how = {.flags = FILE_PARENTS | (mcp_arg_bool(args, "new") ? FILE_NEW : 0u), .etag = mcp_arg(args, "etag")};
	const struct sandbox *s = mcp_box(c, args, SCOPE_RUN);
	if (!s)
		return;
	struct file_at where = at(c, s);
	file_write(&where, mcp_arg(args, "path"), text, strlen(text), &how, (struct file_done){on_written, c});
}

static void on_edited(void *ctx, const struct err *e, struct file_result *res)
{
	struct mcp_call *c = ctx;
	if (e) {
		refuse(c, e);
		return;
	}
	struct jsonw w = mcp_answer_begin(c);
	put_file(&w, c, res);
	jw_ku64(&w, "replaced", res->replaced);
	jw_ku64(&w, "line", res->line);
	mcp_answer_end(c, &w);
}

void mcp_edit(struct mcp_call *c, const json_t *args)
{
	struct file_edit edit = {.old = str_of(mcp_arg(args, "old")), .put = str_of(mcp_arg(args, "new")), .all = mcp_arg_bool(args, "replace_all")};
	const struct sandbox *s = mcp_box(c, args, SCOPE_RUN);
	if (!s)
		return;
	struct file_at where = at(c, s);
	file_edit(&where, mcp_arg(args, "path"), &edit, 1, mcp_arg(args, "etag"), (struct file_done){on_edited, c});
}

// --- list, search ---

static void on_listed(void *ctx, const struct err *e, struct file_result *res)
{
	struct mcp_call *c = ctx;
	if (e) {
		refuse(c, e);
		return;
	}
	struct jsonw w = mcp_answer_begin(c);
	jw_key(&w, "entries");
	jw_open(&w, '[');
	for (size_t i = 0; i < res->n; i++) {
		const struct file_record *f = &res->list[i];
		jw_open(&w, '{');
		mcp_text(&w, "name", f->name, strlen(f->name));
		jw_kstr(&w, "kind", file_kind(f->mode));
		jw_ku64(&w, "size", f->size);
		if (f->link)
			mcp_text(&w, "target", f->link, strlen(f->link));
		jw_close(&w, '}');
	}
	jw_close(&w, ']');
	jw_kbool(&w, "more", res->more);
	if (res->more)
		jw_kstr(&w, "next", "Not all are shown: list a directory below, with less depth, or use search with a glob.");
	mcp_answer_end(c, &w);
}

void mcp_list(struct mcp_call *c, const json_t *args)
{
	const char *path = mcp_arg(args, "path");
	const struct sandbox *s = mcp_box(c, args, SCOPE_READ);
	if (!s)
		return;
	struct file_at where = at(c, s);
	file_list(&where, path ? path : ".", (unsigned)mcp_arg_num(args, "depth", 1), LIST_MAX, (struct file_done){on_listed, c});
}

static void on_found(void *ctx, const struct err *e, struct file_result *res)
{
	struct mcp_call *c = ctx;
	if (e) {
		refuse(c, e);
		return;
	}
	struct jsonw w = mcp_answer_begin(c);
	jw_key(&w, "hits");
	jw_open(&w, '[');
	for (size_t i = 0; i < res->n_hits; i++) {
		const struct file_hit *h = &res->hits[i];
		jw_open(&w, '{');
		mcp_text(&w, "path", h->path, strlen(h->path));
		if (h->line) {
			jw_ku64(&w, "line", h->line);
			mcp_text(&w, "text", h->text, h->n_text);
		}
		jw_close(&w, '}');
	}
	jw_close(&w, ']');
	jw_ku64(&w, "files", res->looked_at);
	jw_kbool(&w, "more", res->more);
	if (res->more)
		jw_kstr(&w, "next", "There are more hits, or time ran out: narrow it with path, glob or a longer pattern.");
	mcp_answer_end(c, &w);
}

void mcp_search(struct mcp_call *c, const json_t *args)
{
	const char *glob = mcp_arg(args, "glob");
	auto_free char *own = glob ? xstrdup(glob) : NULL;
	char *globs[] = {own, NULL};
	const struct sandbox *s = mcp_box(c, args, SCOPE_READ);
	if (!s)
		return;
	struct file_at where = at(c, s);
	struct file_query q = {
		.dir = mcp_arg(args, "path"),
		.regex = mcp_arg(args, "pattern"),
		.globs = glob ? globs : NULL,
		.literal = mcp_arg_bool(args, "literal"),
		.nocase = mcp_arg_bool(args, "ignore_case"),
		.hidden = mcp_arg_bool(args, "hidden"),
		.files_only = mcp_arg_bool(args, "files_only"),
		.limit = (unsigned)mcp_arg_num(args, "limit", HITS_DEFAULT),
	};
	file_search(&where, &q, (struct file_done){on_found, c});
}

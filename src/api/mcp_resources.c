// SPDX-License-Identifier: Apache-2.0
// What is too long for a tool's answer, as resources:
//   skep://exec/EXEC/stdout|stderr[?offset=N&length=N]    what a command said
//   skep://file/SANDBOX/PATH[?offset=N&length=N]          bytes of a file; PATH without its first slash, percent-encoded
#include "api/mcp_site_int.h"

#include "api/auth.h"
#include "api/route.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/fileops.h"
#include <stdlib.h>
#include <string.h>

#define LENGTH_DEFAULT (64u << 10)
#define LENGTH_MAX (1u << 20)
#define LISTED 50

struct place {
	bool file;
	char *whose, *what; // exec and stream; sandbox and path
	uint64_t offset, length;
};

static void place_done(struct place *p)
{
	free(p->whose);
	free(p->what);
}

static int parse_range(struct str query, struct place *p)
{
	struct str pair;
	while (str_next(&query, '&', &pair)) {
		bool offset = pair.n > 7 && !strncmp(pair.p, "offset=", 7), length = pair.n > 7 && !strncmp(pair.p, "length=", 7);
		struct str value = {pair.p + 7, pair.n > 7 ? pair.n - 7 : 0};
		if ((!offset && !length) || str_to_u64(value, 0, INT64_MAX, offset ? &p->offset : &p->length))
			return -1;
	}
	if (p->length > LENGTH_MAX)
		p->length = LENGTH_MAX;
	return 0;
}

// -1: no resource of ours. place_done also then.
static int parse(const char *uri, struct place *p)
{
	static const char exec[] = "skep://exec/", file[] = "skep://file/";
	*p = (struct place){.length = LENGTH_DEFAULT, .file = str_has_prefix(uri, file)};
	if (!p->file && !str_has_prefix(uri, exec))
		return -1;
	struct str rest = str_of(uri + sizeof exec - 1), whose;
	const char *q = memchr(rest.p, '?', rest.n);
	if (q && parse_range(str_of(q + 1), p))
		return -1;
	rest.n = q ? (size_t)(q - rest.p) : rest.n;
	if (!str_next(&rest, '/', &whose) || !rest.n)
		return -1;
	p->whose = percent_decode(whose, false);
	auto_free char *what = percent_decode(rest, false);
	if (!p->whose || !what)
		return -1;
	p->what = p->file ? xasprintf("/%s", what) : xstrdup(what);
	return p->file || !strcmp(what, "stdout") || !strcmp(what, "stderr") ? 0 : -1;
}

static void not_found(struct mcp_call *c, const char *message)
{
	auto_buf struct buf data = BUF_INIT(8192);
	struct jsonw w = {.b = &data};
	const char *uri = json_str(c->m.params, "uri");
	jw_open(&w, '{');
	jw_key(&w, "uri");
	jw_str(&w, uri, strnlen(uri, 1000));
	jw_close(&w, '}');
	mcp_error(c, RPC_PARAMS, 200, message, buf_cstr(&data));
}

static void answer(struct mcp_call *c, const char *p, size_t n)
{
	bool text = str_is_utf8(p, n) && !memchr(p, 0, n);
	struct jsonw w = mcp_result_begin(c, "complete");
	jw_key(&w, "contents");
	jw_open(&w, '[');
	jw_open(&w, '{');
	jw_kstr(&w, "uri", json_str(c->m.params, "uri"));
	jw_kstr(&w, "mimeType", text ? "text/plain" : "application/octet-stream");
	if (text)
		mcp_text(&w, "text", p, n);
	else
		jw_kb64(&w, "blob", p, n);
	jw_close(&w, '}');
	jw_close(&w, ']');
	mcp_cacheable(c, &w, 0, false);
	mcp_result_end(c, &w);
}

static void read_exec(struct mcp_call *c, const struct place *p)
{
	struct exec_row row;
	struct err e;
	uint64_t first, end;
	auto_buf struct buf out = BUF_INIT(p->length ? p->length : 1);
	if (mcp_exec_find(c, p->whose, SCOPE_READ, &row, &e)) {
		not_found(c, e.msg);
		return;
	}
	bool bad = engine_output(c->engine, row.id, p->what, p->offset, &out, &first, &end, &e);
	exec_row_done(&row);
	if (bad)
		not_found(c, e.msg);
	else
		answer(c, out.p ? out.p : "", out.n);
}

static void on_file(void *ctx, const struct err *e, struct file_result *res)
{
	struct mcp_call *c = ctx;
	if (e)
		not_found(c, e->msg);
	else
		answer(c, res->bytes->p ? res->bytes->p : "", res->bytes->n);
}

static void read_file(struct mcp_call *c, const struct place *p)
{
	struct err e;
	const struct sandbox *s = mcp_box_find(c, p->whose, SCOPE_READ, &e);
	if (!s) {
		not_found(c, e.msg);
		return;
	}
	struct file_at at = {.loop = c->loop, .engine = c->engine, .sandbox = s->id};
	file_read_some(&at, p->what, p->offset, p->length, (struct file_done){on_file, c});
}

void mcp_resources_read(struct mcp_call *c)
{
	struct place p;
	if (parse(json_str(c->m.params, "uri"), &p))
		not_found(c, "no such resource: resources/templates/list names the forms");
	else if (p.file)
		read_file(c, &p);
	else
		read_exec(c, &p);
	place_done(&p);
}

struct listing {
	struct mcp_call *c;
	struct jsonw w;
	int n;
};

static void list_stream(struct listing *l, const struct exec_row *x, const char *stream, uint64_t bytes)
{
	auto_free char *uri = xasprintf("skep://exec/%s/%s", x->id, stream), *name = xasprintf("%s of %s", stream, x->id);
	if (!bytes || l->n >= LISTED)
		return;
	l->n++;
	jw_open(&l->w, '{');
	jw_kstr(&l->w, "uri", uri);
	jw_kstr(&l->w, "name", name);
	jw_kstr(&l->w, "description", "what a command of a sandbox said");
	jw_kstr(&l->w, "mimeType", "text/plain");
	jw_ku64(&l->w, "size", bytes);
	jw_close(&l->w, '}');
}

static void list_exec(void *ctx, const struct exec_row *x)
{
	struct listing *l = ctx;
	if (x->running || l->n >= LISTED || !request_sees_id(l->c->r, x->sandbox))
		return;
	list_stream(l, x, "stdout", x->result.out_bytes);
	list_stream(l, x, "stderr", x->result.err_bytes);
}

void mcp_resources_list(struct mcp_call *c)
{
	struct err e;
	struct listing l = {.c = c, .w = mcp_result_begin(c, "complete")};
	jw_key(&l.w, "resources");
	jw_open(&l.w, '[');
	bool none = c->pin && !*c->pin;
	if (!none && engine_execs(c->engine, c->pin, list_exec, &l, &e)) {
		mcp_error(c, RPC_INTERNAL, 200, e.msg, NULL);
		return;
	}
	jw_close(&l.w, ']');
	mcp_cacheable(c, &l.w, 0, false);
	mcp_result_end(c, &l.w);
}

void mcp_templates_list(struct mcp_call *c)
{
	struct jsonw w = mcp_result_begin(c, "complete");
	jw_key(&w, "resourceTemplates");
	jw_raw(&w,
	       "[{\"uriTemplate\":\"skep://exec/{exec}/{stream}{?offset,length}\",\"name\":\"output of a command\","
	       "\"description\":\"stream is stdout or stderr; offset in bytes, length at most 1048576 (default 65536)\",\"mimeType\":\"text/plain\"},"
	       "{\"uriTemplate\":\"skep://file/{sandbox}/{+path}{?offset,length}\",\"name\":\"file of a sandbox\","
	       "\"description\":\"path is absolute, without its first slash; bytes that are not text come as blob\"}]");
	mcp_cacheable(c, &w, 3600000, true);
	mcp_result_end(c, &w);
}

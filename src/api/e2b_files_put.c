// SPDX-License-Identifier: Apache-2.0
// POST /files: one file as the body, or several as a form. The bytes go straight into an operation inside (fill), at the pace
// at which it takes them; files of a form come one after another.
#include "api/e2b_entry.h"
#include "api/e2b_envd_int.h"
#include "api/e2b_files.h"
#include "api/e2b_gunzip.h"
#include "base/mem.h"
#include "http/multipart.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ANSWER_BYTES (256u << 10) // of one file's entry

struct put {
	struct envd_call *c; // NULL: it was answered
	struct loop *loop;
	bool form, asked_end, over; // asked_end: the body is over
	struct multipart parts;
	struct gunzip *gunzip;
	struct job_run *job; // the file that is written
	bool skipping, closing; // a part that is no file; all of the file was given
	struct buf out;	      // what the job says
	char *path;	      // of the query; NULL = none
	char **notes, **paths; // paths: as they were given
	struct jsonw w;
	bool failed; // behind the gunzip, which can not say so
	struct err why;
	struct e2b_stream live;
};

static void put_free(void *obj)
{
	struct put *u = obj;
	if (u->form)
		multipart_done(&u->parts);
	gunzip_free(u->gunzip);
	buf_done(&u->out);
	strv_free(u->notes);
	strv_free(u->paths);
	free(u->path);
	free(u);
}

// The call is the caller's to answer.
static struct envd_call *leave(struct put *u)
{
	struct envd_call *c = u->c;
	struct request *r = c->r;
	u->c = NULL;
	r->on_gone = NULL;
	r->on_body = NULL;
	r->on_body_end = NULL;
	e2b_stream_del(&u->live);
	if (u->job)
		job_close(u->job);
	u->job = NULL;
	loop_bury(u->loop, u, put_free);
	return c;
}

static void fail(struct put *u, const struct err *e)
{
	envd_fail(leave(u), e);
}

// --- one file ---

static void finished(struct put *u);

static void write_entry(struct put *u, const struct entry *n)
{
	jw_open(&u->w, '{');
	jw_kstr(&u->w, "name", n->file.name);
	jw_kstr(&u->w, "path", n->path);
	jw_kstr(&u->w, "type", "file");
	entry_notes(&u->w, n->notes);
	jw_close(&u->w, '}');
}

static void on_data(void *ctx, const void *p, size_t n)
{
	struct put *u = ctx;
	buf_add(&u->out, p, n);
}

static void on_room(void *ctx)
{
	struct put *u = ctx;
	if (u->closing)
		job_eof(u->job);
	else if (u->c && u->asked_end)
		finished(u); // of a compressed body something may wait
	else if (u->c)
		request_more(u->c->r);
}

static void on_end(void *ctx, const struct err *e)
{
	struct put *u = ctx;
	struct entry n;
	struct err own;
	u->job = NULL;
	if (e) {
		fail(u, e);
		return;
	}
	struct wire w = {.p = (const uint8_t *)u->out.p, .n = u->out.n};
	if (!u->closing || entry_read(&w, &n)) {
		err_set(&own, ERR_SYSTEM, "the file was not written to its end");
		fail(u, &own);
		return;
	}
	buf_clear(&u->out);
	write_entry(u, &n);
	entry_done(&n);
	u->closing = u->parts.hold = false;
	if (u->asked_end)
		finished(u);
	else
		request_more(u->c->r);
}

static const struct job_ops ops = {.data = on_data, .room = on_room, .end = on_end};

static void open_file(struct put *u, const char *path)
{
	char **argv = NULL;
	const char *const first[] = {"for", u->c->user, "fill", path};
	for (size_t i = 0; i < countof(first); i++)
		strv_add(&argv, first[i]);
	for (char **v = u->notes; v && *v; v++)
		strv_add(&argv, *v);
	strv_add(&u->paths, path);
	u->job = job_open(u->loop, u->c->g, &(struct job){.sandbox = u->c->sandbox, .argv = argv}, &ops, u);
	strv_free(argv);
}

static size_t to_file(void *ctx, const char *p, size_t n)
{
	struct put *u = ctx;
	return u->skipping ? n : u->job ? job_send(u->job, p, n) : 0;
}

static void close_file(struct put *u)
{
	if (!u->job)
		return;
	u->closing = u->parts.hold = true;
	job_eof(u->job);
}

// --- forms ---

static int on_part(void *ctx, const char *name, const char *filename, struct err *e)
{
	struct put *u = ctx;
	const char *path = u->path ? u->path : filename;
	u->skipping = strcmp(name, "file");
	if (u->skipping)
		return 0;
	if (!path || !*path)
		return err_set(e, ERR_INVALID, "a file without a name: give path in the query or filename in the part");
	for (char **v = u->paths; v && *v; v++)
		if (!strcmp(*v, path))
			return err_set(e, ERR_INVALID, "you cannot upload multiple files to the same path '%.200s' in one upload request, only the first specified file was uploaded", path);
	open_file(u, path);
	return 0;
}

static void on_part_end(void *ctx)
{
	struct put *u = ctx;
	u->skipping = false;
	close_file(u);
}

static const struct multipart_ops form_ops = {.part = on_part, .data = to_file, .part_end = on_part_end};

// --- the body ---

static long plain(struct put *u, const char *p, size_t n, struct err *e)
{
	return u->form ? multipart_feed(&u->parts, p, n, e) : (long)to_file(u, p, n);
}

static size_t unzipped(void *ctx, const char *p, size_t n)
{
	struct put *u = ctx;
	long took = u->failed ? (long)n : plain(u, p, n, &u->why);
	u->failed |= took < 0;
	return took < 0 ? n : (size_t)took;
}

static size_t on_body(struct request *r, const char *p, size_t n)
{
	struct put *u = r->ctx;
	struct err e;
	long took = u->gunzip ? gunzip_feed(u->gunzip, p, n, &e) : plain(u, p, n, &e);
	if (took >= 0 && !u->failed)
		return (size_t)took;
	fail(u, u->failed ? &u->why : &e);
	return n;
}

// As much of the end as can be done now; called again when more can.
static void finished(struct put *u)
{
	struct err e;
	int rest = u->gunzip ? gunzip_end(u->gunzip, &e) : 1;
	if (rest < 0 || u->failed) {
		fail(u, u->failed ? &u->why : &e);
		return;
	}
	if (!rest || u->closing)
		return;
	if (u->form && !multipart_is_over(&u->parts)) {
		err_set(&e, ERR_INVALID, "the form ends before its last boundary");
		fail(u, &e);
		return;
	}
	if (u->job) {
		close_file(u);
		return;
	}
	jw_close(&u->w, ']');
	struct envd_call *c = leave(u);
	c->r->type = NULL;
	envd_answer(c, 200);
}

static void on_body_end(struct request *r)
{
	struct put *u = r->ctx;
	u->asked_end = true;
	finished(u);
}

static void on_gone(struct request *r)
{
	struct put *u = r->ctx;
	envd_error(leave(u), RPC_CANCELED, "the client left");
}

static void on_cut(struct e2b_stream *l)
{
	envd_lost(leave(container_of(l, struct put, live)));
}

// --- the head ---

struct notes {
	char **list;
	size_t bytes;
	const char *wrong;
};

static void on_header(void *ctx, const char *name, const char *value)
{
	struct notes *n = ctx;
	if (strncasecmp(name, "X-Metadata-", 11))
		return;
	auto_free char *lower = xstrdup(name + 11);
	for (char *p = lower; *p; p++)
		*p = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
	const char *wrong = files_note_wrong(lower, value);
	n->bytes += strlen(lower) + strlen(value);
	n->wrong = n->wrong ? n->wrong : wrong ? wrong : n->bytes > FILES_NOTES_MAX ? "the metadata is longer than 4096 bytes" : NULL;
	auto_free char *note = xasprintf("%s=%s", lower, value);
	if (!n->wrong)
		strv_add(&n->list, note);
}

static bool type_is(const char *type, const char *want)
{
	size_t n = strlen(want);
	return type && !strncasecmp(type, want, n) && (!type[n] || type[n] == ';' || type[n] == ' ');
}

static int begin(struct put *u, struct request *r, struct err *e)
{
	const char *type = request_header(r, "Content-Type"), *encoding = request_header(r, "Content-Encoding");
	struct notes n = {.list = NULL};
	request_each_header(r, on_header, &n);
	u->notes = n.list;
	if (n.wrong)
		return err_set(e, ERR_INVALID, "%s", n.wrong);
	u->form = type_is(type, "multipart/form-data");
	if (u->form && multipart_init(&u->parts, type, &form_ops, u, e)) {
		u->form = false;
		return -1;
	}
	if (encoding && !strcasecmp(encoding, "gzip"))
		u->gunzip = gunzip_new(unzipped, u);
	else if (encoding && *encoding && strcasecmp(encoding, "identity"))
		return err_set(e, ERR_INVALID, "unsupported Content-Encoding: gzip and identity are understood");
	if (u->form)
		return 0;
	if (!type_is(type, "application/octet-stream"))
		return err_set(e, ERR_INVALID, "unsupported Content-Type: multipart/form-data and application/octet-stream are understood");
	if (!u->path)
		return err_set(e, ERR_INVALID, "path is required for an upload as application/octet-stream");
	open_file(u, u->path);
	return 0;
}

void files_post(struct envd_call *c)
{
	struct request *r = c->r;
	struct err e;
	const char *path = request_query(r, "path");
	struct put *u = xcalloc(1, sizeof *u);
	*u = (struct put){.c = c, .loop = c->loop, .path = path && *path ? xstrdup(path) : NULL, .out = BUF_INIT(ANSWER_BYTES),
			  .w.b = &r->answer, .live.cut = on_cut};
	r->ctx = u;
	r->on_gone = on_gone;
	r->on_body = on_body;
	r->on_body_end = on_body_end;
	e2b_stream_add(&u->live, c->sandbox);
	jw_open(&u->w, '[');
	if (begin(u, r, &e)) {
		fail(u, &e);
		return;
	}
	if (r->over)
		on_body_end(r);
	else
		request_more(r);
}

// --- one file from several ---

static void on_composed(void *ctx, const struct err *e, struct buf *out)
{
	struct envd_call *c = ctx;
	struct wire w = {.p = out ? (const uint8_t *)out->p : NULL, .n = out ? out->n : 0};
	struct entry n;
	if (e || entry_read(&w, &n)) {
		e ? envd_fail(c, e) : envd_error(c, RPC_INTERNAL, "the answer from inside the sandbox is malformed");
		return;
	}
	struct jsonw j = {.b = &c->r->answer};
	jw_open(&j, '{');
	jw_kstr(&j, "name", n.file.name);
	jw_kstr(&j, "path", n.path);
	jw_kstr(&j, "type", "file");
	jw_close(&j, '}');
	entry_done(&n);
	envd_answer(c, 200);
}

void files_compose(struct envd_call *c)
{
	const json_t *o = c->r->json;
	char **sources = NULL, **argv = NULL;
	const char *to = NULL, *user = NULL;
	struct err e;
	if (json_get_strv(o, "source_paths", &sources, &e) || json_get_str(o, "destination", &to, &e) ||
	    json_get_str(o, "username", &user, &e)) {
		strv_free(sources);
		envd_fail(c, &e);
		return;
	}
	if (!to || !*to || !sources || !*sources) {
		strv_free(sources);
		envd_error(c, RPC_INVALID_ARGUMENT, "source_paths and destination are needed");
		return;
	}
	const char *const first[] = {"for", user && *user ? user : c->user, "compose", to};
	for (size_t i = 0; i < countof(first); i++)
		strv_add(&argv, first[i]);
	for (char **v = sources; *v; v++)
		strv_add(&argv, *v);
	engine_job(c->loop, c->g, &(struct job){.sandbox = c->sandbox, .argv = argv, .max = ANSWER_BYTES}, (struct job_done){on_composed, c});
	strv_free(sources);
	strv_free(argv);
}

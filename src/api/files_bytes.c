// SPDX-License-Identifier: Apache-2.0
// The bytes of files: down with ranges, up until they are whole, and what happens in a directory. Nobody waits in memory for
// anybody: a slow reader pauses the file operation, a slow file operation pauses the upload.
#include "api/files_int.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

// --- down ---

struct down {
	struct request *r;
	struct file_get *get;
	char from[24];	   // of the range asked for; "" = none
	uint64_t len;	   // of it
	uint64_t left;	   // bytes promised and not yet written
	bool head;
};

// One range of bytes. What is not understood is no range, as HTTP wants it.
static void parse_range(const char *s, struct down *d)
{
	uint64_t a, b;
	d->len = UINT64_MAX;
	if (!s || strncmp(s, "bytes=", 6) || strchr(s, ','))
		return;
	s += 6;
	const char *dash = strchr(s, '-');
	if (!dash)
		return;
	struct str first = {s, (size_t)(dash - s)}, last = str_of(dash + 1);
	if (!first.n && !str_to_u64(last, 1, INT64_MAX, &b)) {
		if (fmt_to(d->from, sizeof d->from, "-%llu", (unsigned long long)b))
			d->from[0] = 0;
		return;
	}
	if (str_to_u64(first, 0, INT64_MAX, &a) || (last.n && str_to_u64(last, a, INT64_MAX, &b)))
		return;
	if (fmt_to(d->from, sizeof d->from, "%llu", (unsigned long long)a))
		d->from[0] = 0;
	else if (last.n)
		d->len = b - a + 1;
}

static void set_date(struct request *r, uint64_t ns)
{
	time_t t = (time_t)(ns / 1000000000u);
	struct tm tm;
	char text[40];
	if (gmtime_r(&t, &tm) && strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm))
		request_set_header(r, "Last-Modified", text);
}

static void down_over(struct down *d)
{
	d->r->ctx = NULL;
	free(d);
}

static void answer_empty(struct down *d, int status)
{
	struct request *r = d->r;
	file_get_close(d->get);
	down_over(d);
	r->type = "application/octet-stream";
	request_answer(r, status);
}

// False: it was answered.
static bool set_span(struct down *d, const struct file_record *rec)
{
	uint64_t from = 0, end = rec->size, last = 0;
	char span[80];
	if (d->from[0] == '-') {
		if (str_to_u64(str_of(d->from + 1), 0, INT64_MAX, &last))
			last = 0;
		from = rec->size > last ? rec->size - last : 0;
	} else if (d->from[0] && str_to_u64(str_of(d->from), 0, INT64_MAX, &from)) {
		from = 0;
	}
	if (d->from[0] && from >= rec->size) {
		if (!fmt_to(span, sizeof span, "bytes */%llu", (unsigned long long)rec->size))
			request_set_header(d->r, "Content-Range", span);
		answer_empty(d, 416);
		return false;
	}
	if (d->len < end - from)
		end = from + d->len;
	d->left = end - from;
	if (d->from[0] && !fmt_to(span, sizeof span, "bytes %llu-%llu/%llu", (unsigned long long)from, (unsigned long long)end - 1,
				  (unsigned long long)rec->size))
		request_set_header(d->r, "Content-Range", span);
	return true;
}

static void down_head(void *ctx, const struct file_record *rec)
{
	struct down *d = ctx;
	struct request *r = d->r;
	char etag[FILE_ETAG];
	const char *none = request_header(r, "If-None-Match"), *match = request_header(r, "If-Match");
	file_etag(rec, etag);
	file_set_etag(r, rec);
	request_set_header(r, "Accept-Ranges", "bytes");
	set_date(r, rec->mtime_ns);
	if (match && !etag_list_has(match, etag, false)) {
		answer_empty(d, 412);
		return;
	}
	if (none && etag_list_has(none, etag, true)) {
		answer_empty(d, 304);
		return;
	}
	if (!set_span(d, rec))
		return;
	r->length = d->left;
	r->has_length = true;
	r->type = "application/octet-stream";
	int status = d->from[0] ? 206 : 200;
	if (d->head || !d->left) { // nothing will be written
		file_get_close(d->get);
		down_over(d);
		request_finish(r); // first: with its answer it may be gone
		request_stream(r, status);
		return;
	}
	request_stream(r, status);
}

static void down_data(void *ctx, const void *p, size_t n)
{
	struct down *d = ctx;
	n = n < d->left ? n : (size_t)d->left;
	d->left -= n;
	if (!request_write(d->r, p, n))
		file_get_pause(d->get, true);
}

static void down_end(void *ctx, const struct err *e)
{
	struct down *d = ctx;
	struct request *r = d->r;
	bool whole = !d->left && !e, streaming = r->streaming;
	down_over(d);
	if (!streaming)
		request_fail(r, e);
	else if (whole)
		request_finish(r);
	else
		request_cut(r); // it became shorter under us
}

static void down_gone(struct request *r)
{
	struct down *d = r->ctx;
	if (!d || !r->streaming)
		return; // the head will find nobody
	file_get_close(d->get);
	down_over(d);
}

static void down_drain(struct request *r)
{
	struct down *d = r->ctx;
	if (d)
		file_get_pause(d->get, false);
}

static void down_begin(struct request *r, struct down *d)
{
	static const struct file_get_ops ops = {down_head, down_data, down_end};
	struct file_at at = file_at(r, NULL);
	r->ctx = d;
	r->on_gone = down_gone;
	r->on_drain = down_drain;
	d->get = file_get_open(&at, request_query(r, "path"), d->from[0] ? d->from : NULL, d->head ? 0 : d->len, &ops, d);
}

// If-Range: the range counts only for the file it was meant for.
static void done_if_range(void *ctx, const struct err *e, struct file_result *res)
{
	struct down *d = ctx;
	struct request *r = d->r;
	char etag[FILE_ETAG] = "";
	if (e) {
		free(d);
		request_fail(r, e);
		return;
	}
	file_etag(&res->list[0], etag);
	if (!etag_list_has(request_header(r, "If-Range") ? request_header(r, "If-Range") : "", etag, false)) {
		d->from[0] = 0;
		d->len = UINT64_MAX;
	}
	down_begin(r, d);
}

void get_file(struct request *r)
{
	const char *path;
	if (!file_query_path(r, &path))
		return;
	struct down *d = xcalloc(1, sizeof *d);
	d->r = r;
	d->head = !strcmp(r->route->method, "HEAD");
	parse_range(request_header(r, "Range"), d);
	if (d->from[0] && request_header(r, "If-Range")) {
		struct file_at at = file_at(r, NULL);
		file_stat(&at, path, FILE_FOLLOW, (struct file_done){done_if_range, d});
		return;
	}
	down_begin(r, d);
}

// --- up ---

struct up {
	struct request *r;
	struct file_put *put;
};

static void up_room(void *ctx)
{
	request_more(((struct up *)ctx)->r);
}

static void up_end(void *ctx, const struct err *e, const struct file_record *rec)
{
	struct up *u = ctx;
	struct request *r = u->r;
	struct jsonw w = {.b = &r->answer};
	r->ctx = NULL;
	free(u);
	if (e) {
		request_fail(r, e);
		return;
	}
	file_encode(&w, rec);
	file_set_etag(r, rec);
	request_answer(r, 200);
}

static size_t up_body(struct request *r, const char *p, size_t n)
{
	struct up *u = r->ctx;
	return u ? file_put_send(u->put, p, n) : n;
}

static void up_body_end(struct request *r)
{
	struct up *u = r->ctx;
	if (u)
		file_put_eof(u->put);
}

// Half a file is none. One whose body was whole is finished all the same.
static void up_gone(struct request *r)
{
	struct up *u = r->ctx;
	struct err e;
	if (!u || r->over)
		return;
	file_put_close(u->put);
	r->ctx = NULL;
	free(u);
	err_set(&e, ERR_UNAVAILABLE, "the client went away");
	request_fail(r, &e);
}

static int up_how(struct request *r, struct file_how *how, char **etag, struct err *e)
{
	const char *mode = request_query(r, "mode"), *match = request_header(r, "If-Match"), *none = request_header(r, "If-None-Match");
	for (const char *p = mode; p && *p; p++) {
		if (*p < '0' || *p > '7' || p - mode > 3)
			return err_set(e, ERR_INVALID, "mode must be octal, such as 0644");
		how->mode = how->mode * 8 + (uint32_t)(*p - '0');
	}
	how->flags = file_query_flag(r, "parents") ? FILE_PARENTS : 0;
	if (none && strcmp(none, "*"))
		return err_set(e, ERR_INVALID, "If-None-Match of a PUT must be *");
	how->flags |= none ? FILE_NEW : 0;
	if (!match)
		return 0;
	size_t n = strlen(match);
	if (!strcmp(match, "*"))
		*etag = xstrdup("*");
	else if (n > 2 && n < FILE_ETAG && match[0] == '"' && match[n - 1] == '"')
		*etag = xstrndup(match + 1, n - 2);
	else
		return err_set(e, ERR_INVALID, "If-Match must be one strong ETag in quotes, or *");
	how->etag = *etag;
	return 0;
}

static struct up *up_new(struct request *r)
{
	struct up *u = xcalloc(1, sizeof *u);
	u->r = r;
	r->ctx = u;
	r->on_body = up_body;
	r->on_body_end = up_body_end;
	r->on_gone = up_gone;
	return u;
}

static const struct file_put_ops up_ops = {up_room, up_end};

void put_file(struct request *r)
{
	const char *path;
	struct file_how how = {0};
	auto_free char *etag = NULL;
	struct err e;
	if (!file_query_path(r, &path))
		return;
	if (up_how(r, &how, &etag, &e)) {
		request_fail(r, &e);
		return;
	}
	struct file_at at = file_at(r, NULL);
	struct up *u = up_new(r);
	u->put = file_put_open(&at, path, &how, &up_ops, u);
}

// Entries are there as they come: half an archive leaves what came before.
void put_file_tar(struct request *r)
{
	const char *path;
	if (!file_query_path(r, &path))
		return;
	struct file_at at = file_at(r, NULL);
	struct up *u = up_new(r);
	u->put = file_untar_open(&at, path, file_query_flag(r, "parents") ? FILE_PARENTS : 0, &up_ops, u);
}

// --- what happens in a directory ---

struct news {
	struct request *r;
	struct file_watch *watch;
};

static void news_over(struct news *n)
{
	n->r->ctx = NULL;
	free(n);
}

static void news_event(void *ctx, enum file_event ev, bool dir, const char *name)
{
	struct news *n = ctx;
	struct request *r = n->r;
	auto_buf struct buf b = BUF_INIT(64 << 10);
	struct jsonw w = {.b = &b};
	jw_open(&w, '{');
	jw_kstr(&w, "event", file_event_name(ev));
	jw_kstr(&w, "name", name);
	jw_kbool(&w, "dir", dir);
	jw_close(&w, '}');
	buf_byte(&b, '\n');
	if (!r->streaming) {
		bool listens = r->conn; // else on_gone has closed it all
		r->type = "application/x-ndjson";
		request_stream(r, 200);
		if (!listens)
			return;
	}
	if (!request_write(r, b.p, b.n))
		file_watch_pause(n->watch, true);
}

static void news_end(void *ctx, const struct err *e)
{
	struct news *n = ctx;
	struct request *r = n->r;
	struct err over;
	bool streaming = r->streaming;
	news_over(n);
	err_set(&over, ERR_UNAVAILABLE, "the watch ended");
	if (!streaming)
		request_fail(r, e ? e : &over);
	else
		request_cut(r);
}

static void news_gone(struct request *r)
{
	struct news *n = r->ctx;
	if (!n || !r->streaming)
		return;
	file_watch_close(n->watch);
	news_over(n);
}

static void news_drain(struct request *r)
{
	struct news *n = r->ctx;
	if (n)
		file_watch_pause(n->watch, false);
}

void get_file_watch(struct request *r)
{
	static const struct file_watch_ops ops = {news_event, news_end};
	const char *path = request_query(r, "path");
	struct file_at at = file_at(r, NULL);
	struct news *n = xcalloc(1, sizeof *n);
	n->r = r;
	r->ctx = n;
	r->on_gone = news_gone;
	r->on_drain = news_drain;
	n->watch = file_watch_open(&at, path ? path : "", file_query_flag(r, "recursive") ? FILE_RECURSIVE : 0, &ops, n);
}

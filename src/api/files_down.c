// SPDX-License-Identifier: Apache-2.0
// Files on their way down: the bytes of one, or of a range in it, and a tree as one archive. A slow reader pauses the file
// operation: nobody waits in memory for anybody.
#include "api/files_int.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct down {
	struct request *r;
	struct file_get *get;
	bool tar;	   // nobody knows how long it will be: who gets only a part of it sees a broken connection
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

static void tar_head(void *ctx, const struct file_record *rec)
{
	struct down *d = ctx;
	(void)rec;
	d->r->type = "application/x-tar";
	request_stream(d->r, 200);
}

static void down_data(void *ctx, const void *p, size_t n)
{
	struct down *d = ctx;
	if (!d->tar) {
		n = n < d->left ? n : (size_t)d->left;
		d->left -= n;
	}
	if (!request_write(d->r, p, n))
		file_get_pause(d->get, true);
}

static void down_end(void *ctx, const struct err *e)
{
	struct down *d = ctx;
	struct request *r = d->r;
	bool whole = !d->left && !e, streaming = r->streaming; // of a tar nothing is ever left
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
	static const struct file_get_ops ops = {down_head, down_data, down_end}, tar_ops = {tar_head, down_data, down_end};
	struct file_at at = file_at(r, NULL);
	r->ctx = d;
	r->on_gone = down_gone;
	r->on_drain = down_drain;
	if (d->tar)
		d->get = file_tar_open(&at, request_query(r, "path"), &tar_ops, d);
	else
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

void get_file_tar(struct request *r)
{
	const char *path;
	if (!file_query_path(r, &path))
		return;
	struct down *d = xcalloc(1, sizeof *d);
	d->r = r;
	d->tar = true;
	down_begin(r, d);
}

// SPDX-License-Identifier: Apache-2.0
// /files: who may, and reading. The bytes of a file go out as they come, at the reader's pace.
#include "api/e2b_files.h"

#include "api/e2b_envd_int.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "model/file.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_MAX (64u << 10)

// --- who may ---

void files_signature(struct buf *b, const char *path, const char *op, const char *user, const char *token, const char *expiration)
{
	uint8_t sum[32];
	struct sha256 s;
	auto_free char *text = xasprintf("%s:%s:%s:%s%s%s", path, op, user, token, expiration ? ":" : "", expiration ? expiration : "");
	sha256_init(&s);
	sha256_add(&s, text, strlen(text));
	sha256_end(&s, sum);
	buf_str(b, "v1_");
	base64_add(b, sum, sizeof sum);
	while (b->n && b->p[b->n - 1] == '=')
		b->p[--b->n] = 0;
}

static const char *or_empty(const char *s)
{
	return s ? s : "";
}

static bool is_signed_by(struct request *r, const struct e2b_box *box)
{
	auto_buf struct buf b = BUF_INIT(128);
	const char *given = request_query(r, "signature"), *method = r->route->method;
	files_signature(&b, or_empty(request_query(r, "path")), strcmp(method, "GET") ? "write" : "read",
			or_empty(request_query(r, "username")), box->token, request_query(r, "signature_expiration"));
	return given && key_equal(b.p, given);
}

struct e2b_box *files_box(struct request *r)
{
	struct e2b_box *b = e2b_boxes(r->engine);
	while (b && !(b->token[0] && is_signed_by(r, b)))
		b = b->next;
	return b;
}

const char *files_refused(struct request *r, const struct e2b_box *b)
{
	const char *token = request_header(r, "X-Access-Token"), *until = request_query(r, "signature_expiration");
	uint64_t at;
	if (!b->token[0])
		return NULL;
	if (token)
		return key_equal(b->token, token) ? NULL : "access token present in header but does not match";
	if (!request_query(r, "signature"))
		return "missing signature query parameter";
	if (!is_signed_by(r, b))
		return "invalid signature";
	if (!until)
		return NULL;
	if (str_to_u64(str_of(until), 0, UINT64_MAX / 1000, &at))
		return "invalid signature";
	return at * 1000 < clock_unix_ms() ? "signature is already expired" : NULL;
}

// --- what is asked for ---

bool files_range(const char *header, struct byte_range *out)
{
	uint64_t a, z;
	if (!header || strncmp(header, "bytes=", 6) || strchr(header, ','))
		return false;
	struct str rest = str_of(header + 6), from;
	const char *dash = strchr(header, '-');
	if (!dash || !str_next(&rest, '-', &from))
		return false;
	rest = str_of(dash + 1);
	out->len = UINT64_MAX;
	if (!from.n)
		return !str_to_u64(rest, 1, INT64_MAX, &z) && !fmt_to(out->from, sizeof out->from, "-%llu", (unsigned long long)z);
	if (str_to_u64(from, 0, INT64_MAX, &a) || fmt_to(out->from, sizeof out->from, "%llu", (unsigned long long)a))
		return false;
	if (!rest.n)
		return true;
	if (str_to_u64(rest, a, INT64_MAX, &z))
		return false;
	out->len = z - a + 1;
	return true;
}

bool files_accepts_plain(const char *accept_encoding)
{
	struct str rest = str_of(accept_encoding ? accept_encoding : ""), part;
	bool any = true, plain = true, named = false;
	while (str_next(&rest, ',', &part)) {
		while (part.n && part.p[0] == ' ')
			part.p++, part.n--;
		size_t n = 0;
		while (n < part.n && part.p[n] != ';' && part.p[n] != ' ')
			n++;
		auto_free char *q = xstrndup(part.p + n, part.n - n);
		const char *value = strstr(q, "q=");
		bool zero = value && value[2] && !value[2 + strspn(value + 2, "0.")];
		if (n == 1 && part.p[0] == '*')
			any = !zero;
		if (str_is((struct str){part.p, n}, "identity"))
			plain = !zero, named = true;
	}
	return named ? plain : any;
}

const char *files_note_wrong(const char *name, const char *value)
{
	if (!*name)
		return "a metadata header without a name";
	if (strlen(name) > FILES_NOTE_NAME)
		return "the name of a metadata header is too long";
	for (const char *p = name; *p; p++)
		if (*p <= ' ' || *p > '~' || *p == '=')
			return "the name of a metadata header must be printable ASCII";
	for (const char *p = value; *p; p++)
		if (*p < ' ' || *p > '~')
			return "the value of a metadata header must be printable ASCII";
	return NULL;
}

// --- reading ---

struct download {
	struct envd_call *c; // until the answer has begun
	struct request *r;   // from then on; NULL: the client left
	struct loop *loop;
	struct job_run *job;
	bool ranged, full;
	struct byte_range range;
	struct buf head; // ranged: the record that comes first
	struct e2b_stream live;
};

static void download_free(void *obj)
{
	struct download *d = obj;
	buf_done(&d->head);
	free(d);
}

// Nothing reaches it any more: neither its client, nor the job, nor its sandbox's end. Before an answer is given.
static void download_end(struct download *d)
{
	struct request *r = take(&d->r);
	if (r)
		r->on_gone = r->on_drain = NULL;
	d->c = NULL;
	e2b_stream_del(&d->live);
	if (d->job)
		job_close(d->job);
	d->job = NULL;
	loop_bury(d->loop, d, download_free);
}

static void on_gone(struct request *r)
{
	download_end(r->ctx);
}

static void on_drain(struct request *r)
{
	struct download *d = r->ctx;
	d->full = false;
	if (d->job)
		job_pause(d->job, false);
}

static void begin(struct download *d, int status)
{
	struct request *r = d->c->r;
	const char *path = or_empty(request_query(r, "path")), *slash = strrchr(path, '/');
	auto_buf struct buf disposition = BUF_INIT(8192);
	envd_call_free(d->c);
	d->c = NULL;
	d->r = r;
	buf_str(&disposition, "inline; filename=\"");
	for (const char *p = slash ? slash + 1 : path; *p; p++) {
		if (*p == '"' || *p == '\\')
			buf_byte(&disposition, '\\');
		if ((unsigned char)*p >= ' ' && *p != 127)
			buf_byte(&disposition, *p);
	}
	buf_byte(&disposition, '"');
	request_set_header(r, "Content-Disposition", buf_cstr(&disposition));
	request_set_header(r, "Vary", "Accept-Encoding");
	r->type = "application/octet-stream";
	r->ctx = d;
	r->on_gone = on_gone;
	r->on_drain = on_drain;
	request_stream(r, status);
}

static void send(struct download *d, const void *p, size_t n)
{
	if (!d->r || !n)
		return;
	if (!request_write(d->r, p, n) && d->r && d->job) {
		d->full = true;
		job_pause(d->job, true);
	}
}

// The record of the whole file says what the range is. False: not all of it has come, or it was answered.
static bool range_begins(struct download *d)
{
	struct wire w = {.p = (const uint8_t *)d->head.p, .n = d->head.n};
	struct file_record f;
	if (file_record_read(&w, &f))
		return false;
	uint64_t size = f.size, n, from = 0;
	file_record_done(&f);
	if (d->range.from[0] == '-')
		from = !str_to_u64(str_of(d->range.from + 1), 0, INT64_MAX, &n) && n < size ? size - n : 0;
	else if (str_to_u64(str_of(d->range.from), 0, INT64_MAX, &from))
		from = 0;
	n = from >= size ? 0 : size - from < d->range.len ? size - from : d->range.len;
	auto_free char *range = n ? xasprintf("bytes %llu-%llu/%llu", (unsigned long long)from, (unsigned long long)(from + n - 1),
					      (unsigned long long)size)
				  : xasprintf("bytes */%llu", (unsigned long long)size);
	request_set_header(d->c->r, "Content-Range", range);
	if (!n) {
		struct envd_call *c = d->c;
		download_end(d);
		envd_answer(c, 416);
		return false;
	}
	begin(d, 206);
	send(d, w.p, w.n);
	return true;
}

static void on_data(void *ctx, const void *p, size_t n)
{
	struct download *d = ctx;
	if (!d->c) {
		send(d, p, n);
	} else if (d->ranged) {
		buf_add(&d->head, p, n);
		range_begins(d);
	} else {
		begin(d, 200);
		send(d, p, n);
	}
}

static void on_end(void *ctx, const struct err *e)
{
	struct download *d = ctx;
	struct envd_call *c = d->c;
	struct request *r = d->r;
	d->job = NULL;
	download_end(d);
	if (c && e) {
		envd_fail(c, e);
	} else if (c) { // empty
		c->r->type = "application/octet-stream";
		envd_answer(c, 200);
	} else if (e) {
		request_cut(r);
	} else {
		request_finish(r);
	}
}

static void on_cut(struct e2b_stream *l)
{
	struct download *d = container_of(l, struct download, live);
	struct envd_call *c = d->c;
	struct request *r = d->r;
	download_end(d);
	if (c)
		envd_lost(c);
	else if (r)
		request_cut(r);
}

static const struct job_ops ops = {.data = on_data, .end = on_end};

void files_get(struct envd_call *c)
{
	const char *path = or_empty(request_query(c->r, "path"));
	char len[40] = "";
	if (!files_accepts_plain(request_header(c->r, "Accept-Encoding"))) {
		envd_refuse(c, 406, "no acceptable encoding: files are sent as they are");
		return;
	}
	struct download *d = xcalloc(1, sizeof *d);
	*d = (struct download){.c = c, .loop = c->loop, .head = BUF_INIT(HEAD_MAX), .live.cut = on_cut};
	d->ranged = files_range(request_header(c->r, "Range"), &d->range);
	auto_free char *from = xasprintf("from=%s", d->range.from);
	if (d->ranged && fmt_to(len, sizeof len, "len=%llu", (unsigned long long)(d->range.len > INT64_MAX ? INT64_MAX : d->range.len)))
		len[0] = 0;
	const char *argv[] = {"for", c->user, "fetch", path, d->ranged ? from : NULL, d->ranged ? len : NULL, NULL};
	e2b_stream_add(&d->live, c->sandbox);
	d->job = job_open(c->loop, c->g, &(struct job){.sandbox = c->sandbox, .argv = (char *const *)argv}, &ops, d);
}

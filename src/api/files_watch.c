// SPDX-License-Identifier: Apache-2.0
// What happens in a directory, as a line for each event.
#include "api/files_int.h"

#include "base/mem.h"
#include <stdlib.h>

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
	struct err e;
	if (!n)
		return;
	bool streaming = r->streaming;
	file_watch_close(n->watch);
	news_over(n);
	if (streaming)
		return;
	err_set(&e, ERR_UNAVAILABLE, "the client went away"); // nothing may happen in that directory for days
	request_fail(r, &e);
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

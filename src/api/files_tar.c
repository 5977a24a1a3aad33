// SPDX-License-Identifier: Apache-2.0
// A tree as one archive, down. How long it will be nobody knows: who gets only a part of it sees a broken connection.
#include "api/files_int.h"

#include "base/mem.h"
#include <stdlib.h>

struct down {
	struct request *r;
	struct file_get *get;
};

static void down_over(struct down *d)
{
	d->r->ctx = NULL;
	free(d);
}

static void down_head(void *ctx, const struct file_record *rec)
{
	struct down *d = ctx;
	(void)rec;
	d->r->type = "application/x-tar";
	request_stream(d->r, 200);
}

static void down_data(void *ctx, const void *p, size_t n)
{
	struct down *d = ctx;
	if (!request_write(d->r, p, n))
		file_get_pause(d->get, true);
}

static void down_end(void *ctx, const struct err *e)
{
	struct down *d = ctx;
	struct request *r = d->r;
	bool streaming = r->streaming;
	down_over(d);
	if (!streaming)
		request_fail(r, e);
	else if (e)
		request_cut(r);
	else
		request_finish(r);
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

void get_file_tar(struct request *r)
{
	static const struct file_get_ops ops = {down_head, down_data, down_end};
	const char *path;
	if (!file_query_path(r, &path))
		return;
	struct file_at at = file_at(r, NULL);
	struct down *d = xcalloc(1, sizeof *d);
	d->r = r;
	r->ctx = d;
	r->on_gone = down_gone;
	r->on_drain = down_drain;
	d->get = file_tar_open(&at, path, &ops, d);
}

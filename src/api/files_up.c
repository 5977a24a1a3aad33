// SPDX-License-Identifier: Apache-2.0
// Files on their way up: one, there when it is whole, and an archive. A slow file operation pauses the upload.
#include "api/files_int.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

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

// SPDX-License-Identifier: Apache-2.0
// An upload is written to a file without a name first, and put in its place by the nursery when it is whole: a client that goes
// in the middle leaves nothing behind. A download is read from a descriptor that the nursery opened and looked at.
#include "api/volume_files.h"

#include "api/answer.h"
#include "api/auth.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PUT_MAX_BYTES (16ULL << 30)

const char *volume_viewer(const struct request *r)
{
	const struct principal *p = r->who;
	if (p->local || p->on == ON_ALL)
		return NULL;
	return p->on == ON_LABEL ? p->value : "\t";
}

// --- what is asked ---

bool volume_op_path(struct request *r, const char *path, struct volume_op *out)
{
	struct err e;
	out->path = path ? volume_path_clean(path) : NULL;
	if (out->path)
		return true;
	err_set(&e, ERR_INVALID, path ? "path %.200s is too long or has .. in it" : "path is needed: of a file, from the top of the volume on", path);
	request_fail(r, &e);
	return false;
}

static bool volume_query_number(struct request *r, const char *key, uint64_t max, uint32_t *inout)
{
	struct err e;
	uint64_t n;
	const char *text = request_query(r, key);
	if (!text)
		return true;
	if (!str_to_u64(str_of(text), 0, max, &n)) {
		*inout = (uint32_t)n;
		return true;
	}
	err_set(&e, ERR_INVALID, "%s must be a whole number from 0 to %llu", key, (unsigned long long)max);
	request_fail(r, &e);
	return false;
}

bool volume_op_query(struct request *r, const char *volume, enum volume_verb verb, struct volume_op *out)
{
	const char *force = request_query(r, "force");
	*out = (struct volume_op){.verb = verb, .depth = 1, .uid = VOLUME_KEEP, .gid = VOLUME_KEEP, .mode = VOLUME_KEEP};
	memcpy(out->volume, volume, strlen(volume) + 1);
	out->force = force && (!strcmp(force, "true") || !strcmp(force, "1"));
	if (!volume_query_number(r, "depth", VOLUME_DEPTH_MAX, &out->depth) || !volume_query_number(r, "uid", UINT32_MAX - 1, &out->uid) ||
	    !volume_query_number(r, "gid", UINT32_MAX - 1, &out->gid) || !volume_query_number(r, "mode", 07777, &out->mode))
		return false;
	return volume_op_path(r, request_query(r, "path"), out);
}

// --- JSON ---

struct volume_json {
	struct request *r;
	int status;
	const char *member;
};

static void volume_on_json(void *ctx, const struct err *e, int fd)
{
	struct volume_json j = *(struct volume_json *)ctx;
	struct err bad;
	auto_buf struct buf text = BUF_INIT(64u << 20);
	free(ctx);
	if (!e && fs_read_fd(fd, &text, &bad))
		e = &bad;
	if (e) {
		request_fail(j.r, e);
		return;
	}
	if (j.status != 204 && j.member)
		buf_fmt(&j.r->answer, "{\"%s\":", j.member);
	if (j.status != 204)
		buf_add(&j.r->answer, text.p, text.n);
	if (j.status != 204 && j.member)
		buf_str(&j.r->answer, "}");
	request_answer(j.r, j.status);
}

void volume_answer_json(struct request *r, struct volume_op *op, int status, const char *member)
{
	struct volume_json *j = xcalloc(1, sizeof *j);
	*j = (struct volume_json){r, status, member};
	engine_volume_work(r->engine, op, -1, (struct volume_reply){volume_on_json, j});
	volume_op_done(op);
}

// --- down ---

struct volume_down {
	int fd;
	uint64_t left;
};

static void volume_down_free(struct request *r)
{
	struct volume_down *d = r->ctx;
	r->ctx = NULL;
	if (!d)
		return;
	close_fd(&d->fd);
	free(d);
}

static void volume_down_more(struct request *r)
{
	struct volume_down *d = r->ctx;
	char chunk[65536];
	bool room = true;
	while (d && d->left && room) {
		ssize_t n = read(d->fd, chunk, d->left < sizeof chunk ? (size_t)d->left : sizeof chunk);
		if (n <= 0) { // it became shorter under us
			volume_down_free(r);
			request_cut(r);
			return;
		}
		d->left -= (uint64_t)n;
		room = request_write(r, chunk, (size_t)n);
	}
	if (!d || d->left)
		return;
	volume_down_free(r);
	request_finish(r);
}

static void volume_on_open(void *ctx, const struct err *e, int fd)
{
	struct request *r = ctx;
	struct stat st;
	struct err bad;
	int own = e ? -1 : dup(fd);
	if (!e && (own < 0 || fstat(own, &st))) {
		err_sys(&bad, "the file");
		e = &bad;
	}
	if (e) {
		close_fd(&own);
		request_fail(r, e);
		return;
	}
	struct volume_down *d = xcalloc(1, sizeof *d);
	*d = (struct volume_down){own, (uint64_t)st.st_size};
	r->type = "application/octet-stream";
	if (!d->left) {
		close_fd(&d->fd);
		free(d);
		request_answer(r, 200);
		return;
	}
	r->ctx = d;
	r->length = d->left;
	r->has_length = true;
	r->on_gone = volume_down_free;
	r->on_drain = volume_down_more;
	request_stream(r, 200);
	volume_down_more(r);
}

void volume_answer_file(struct request *r, struct volume_op *op)
{
	engine_volume_work(r->engine, op, -1, (struct volume_reply){volume_on_open, r});
	volume_op_done(op);
}

// --- up ---

struct volume_up {
	struct volume_op op;
	int fd;
	uint64_t size;
};

static void volume_up_free(struct request *r)
{
	struct volume_up *u = r->ctx;
	r->ctx = NULL;
	if (!u)
		return;
	volume_op_done(&u->op);
	close_fd(&u->fd);
	free(u);
}

static size_t volume_up_body(struct request *r, const char *p, size_t n)
{
	struct volume_up *u = r->ctx;
	struct err e;
	if (!u)
		return n;
	u->size += n;
	if (u->size > PUT_MAX_BYTES)
		err_set(&e, ERR_LIMIT, "the file is more than %llu bytes", PUT_MAX_BYTES);
	if (u->size <= PUT_MAX_BYTES && !fs_write_all(u->fd, p, n, &e))
		return n;
	volume_up_free(r);
	request_fail(r, &e);
	return n;
}

static void volume_up_end(struct request *r)
{
	struct volume_up *u = r->ctx;
	if (!u)
		return;
	struct volume_json *j = xcalloc(1, sizeof *j);
	*j = (struct volume_json){r, 201, NULL};
	r->on_gone = NULL; // what is whole is put, whether its client waits or not
	engine_volume_work(r->engine, &u->op, u->fd, (struct volume_reply){volume_on_json, j});
	volume_up_free(r);
}

// Its answer is thrown away, and has to be given all the same.
static void volume_up_gone(struct request *r)
{
	volume_up_free(r);
	if (!r->status)
		request_answer(r, 499);
}

void volume_answer_put(struct request *r, struct volume_op *op)
{
	struct err e;
	struct volume_up *u = xcalloc(1, sizeof *u);
	*u = (struct volume_up){.op = *op, .fd = engine_scratch(r->engine, &e)};
	*op = (struct volume_op){0};
	r->ctx = u;
	if (u->fd < 0) {
		volume_up_free(r);
		request_fail(r, &e);
		return;
	}
	r->on_body = volume_up_body;
	r->on_body_end = volume_up_end;
	r->on_gone = volume_up_gone;
}

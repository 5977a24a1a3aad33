// SPDX-License-Identifier: Apache-2.0
// Pulling an image: a stream of lines, {"progress":{…}} now and then and {"image":{…}} or {"error":{…}} at the end. What
// fails before anything was said has the status of its error.
#include "api/images.h"

#include "api/answer.h"
#include "api/auth.h"
#include "api/code.h"
#include "base/mem.h"
#include <stdlib.h>

struct pulling {
	struct request *r; // NULL: its client went after the stream had begun
	struct pull_client *client;
	bool full; // what was written waits for the client
};

// False: the client is gone, and so is the request.
static bool pulling_begin(struct request *r)
{
	if (r->streaming)
		return true;
	bool listens = r->conn;
	r->type = "application/x-ndjson";
	request_stream(r, 200);
	return listens;
}

static void pulling_line(struct pulling *p, struct buf *b)
{
	buf_byte(b, '\n');
	if (pulling_begin(p->r) && !request_write(p->r, b->p, b->n))
		p->full = true;
}

static void pulling_progress(void *ctx, const struct pull_progress *is)
{
	struct pulling *p = ctx;
	auto_buf struct buf b = BUF_INIT(4096);
	struct jsonw w = {.b = &b};
	if (!p->r || p->full)
		return;
	jw_open(&w, '{');
	jw_key(&w, "progress");
	jw_open(&w, '{');
	jw_ku64(&w, "bytes", is->bytes);
	jw_ku64(&w, "total", is->total);
	jw_ku64(&w, "layers", is->layers);
	jw_ku64(&w, "layers_done", is->layers_done);
	jw_kbool(&w, "unpacking", is->importing);
	jw_close(&w, '}');
	jw_close(&w, '}');
	pulling_line(p, &b);
}

static void pulling_done(void *ctx, const struct err *e, const struct outcome *o)
{
	struct pulling *p = ctx;
	struct request *r = p->r;
	auto_buf struct buf b = BUF_INIT(64 << 10);
	struct jsonw w = {.b = &b};
	if (r)
		r->ctx = NULL;
	if (r && e && !r->streaming) {
		request_fail(r, e);
	} else if (r) {
		if (e) {
			error_body(&b, e);
		} else {
			jw_open(&w, '{');
			jw_key(&w, "image");
			encode_image(&w, o->image);
			w.comma = true;
			jw_close(&w, '}');
		}
		pulling_line(p, &b);
		request_finish(r);
	}
	free(p);
}

static void pulling_gone(struct request *r)
{
	struct pulling *p = r->ctx;
	if (!p)
		return;
	if (r->streaming)
		p->r = NULL; // void when this returns
	if (p->client)
		engine_image_pull_leave(p->client);
	p->client = NULL;
}

static void pulling_drain(struct request *r)
{
	struct pulling *p = r->ctx;
	if (p)
		p->full = false;
}

static int pull_wish_read(struct request *r, struct pull_wish *w, struct err *e)
{
	static const char *const known[] = {"ref", "name", "missing", "secret", "username", "password", NULL};
	struct err no;
	if (json_only(r->json, known, e) || json_get_str(r->json, "ref", &w->ref, e) || json_get_str(r->json, "name", &w->name, e) ||
	    json_get_bool(r->json, "missing", &w->missing, e) || json_get_str(r->json, "secret", &w->secret, e) ||
	    json_get_str(r->json, "username", &w->user, e) || json_get_str(r->json, "password", &w->password, e))
		return -1;
	if (!w->ref)
		return err_set(e, ERR_INVALID, "\"ref\" is missing: the image's name, such as alpine:3.20");
	w->docker_logins = !request_may(r, SCOPE_ADMIN, NULL, &no);
	if ((w->name || w->secret) && !w->docker_logins)
		return err_set(e, ERR_DENIED, "a name for the image and secrets of this machine need a token with scope admin; \"username\" and "
			       "\"password\" are a login of your own");
	return 0;
}

void post_image_pull(struct request *r)
{
	struct err e;
	struct pull_wish w = {0};
	if (pull_wish_read(r, &w, &e)) {
		request_fail(r, &e);
		return;
	}
	struct pulling *p = xcalloc(1, sizeof *p);
	p->r = r;
	r->ctx = p;
	r->on_gone = pulling_gone;
	r->on_drain = pulling_drain;
	struct pull_client *c = engine_image_pull(r->engine, &w, &(struct pull_watch){pulling_progress, p}, (struct done){pulling_done, p});
	if (c)
		p->client = c;
}

// SPDX-License-Identifier: Apache-2.0
// Moments of sandboxes: making them, going back to one, starting from one.
#include "api/layers.h"

#include "api/answer.h"
#include "api/auth.h"
#include "api/code.h"
#include "base/mem.h"
#include <string.h>

#define FORKS_MAX 256

static void done_snapshot(void *ctx, const struct err *e, const struct outcome *o)
{
	struct request *r = ctx;
	struct jsonw w = answer_json(r);
	if (e) {
		request_fail(r, e);
		return;
	}
	encode_snapshot(&w, o->snapshot);
	request_answer(r, 201);
}

void post_snapshot(struct request *r)
{
	static const char *const known[] = {"name", NULL};
	struct err e;
	const char *name;
	if (json_only(r->json, known, &e) || json_get_str(r->json, "name", &name, &e))
		request_fail(r, &e);
	else
		engine_snapshot(r->engine, r->parts[0], name, (struct done){done_snapshot, r});
}

static void list(void *ctx, const struct snapshot *n)
{
	struct listing *l = ctx;
	if (request_sees_id(l->r, n->sandbox) && page_takes(&l->page, n->id, n->created))
		encode_snapshot(&l->w, n);
}

void get_snapshots(struct request *r)
{
	struct err e;
	struct listing l;
	if (!listing_page(r, "snapshots", &l))
		return;
	if (engine_snapshots(r->engine, request_query(r, "sandbox"), list, &l, &e))
		request_fail(r, &e);
	else
		listing_end(&l);
}

void get_snapshot(struct request *r)
{
	struct err e;
	struct jsonw w = answer_json(r);
	const struct snapshot *n = engine_snapshot_get(r->engine, r->parts[0], &e);
	if (!n) {
		request_fail(r, &e);
		return;
	}
	encode_snapshot(&w, n);
	request_answer(r, 200);
}

void delete_snapshot(struct request *r)
{
	engine_snapshot_remove(r->engine, r->parts[0], (struct done){answer_empty, r});
}

static void done_rollback(void *ctx, const struct err *e, const struct outcome *o)
{
	struct request *r = ctx;
	struct jsonw w = answer_json(r);
	if (e) {
		request_fail(r, e);
		return;
	}
	jw_open(&w, '{');
	jw_key(&w, "sandbox");
	encode_sandbox(&w, r->engine, o->sandbox);
	jw_key(&w, "snapshot");
	encode_snapshot(&w, o->snapshot);
	jw_close(&w, '}');
	request_answer(r, 200);
}

void post_rollback(struct request *r)
{
	static const char *const known[] = {"snapshot", NULL};
	struct err e;
	const char *word;
	if (json_only(r->json, known, &e) || json_get_str(r->json, "snapshot", &word, &e) || rights_snapshot(r, word, &e))
		request_fail(r, &e);
	else
		engine_rollback(r->engine, r->parts[0], word, (struct done){done_rollback, r});
}

static void done_fork(void *ctx, const struct err *e, const struct outcome *o)
{
	struct request *r = ctx;
	struct jsonw w = answer_json(r);
	if (e) {
		request_fail(r, e);
		return;
	}
	jw_open(&w, '{');
	jw_key(&w, "snapshot");
	encode_snapshot(&w, o->snapshot);
	jw_key(&w, "sandboxes");
	jw_open(&w, '[');
	for (const struct sandbox *const *s = o->forks; *s; s++)
		encode_sandbox(&w, r->engine, *s);
	jw_close(&w, ']');
	jw_close(&w, '}');
	request_answer(r, 201);
}

void post_fork(struct request *r)
{
	static const char *const known[] = {"snapshot", "count", NULL};
	struct err e;
	const char *word;
	uint64_t count = 1;
	if (json_only(r->json, known, &e) || json_get_str(r->json, "snapshot", &word, &e) || json_get_u64(r->json, "count", &count, &e) ||
	    rights_fork(r, &e) || rights_snapshot(r, word, &e)) {
		request_fail(r, &e);
	} else if (count < 1 || count > FORKS_MAX) {
		err_set(&e, ERR_INVALID, "count must be 1 to %d", FORKS_MAX);
		request_fail(r, &e);
	} else {
		engine_fork(r->engine, r->parts[0], word, (uint32_t)count, (struct done){done_fork, r});
	}
}

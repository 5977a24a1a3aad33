// SPDX-License-Identifier: Apache-2.0
// Volumes of the native API.
#include "api/volumes.h"

#include "api/answer.h"
#include "api/auth.h"
#include "api/volume_files.h"
#include "base/mem.h"
#include <string.h>

static void volume_encode(struct jsonw *w, struct engine *g, const struct volume_row *v)
{
	bool known;
	char **users = engine_volume_users(g, v->id);
	uint64_t bytes = engine_volume_bytes(g, v->id, &known);
	jw_open(w, '{');
	jw_kstr(w, "id", v->id);
	jw_kstr(w, "name", v->name);
	jw_kstr(w, "owner", v->owner);
	jw_ktime(w, "created", v->created);
	jw_key(w, "bytes");
	if (known)
		jw_u64(w, bytes);
	else
		jw_null(w);
	jw_kstrv(w, "sandboxes", users);
	jw_close(w, '}');
	strv_free(users);
}

// NULL: answered.
static const struct volume_row *volume_named(struct request *r)
{
	struct err e;
	const struct volume_row *v = engine_volume_find(r->engine, volume_viewer(r), r->parts[0], &e);
	if (!v)
		request_fail(r, &e);
	return v;
}

static void volume_list_one(void *ctx, const struct volume_row *v)
{
	struct listing *l = ctx;
	volume_encode(&l->w, l->r->engine, v);
}

void get_volumes(struct request *r)
{
	struct listing l = listing_begin(r, "volumes");
	engine_volumes(r->engine, volume_viewer(r), volume_list_one, &l);
	listing_end(&l);
}

void post_volume(struct request *r)
{
	static const char *const known[] = {"name", NULL};
	struct err e;
	const char *name;
	if (json_only(r->json, known, &e) || json_get_str(r->json, "name", &name, &e) || rights_fork(r, &e)) {
		request_fail(r, &e);
		return;
	}
	const struct volume_row *v = engine_volume_new(r->engine, volume_viewer(r), name ? name : "", &e);
	if (!v) {
		request_fail(r, &e);
		return;
	}
	struct jsonw w = answer_json(r);
	volume_encode(&w, r->engine, v);
	request_answer(r, 201);
}

void get_volume(struct request *r)
{
	const struct volume_row *v = volume_named(r);
	if (!v)
		return;
	struct jsonw w = answer_json(r);
	volume_encode(&w, r->engine, v);
	request_answer(r, 200);
}

void delete_volume(struct request *r)
{
	const struct volume_row *v = volume_named(r);
	if (v)
		engine_volume_remove(r->engine, v->id, (struct done){answer_empty, r});
}

// --- files ---

static bool volume_file_op(struct request *r, enum volume_verb verb, struct volume_op *op)
{
	const struct volume_row *v = volume_named(r);
	return v && volume_op_query(r, v->id, verb, op);
}

void get_volume_file(struct request *r)
{
	struct volume_op op;
	if (volume_file_op(r, VOLUME_OPEN, &op))
		volume_answer_file(r, &op);
}

void put_volume_file(struct request *r)
{
	struct volume_op op;
	if (volume_file_op(r, VOLUME_PUT, &op))
		volume_answer_put(r, &op);
}

void delete_volume_file(struct request *r)
{
	struct volume_op op;
	if (volume_file_op(r, VOLUME_REMOVE, &op))
		volume_answer_json(r, &op, 204, NULL);
}

void get_volume_list(struct request *r)
{
	struct volume_op op;
	if (volume_file_op(r, VOLUME_LIST, &op))
		volume_answer_json(r, &op, 200, "files");
}

void get_volume_stat(struct request *r)
{
	struct volume_op op;
	if (volume_file_op(r, VOLUME_STAT, &op))
		volume_answer_json(r, &op, 200, NULL);
}

static int volume_body_number(const json_t *o, const char *key, uint64_t max, uint32_t *inout, struct err *e)
{
	uint64_t n = *inout;
	if (json_get_u64(o, key, &n, e))
		return -1;
	if (n > max && n != VOLUME_KEEP)
		return err_set(e, ERR_INVALID, "field \"%s\" is over %llu", key, (unsigned long long)max);
	*inout = (uint32_t)n;
	return 0;
}

static void volume_post(struct request *r, enum volume_verb verb, int status)
{
	static const char *const known[] = {"path", "parents", "mode", "uid", "gid", NULL};
	struct err e;
	const char *path;
	const struct volume_row *v = volume_named(r);
	if (!v)
		return;
	struct volume_op op = {.verb = verb, .uid = VOLUME_KEEP, .gid = VOLUME_KEEP, .mode = VOLUME_KEEP};
	memcpy(op.volume, v->id, sizeof op.volume);
	if (json_only(r->json, known, &e) || json_get_str(r->json, "path", &path, &e) || json_get_bool(r->json, "parents", &op.force, &e) ||
	    volume_body_number(r->json, "mode", 07777, &op.mode, &e) || volume_body_number(r->json, "uid", UINT32_MAX - 1, &op.uid, &e) ||
	    volume_body_number(r->json, "gid", UINT32_MAX - 1, &op.gid, &e))
		request_fail(r, &e);
	else if (volume_op_path(r, path, &op))
		volume_answer_json(r, &op, status, NULL);
}

void post_volume_mkdir(struct request *r)
{
	volume_post(r, VOLUME_MKDIR, 201);
}

void post_volume_set(struct request *r)
{
	volume_post(r, VOLUME_SET, 200);
}

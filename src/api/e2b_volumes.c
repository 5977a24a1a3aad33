// SPDX-License-Identifier: Apache-2.0
// E2B's volumes, and the service that has the files in them: its clients show the volume's own token there, and nothing else.
#include "api/e2b_int.h"
#include "api/auth.h"
#include "api/e2b_routes.h"
#include "api/volume_files.h"

#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define E2B_OWNER 1000 // of what is made and names no owner: "user" of a sandbox

// --- the control plane ---

static void e2b_volume_put(struct request *r, const struct volume_row *v, int status)
{
	struct err e;
	char token[VOLUME_TOKEN_SIZE];
	struct jsonw w = answer_json(r);
	if (engine_volume_token(r->engine, v->id, token, &e)) {
		request_fail(r, &e);
		return;
	}
	jw_open(&w, '{');
	jw_kstr(&w, "volumeID", v->id);
	jw_kstr(&w, "name", v->name);
	jw_kstr(&w, "token", token);
	jw_close(&w, '}');
	request_answer(r, status);
}

// NULL: answered with 404.
static const struct volume_row *e2b_volume_named(struct request *r)
{
	struct err e;
	const struct volume_row *v = engine_volume_find(r->engine, volume_viewer(r), r->parts[0], &e);
	if (!v)
		e2b_error(r, 404, "volume '%.80s' not found", r->parts[0]);
	return v;
}

void e2b_post_volume(struct request *r)
{
	struct err e;
	if (rights_fork(r, &e)) {
		request_fail(r, &e);
		return;
	}
	const struct volume_row *v = engine_volume_new(r->engine, volume_viewer(r), json_str(r->json, "name"), &e);
	if (v)
		e2b_volume_put(r, v, 201);
	else
		request_fail(r, &e);
}

static void e2b_volume_list_one(void *ctx, const struct volume_row *v)
{
	struct jsonw *w = ctx;
	jw_open(w, '{');
	jw_kstr(w, "volumeID", v->id);
	jw_kstr(w, "name", v->name);
	jw_close(w, '}');
}

void e2b_get_volumes(struct request *r)
{
	struct jsonw w = answer_json(r);
	jw_open(&w, '[');
	engine_volumes(r->engine, volume_viewer(r), e2b_volume_list_one, &w);
	jw_close(&w, ']');
	request_answer(r, 200);
}

void e2b_get_volume(struct request *r)
{
	const struct volume_row *v = e2b_volume_named(r);
	if (v)
		e2b_volume_put(r, v, 200);
}

void e2b_delete_volume(struct request *r)
{
	const struct volume_row *v = e2b_volume_named(r);
	if (v)
		engine_volume_remove(r->engine, v->id, (struct done){answer_empty, r});
}

// --- the files ---

// The volume of a request with its token. NULL: answered.
static const struct volume_row *e2b_content_volume(struct request *r)
{
	struct err e;
	char token[VOLUME_TOKEN_SIZE];
	const char *given = request_header(r, "Authorization");
	const struct volume_row *v = engine_volume_find(r->engine, NULL, r->parts[0], &e);
	bool named = v && !strcmp(v->id, r->parts[0]); // names are not for who has no key
	if (named && engine_volume_token(r->engine, v->id, token, &e)) {
		request_fail(r, &e);
		return NULL;
	}
	bool bears = given && !strncasecmp(given, "Bearer ", 7);
	if (named && bears && key_equal(given + 7, token))
		return v;
	if (named || !bears)
		e2b_error(r, 401, "the token of the volume is needed");
	else
		e2b_error(r, 404, "volume '%.80s' not found", r->parts[0]);
	return NULL;
}

static bool e2b_content_op(struct request *r, enum volume_verb verb, struct volume_op *op)
{
	const struct volume_row *v = e2b_content_volume(r);
	if (!v || !volume_op_query(r, v->id, verb, op))
		return false;
	bool makes = verb == VOLUME_PUT || verb == VOLUME_MKDIR;
	if (makes && op->uid == VOLUME_KEEP)
		op->uid = E2B_OWNER;
	if (makes && op->gid == VOLUME_KEEP)
		op->gid = E2B_OWNER;
	return true;
}

void e2b_get_volume_dir(struct request *r)
{
	struct volume_op op;
	if (e2b_content_op(r, VOLUME_LIST, &op))
		volume_answer_json(r, &op, 200, NULL);
}

void e2b_post_volume_dir(struct request *r)
{
	struct volume_op op;
	if (e2b_content_op(r, VOLUME_MKDIR, &op))
		volume_answer_json(r, &op, 201, NULL);
}

void e2b_get_volume_path(struct request *r)
{
	struct volume_op op;
	if (e2b_content_op(r, VOLUME_STAT, &op))
		volume_answer_json(r, &op, 200, NULL);
}

void e2b_patch_volume_path(struct request *r)
{
	struct volume_op op;
	uint64_t uid = VOLUME_KEEP, gid = VOLUME_KEEP, mode = VOLUME_KEEP;
	if (!e2b_content_op(r, VOLUME_SET, &op))
		return;
	bool fine = e2b_number(r, "uid", 0, &uid) && e2b_number(r, "gid", 0, &gid) && e2b_number(r, "mode", 0, &mode);
	bool fits = uid <= VOLUME_KEEP && gid <= VOLUME_KEEP && (mode <= 07777 || mode == VOLUME_KEEP);
	if (!fine || !fits) {
		volume_op_done(&op);
		if (fine)
			e2b_error(r, 400, "uid, gid or mode is too large");
		return;
	}
	op.uid = (uint32_t)uid;
	op.gid = (uint32_t)gid;
	op.mode = (uint32_t)mode;
	volume_answer_json(r, &op, 200, NULL);
}

void e2b_delete_volume_path(struct request *r)
{
	struct volume_op op;
	if (e2b_content_op(r, VOLUME_REMOVE, &op))
		volume_answer_json(r, &op, 204, NULL);
}

void e2b_get_volume_file(struct request *r)
{
	struct volume_op op;
	if (e2b_content_op(r, VOLUME_OPEN, &op))
		volume_answer_file(r, &op);
}

void e2b_put_volume_file(struct request *r)
{
	struct volume_op op;
	if (e2b_content_op(r, VOLUME_PUT, &op))
		volume_answer_put(r, &op);
}

// --- in sandboxes ---

int e2b_volumes_read(struct request *r, const json_t *o, struct create *c, struct err *e)
{
	const json_t *mounts = json_object_get(o, "volumeMounts");
	const char *viewer = volume_viewer(r);
	json_t *m;
	size_t i;
	if (mounts && !json_is_null(mounts) && !json_is_array(mounts))
		return err_set(e, ERR_INVALID, "volumeMounts must be a list of {\"name\", \"path\"}");
	c->volume_viewer = viewer ? xstrdup(viewer) : NULL;
	json_array_foreach(mounts, i, m)
	{
		const char *name = json_str(m, "name"), *path = json_str(m, "path");
		if (!*name || *path != '/' || strchr(path, ':'))
			return err_set(e, ERR_INVALID, "volumeMounts: each is {\"name\": of a volume, \"path\": absolute, without a colon}");
		auto_free char *wish = xasprintf("%s:%s", name, path);
		strv_add(&c->volumes, wish);
	}
	return 0;
}

void e2b_volumes_put(struct request *r, struct jsonw *w, const struct sandbox *s)
{
	struct err gone;
	jw_key(w, "volumeMounts");
	jw_open(w, '[');
	for (uint32_t i = 0; i < s->n_mounts; i++) {
		const struct volume_row *v = s->mounts[i].volume ? engine_volume_find(r->engine, NULL, s->mounts[i].src, &gone) : NULL;
		if (!v)
			continue;
		jw_open(w, '{');
		jw_kstr(w, "name", v->name);
		jw_kstr(w, "path", s->mounts[i].dst);
		jw_close(w, '}');
	}
	jw_close(w, ']');
}

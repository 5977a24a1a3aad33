// SPDX-License-Identifier: Apache-2.0
#include "api/images.h"

#include "api/answer.h"
#include "api/code.h"

static void done_image(void *ctx, const struct err *e, const struct outcome *o)
{
	struct request *r = ctx;
	struct jsonw w = answer_json(r);
	if (e) {
		request_fail(r, e);
		return;
	}
	encode_image(&w, o->image);
	request_answer(r, 201);
}

static void list_image(void *ctx, const struct image_row *i)
{
	encode_image(&((struct listing *)ctx)->w, i);
}

void get_images(struct request *r)
{
	struct err e;
	struct listing l = listing_begin(r, "images");
	if (engine_images(r->engine, list_image, &l, &e))
		request_fail(r, &e);
	else
		listing_end(&l);
}

void get_image(struct request *r)
{
	struct err e;
	struct image_row i;
	struct jsonw w = answer_json(r);
	if (engine_image_get(r->engine, r->parts[0], &i, &e)) {
		request_fail(r, &e);
		return;
	}
	encode_image(&w, &i);
	image_row_done(&i);
	request_answer(r, 200);
}

void post_image(struct request *r)
{
	static const char *const known[] = {"source", "name", NULL};
	struct err e;
	const char *source, *name;
	if (json_only(r->json, known, &e) || json_get_str(r->json, "source", &source, &e) || json_get_str(r->json, "name", &name, &e))
		request_fail(r, &e);
	else
		engine_image_import(r->engine, source ? source : "", name, (struct done){done_image, r});
}

void delete_image(struct request *r)
{
	engine_image_remove(r->engine, r->parts[0], (struct done){answer_empty, r});
}

// SPDX-License-Identifier: Apache-2.0
#include "api/answer.h"

#include "api/code.h"
#include "base/str.h"

struct jsonw answer_json(struct request *r)
{
	return (struct jsonw){.b = &r->answer};
}

void answer_sandbox(void *ctx, const struct err *e, const struct outcome *o)
{
	struct request *r = ctx;
	struct jsonw w = answer_json(r);
	if (e) {
		request_fail(r, e);
		return;
	}
	encode_sandbox(&w, r->engine, o->sandbox);
	request_answer(r, 200);
}

void answer_empty(void *ctx, const struct err *e, const struct outcome *o)
{
	(void)o;
	if (e)
		request_fail(ctx, e);
	else
		request_answer(ctx, 204);
}

bool answer_no_body(struct request *r)
{
	static const char *const none[] = {NULL};
	struct err e;
	if (!json_only(r->json, none, &e))
		return true;
	request_fail(r, &e);
	return false;
}

bool answer_offset(struct request *r, uint64_t *out_offset)
{
	struct err e;
	const char *s = request_query(r, "offset");
	*out_offset = 0;
	if (!s || !str_to_u64(str_of(s), 0, INT64_MAX, out_offset))
		return true;
	err_set(&e, ERR_INVALID, "offset must be a whole number");
	request_fail(r, &e);
	return false;
}

void answer_number(char out_text[24], uint64_t v)
{
	if (fmt_to(out_text, 24, "%llu", (unsigned long long)v))
		out_text[0] = 0;
}

// --- lists ---

struct listing listing_begin(struct request *r, const char *key)
{
	struct listing l = {.r = r, .w = answer_json(r)};
	jw_open(&l.w, '{');
	jw_key(&l.w, key);
	jw_open(&l.w, '[');
	return l;
}

void listing_end(struct listing *l)
{
	jw_close(&l->w, ']');
	if (l->paged)
		page_next(&l->page, &l->w);
	jw_close(&l->w, '}');
	request_answer(l->r, 200);
}

bool listing_page(struct request *r, const char *key, struct listing *out)
{
	struct err e;
	struct page p;
	if (page_begin(r, &p, &e)) {
		request_fail(r, &e);
		return false;
	}
	*out = listing_begin(r, key);
	out->paged = true;
	out->page = p;
	return true;
}

// SPDX-License-Identifier: Apache-2.0
// Review: what is pending, and what becomes of it. Answers are what skep-review says: JSON lines, or a patch.
#include "api/review.h"

#include "api/auth.h"
#include "api/code.h"
#include "base/mem.h"
#include "engine/review.h"
#include <stdlib.h>
#include <string.h>

#define EDITS_MAX 1000

static int own(const json_t *o, const char *key, char **out, struct err *e)
{
	const char *s;
	if (json_get_str(o, key, &s, e))
		return -1;
	*out = s ? xstrdup(s) : NULL;
	return 0;
}

static int decode_set(const json_t *set, struct review_want *w, struct err *e)
{
	static const char *const known[] = {"all", "paths", "paths_b64", "hunks", NULL};
	if (!set || json_is_null(set))
		return 0;
	if (!json_is_object(set))
		return err_set(e, ERR_INVALID, "field \"set\" must be an object");
	return json_only(set, known, e) || json_get_bool(set, "all", &w->all, e) || json_get_strv(set, "paths", &w->paths, e) ||
			       json_get_strv(set, "paths_b64", &w->paths_b64, e) || json_get_strv(set, "hunks", &w->hunks, e)
		       ? -1
		       : 0;
}

static int decode_edits(const json_t *edits, struct review_want *w, struct err *e)
{
	const char *id;
	json_t *v;
	if (!edits || json_is_null(edits))
		return 0;
	if (w->verb != REVIEW_APPLY || !json_is_object(edits))
		return err_set(e, ERR_INVALID, "field \"edits\" goes with apply, and must be an object");
	if (json_object_size(edits) > EDITS_MAX)
		return err_set(e, ERR_LIMIT, "field \"edits\" has more than %d members: apply in several steps", EDITS_MAX);
	json_object_foreach(edits, id, v)
	{
		if (!json_is_string(v))
			return err_set(e, ERR_INVALID, "field \"edits\": %.40s must be a string, the lines that land", id);
		strv_add(&w->edits, id);
		strv_add(&w->edits, json_string_value(v));
	}
	return 0;
}

static int decode(const json_t *o, struct review_want *w, struct err *e)
{
	static const char *const known[] = {"set", "edits", "format", "context", "text", "digest", "accept", "accept_b64", "accept_risk",
					    "conflicts", "to", "umask", "author", "email", "subject", "message", "branch", "bundle", "ignored",
					    NULL};
	bool text = true;
	uint64_t mask = 022;
	w->context = 3;
	if (json_only(o, known, e) || decode_set(json_object_get(o, "set"), w, e) || decode_edits(json_object_get(o, "edits"), w, e) || own(o, "format", &w->format, e) ||
	    json_get_u64(o, "context", &w->context, e) || json_get_bool(o, "text", &text, e) || own(o, "digest", &w->digest, e) ||
	    json_get_strv(o, "accept", &w->accept, e) || json_get_strv(o, "accept_b64", &w->accept_b64, e) ||
	    json_get_bool(o, "accept_risk", &w->accept_risk, e) || json_get_bool(o, "ignored", &w->ignored, e) || own(o, "conflicts", &w->conflicts, e) || own(o, "to", &w->to, e))
		return -1;
	w->no_text = !text;
	if (json_get_u64(o, "umask", &mask, e))
		return -1;
	w->umask_bits = mask & 0777;
	return own(o, "author", &w->author, e) || own(o, "email", &w->email, e) || own(o, "subject", &w->subject, e) ||
			       own(o, "message", &w->message, e) ||
			       own(o, "branch", &w->branch, e) || json_get_bool(o, "bundle", &w->bundle, e)
		       ? -1
		       : 0;
}

// Nobody waits for it any more: the work ends, too.
static void on_review_gone(struct request *r)
{
	engine_review_cancel(r->engine, r->review);
}

static void answer(void *ctx, const struct err *e, const struct buf *out)
{
	struct request *r = ctx;
	r->on_gone = NULL;
	if (e) {
		request_fail(r, e);
		return;
	}
	r->answer.max = out->n + 1;
	buf_add(&r->answer, out->p, out->n);
	request_answer(r, 200);
}

static void review(struct request *r, enum review_verb verb)
{
	struct review_want w = {.verb = verb};
	struct err e;
	if (decode(r->json, &w, &e) || rights_fields(r, &e)) {
		review_want_done(&w);
		request_fail(r, &e);
		return;
	}
	// What was looked at is what is landed: nothing else has been reviewed.
	if ((verb == REVIEW_APPLY || verb == REVIEW_DISMISS) && !w.digest) {
		err_set(&e, ERR_INVALID, "\"digest\" is needed: that of the diff that was looked at");
		review_want_done(&w);
		request_fail(r, &e);
		return;
	}
	if ((w.branch || w.bundle) && (verb != REVIEW_EXPORT || (w.branch && w.bundle) || w.paths || w.paths_b64 || w.hunks)) {
		err_set(&e, ERR_INVALID, "\"branch\" or \"bundle\" goes with export, and takes all commits");
		review_want_done(&w);
		request_fail(r, &e);
		return;
	}
	bool json = w.branch || (verb != REVIEW_EXPORT && !(w.format && strcmp(w.format, "json")));
	r->type = w.bundle ? "application/octet-stream" : json ? "application/x-ndjson" : "text/x-diff";
	uint64_t number = engine_review(r->engine, r->parts[0], &w, (struct review_done){answer, r});
	if (!number)
		return; // answered
	r->review = number;
	r->on_gone = on_review_gone;
}

void post_diff(struct request *r)
{
	review(r, REVIEW_DIFF);
}

void post_apply(struct request *r)
{
	review(r, REVIEW_APPLY);
}

void post_dismiss(struct request *r)
{
	review(r, REVIEW_DISMISS);
}

void post_undo(struct request *r)
{
	review(r, REVIEW_UNDO);
}

void post_export(struct request *r)
{
	review(r, REVIEW_EXPORT);
}

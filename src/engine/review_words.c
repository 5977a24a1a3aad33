// SPDX-License-Identifier: Apache-2.0
// Review in words: the request to skep-review, and what is recorded of what it did.
#include "engine/review_int.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define OPS_RECORDED 200

char *review_path(const struct review *r, const char *what)
{
	return xasprintf("%s/sandboxes/%s/%s", r->g->skep_home, r->box, what);
}

// --- what is asked ---

static void put_set(struct jsonw *w, const struct review_want *q)
{
	jw_key(w, "set");
	jw_open(w, '{');
	if (q->all || (!q->paths && !q->paths_b64 && !q->hunks))
		jw_kbool(w, "all", true);
	if (q->paths)
		jw_kstrv(w, "paths", q->paths);
	if (q->paths_b64)
		jw_kstrv(w, "paths_b64", q->paths_b64);
	if (q->hunks)
		jw_kstrv(w, "hunks", q->hunks);
	jw_close(w, '}');
}

static void put_wishes(struct jsonw *w, const struct review_want *q)
{
	jw_kstr(w, "format", q->format);
	jw_kstr(w, "conflicts", q->conflicts);
	jw_kstr(w, "digest", q->digest);
	jw_kstr(w, "to", q->to);
	jw_kstr(w, "author", q->author);
	jw_kstr(w, "email", q->email);
	jw_kstr(w, "subject", q->subject);
	jw_kstr(w, "message", q->message);
	jw_ku64(w, "context", q->context);
	jw_ku64(w, "umask", q->umask_bits);
	jw_kbool(w, "text", !q->no_text);
	jw_kbool(w, "ignored", q->ignored);
	if (q->accept_risk)
		jw_kbool(w, "accept_risk", true);
	if (q->accept)
		jw_kstrv(w, "accept", q->accept);
	if (q->accept_b64)
		jw_kstrv(w, "accept_b64", q->accept_b64);
	if (!q->edits)
		return;
	jw_key(w, "edits");
	jw_open(w, '{');
	for (char **v = q->edits; *v; v += 2)
		jw_kstr(w, v[0], v[1]);
	jw_close(w, '}');
}

// Where the base is, and where changes land. A frozen base is never older than its sandbox.
static void put_places(struct jsonw *w, const struct review *r, const struct sandbox *s)
{
	auto_free char *shadow = review_path(r, "shadow.git"), *log = review_path(r, "apply"), *out = review_path(r, "dismiss");
	auto_free char *tree = s->tree ? xasprintf("%s/%s", r->g->skep_home, s->tree) : NULL;
	jw_kstr(w, "shadow", shadow);
	if (s->project.hide)
		jw_kstrv(w, "hide", s->project.hide);
	jw_kstr(w, "log", log);
	jw_kstr(w, "out", out);
	jw_kstr(w, "target", s->repo ? s->repo : tree);
	if (tree) {
		if (s->repo)
			jw_kstr(w, "base", tree);
		jw_ku64(w, "t0", INT64_MAX);
	} else {
		jw_ku64(w, "dev", s->base_dev);
		jw_ku64(w, "ino", s->base_ino);
		jw_ku64(w, "t0", base_time(s));
	}
}

// --- parts ---

#define SCOPES 256 // diffs of a part that are remembered

// What a digest of a part was made of: an apply or dismiss that names it looks at the same part.
struct review_scope {
	char digest[65];
	char **paths, **paths_b64;
};

static const struct review_scope *scope_find(const struct engine *g, const char *digest)
{
	for (size_t i = 0; g->scopes && i < SCOPES; i++)
		if (!strcmp(g->scopes[i].digest, digest))
			return &g->scopes[i];
	return NULL;
}

static void scope_clear(struct review_scope *s)
{
	strv_free(s->paths);
	strv_free(s->paths_b64);
	*s = (struct review_scope){0};
}

void review_scope_note(struct review *r, const json_t *last)
{
	struct engine *g = r->g;
	const json_t *summary = last ? json_object_get(last, "summary") : NULL;
	const char *digest = summary ? json_str(summary, "digest") : "";
	if (*digest != 'p' || strlen(digest) != 64 || scope_find(g, digest))
		return;
	if (!g->scopes)
		g->scopes = xcalloc(SCOPES, sizeof *g->scopes);
	struct review_scope *s = &g->scopes[g->next_scope++ % SCOPES];
	scope_clear(s);
	memcpy(s->digest, digest, sizeof s->digest);
	s->paths = strv_copy(r->want.paths);
	s->paths_b64 = strv_copy(r->want.paths_b64);
}

void review_scopes_free(struct engine *g)
{
	for (size_t i = 0; g->scopes && i < SCOPES; i++)
		scope_clear(&g->scopes[i]);
	free(g->scopes);
	g->scopes = NULL;
}

// Paths whose contents are collected; all of them where false.
static bool scope_of(const struct review *r, struct review_scope *out)
{
	const struct review_want *q = &r->want;
	bool lands = q->verb == REVIEW_APPLY || q->verb == REVIEW_DISMISS;
	const struct review_scope *was = lands && q->digest ? scope_find(r->g, q->digest) : NULL;
	if (was)
		*out = *was;
	else
		*out = (struct review_scope){.paths = q->paths, .paths_b64 = q->paths_b64};
	return !r->all && (lands ? was != NULL : !q->all && !q->hunks) && (out->paths || out->paths_b64);
}

static void put_collect(struct jsonw *w, const struct review *r, const struct sandbox *s, const char *ticket)
{
	uint64_t bytes = s->limits.disk && s->limits.disk < r->limits.bytes ? s->limits.disk : r->limits.bytes;
	auto_free char *sock = engine_socket(r->g, r->box);
	struct review_scope scope;
	jw_kstr(w, "socket", sock);
	jw_kstr(w, "ticket", ticket);
	jw_ku64(w, "total_max", bytes);
	jw_ku64(w, "keep_free", r->limits.free);
	if (!scope_of(r, &scope))
		return;
	if (scope.paths)
		jw_kstrv(w, "scope", scope.paths);
	if (scope.paths_b64)
		jw_kstrv(w, "scope_b64", scope.paths_b64);
}

void review_request(const struct review *r, const struct sandbox *s, const char *ticket, struct buf *out)
{
	struct jsonw w = {.b = out};
	jw_open(&w, '{');
	put_places(&w, r, s);
	if (ticket)
		put_collect(&w, r, s, ticket);
	put_wishes(&w, &r->want);
	if (r->want.verb != REVIEW_UNDO)
		put_set(&w, &r->want);
	jw_close(&w, '}');
}

// --- what happened ---

static void put_op(struct jsonw *w, const json_t *op)
{
	static const char *const sides[] = {"before", "after"};
	jw_open(w, '{');
	jw_kstr(w, "path", json_str(op, "path"));
	jw_kstr(w, "did", json_str(op, "did"));
	for (size_t i = 0; i < countof(sides); i++) {
		const json_t *side = json_object_get(op, sides[i]);
		const char *object = json_is_object(side) ? json_str(side, "object") : "";
		if (*object)
			jw_kstr(w, sides[i], object);
	}
	jw_close(w, '}');
}

// Each line but the last is a step.
static void put_ops(struct jsonw *w, const struct buf *out)
{
	int n = 0;
	jw_key(w, "steps");
	jw_open(w, '[');
	for (const char *p = buf_cstr((struct buf *)out), *end; (end = strchr(p, '\n')) && n < OPS_RECORDED; p = end + 1) {
		struct err ignored;
		auto_json json_t *op = json_read(p, (size_t)(end - p), &ignored);
		if (op && json_object_get(op, "did")) {
			put_op(w, op);
			n++;
		}
	}
	jw_close(w, ']');
}

void review_note(struct review *r, struct box *b, const json_t *last)
{
	static const char *const types[] = {[REVIEW_APPLY] = "review.applied", [REVIEW_DISMISS] = "review.dismissed",
					    [REVIEW_UNDO] = "review.undone", [REVIEW_EXPORT] = "review.exported"};
	auto_buf struct buf body = BUF_INIT(1 << 20);
	struct jsonw w = {.b = &body};
	const json_t *result = last ? json_object_get(last, "result") : NULL;
	if (r->want.verb == REVIEW_DIFF)
		return;
	jw_kstr(&w, "who", r->g->owner);
	jw_kstr(&w, "digest", r->want.digest);
	jw_kstr(&w, "to", r->want.to);
	jw_kstr(&w, "branch", r->want.branch);
	if (r->want.branch && last)
		jw_kstr(&w, "commit", json_str(last, "commit"));
	if (r->want.hunks)
		jw_kstrv(&w, "hunks", r->want.hunks);
	if (r->want.paths)
		jw_kstrv(&w, "paths", r->want.paths);
	if (r->want.edits) {
		jw_key(&w, "edited");
		jw_open(&w, '[');
		for (char **v = r->want.edits; *v; v += 2)
			jw_str(&w, v[0], strlen(v[0]));
		jw_close(&w, ']');
	}
	if (result) {
		jw_kstr(&w, "base_before", json_str(result, "base_before"));
		jw_kstr(&w, "base_after", json_str(result, "base_after"));
		put_ops(&w, &r->out);
	}
	record_by(b, *r->actor.name ? r->actor.name : "skepd", types[r->want.verb], buf_cstr(&body));
}

// SPDX-License-Identifier: Apache-2.0
// The rules of model/risk.h, for every change that is pending.
#include "base/mem.h"
#include "model/risk.h"
#include "workspace/review.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// What it adds: all of a new file, else the lines that are new.
static void read_added(const struct change *c, const struct texts *t, struct risk_text *out)
{
	struct lines s;
	if (c->whole) {
		if (!c->from)
			risk_of_text(t->s, t->s_n, out);
		return;
	}
	lines_init(&s, t->s, t->s_n);
	for (size_t i = 0; i < c->hunks.n; i++) {
		size_t n;
		if (c->hunks.v[i].kind != HUNK_LINES || c->hunks.v[i].state == HUNK_THERE)
			continue;
		const char *p = lines_get(&s, c->hunks.v[i].new_at, c->hunks.v[i].new_n, &n);
		risk_of_text(p, n, out);
	}
	lines_done(&s);
}

// HEAD, refs and objects side by side are a repository without a .git: git in there would take its config and hooks.
static void judge_bare(struct review *r, struct change *c)
{
	const char *slash = strrchr(c->path, '/'), *name = slash ? slash + 1 : c->path;
	if (strcasecmp(name, "HEAD") && strcasecmp(name, "config"))
		return;
	auto_free char *objects = xasprintf("%.*sobjects", (int)(name - c->path), c->path);
	auto_free char *refs = xasprintf("%.*srefs", (int)(name - c->path), c->path);
	size_t i = review_copy_lower(&r->copy, objects), k = review_copy_lower(&r->copy, refs);
	bool has_objects = i < r->copy.n && !strncmp(r->copy.v[i].path, objects, strlen(objects));
	bool has_refs = k < r->copy.n && !strncmp(r->copy.v[k].path, refs, strlen(refs));
	if (has_objects || has_refs)
		change_add_risk(c, "git",
				"its directory is laid out as a bare git repository, whose config and hooks git obeys");
}

static void on_risk(void *ctx, const char *flag, const char *reason)
{
	change_add_risk(ctx, flag, "%s", reason);
}

static int judge(struct review *r, struct change *c, struct err *e)
{
	struct texts t = {0};
	struct risk_subject s = {.path = c->path};
	bool seen = c->state != STATE_LOST && c->s.type != SIDE_DIR;
	int rc = seen ? texts_load(r, c, &t, e) : 0;
	if (!rc && seen) {
		const struct side *old = c->from ? &c->from->p : &c->p;
		s.what = c->s.type == SIDE_LINK ? RISK_LINK : c->unseen ? RISK_UNSEEN : c->binary ? RISK_BINARY : RISK_TEXT;
		s.old = t.p, s.old_n = t.p_n, s.now = t.s, s.now_n = t.s_n;
		s.becomes_executable = c->s.exec && !(old->type == SIDE_FILE && old->exec);
		if (s.what == RISK_TEXT)
			read_added(c, &t, &s.added);
	}
	if (!rc)
		risk_judge(&s, on_risk, c);
	if (!rc && seen)
		judge_bare(r, c);
	if (!rc && c->h.type == SIDE_FILE && c->h.perm & 06000 && c->s.type == SIDE_FILE)
		change_add_risk(c, "privilege", "it runs with the rights of its owner or group (set-user-id, set-group-id)");
	if (seen)
		texts_done(&t);
	return rc;
}

int review_risks(struct review *r, struct err *e)
{
	for (size_t i = 0; i < r->n; i++) {
		struct change *c = r->v[i];
		if (c->s.type == SIDE_NONE || c->hidden)
			continue; // what goes is trusted by nobody
		if (judge(r, c, e))
			return -1;
	}
	return 0;
}

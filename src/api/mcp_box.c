// SPDX-License-Identifier: Apache-2.0
// Sandboxes as a model handles them: which one, what it is, its moments, what it changed. What a create may say is a name and
// what to start from; mounts, network, secrets, limits and the place on the host are their owner's to decide.
#include "api/mcp_site_int.h"

#include "api/auth.h"
#include "api/code.h"
#include "api/ports.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/net.h"
#include "engine/review.h"
#include <stdlib.h>
#include <string.h>

#define LISTED 100
#define DIFF_DEFAULT (64u << 10)
#define PREVIEW_S (12u * 3600)

// --- which one ---

void mcp_refuse_kind(struct mcp_call *c, const struct err *e)
{
	const char *next = NULL;
	switch (e->kind) {
	case ERR_NOT_FOUND:
		next = c->pin ? NULL : "sandbox_list shows the sandboxes there are; sandbox_create makes one.";
		break;
	case ERR_CONFLICT:
		next = "look at status; if something else is under way, wait and try again.";
		break;
	case ERR_LIMIT:
		next = "use less: a limit of this sandbox is reached, and only its owner can raise it.";
		break;
	case ERR_UNAVAILABLE:
	case ERR_TIMEOUT:
		next = "try again once; if it stays so, tell the user.";
		break;
	case ERR_DENIED:
		next = "do not try to get around it: tell the user what was needed.";
		break;
	default:
		break;
	}
	mcp_refuse(c, e, next);
}

const struct sandbox *mcp_box_find(struct mcp_call *c, const char *word, enum scope scope, struct err *e)
{
	word = word ? word : c->pin;
	const struct sandbox *pinned = c->pin && *c->pin ? engine_get(c->engine, c->pin, e) : NULL;
	const struct sandbox *s = pinned && word == c->pin ? pinned : word && *word ? engine_get(c->engine, word, e) : NULL;
	if (!word || !*word)
		err_set(e, ERR_INVALID, "no sandbox was named");
	else if (s && c->pin && s != pinned)
		err_set(e, ERR_DENIED, "this server works on one sandbox only, and that is not %.40s", word);
	else if (s && !request_may(c->r, scope, s->id, e))
		return s;
	return NULL;
}

const struct sandbox *mcp_box(struct mcp_call *c, const json_t *args, enum scope scope)
{
	struct err e;
	const struct sandbox *s = mcp_box_find(c, mcp_arg(args, MCP_SANDBOX), scope, &e);
	if (!s)
		mcp_refuse_kind(c, &e);
	return s;
}

int mcp_exec_find(struct mcp_call *c, const char *id, enum scope scope, struct exec_row *out, struct err *e)
{
	if (!id_is(id))
		return err_set(e, ERR_INVALID, "not the id of an exec: run gives one");
	if (engine_exec_get(c->engine, id, out, e))
		return -1;
	if (mcp_box_find(c, out->sandbox, scope, e))
		return 0;
	exec_row_done(out);
	return -1;
}

int mcp_exec(struct mcp_call *c, const char *id, enum scope scope, struct exec_row *out)
{
	struct err e;
	if (!mcp_exec_find(c, id, scope, out, &e))
		return 0;
	mcp_refuse(c, &e, e.kind == ERR_NOT_FOUND ? "status shows the commands of a sandbox; run starts one." : NULL);
	return -1;
}

// --- what it is ---

static void put_box(struct jsonw *w, const struct sandbox *s)
{
	jw_kstr(w, "sandbox", s->id);
	jw_kstr(w, "name", s->name);
	jw_kstr(w, "state", state_name(s->state));
	jw_kstr(w, "reason", s->reason);
	jw_kstr(w, "workspace", s->ws_path);
	if (s->pending >= 0)
		jw_ki64(w, "pending", s->pending);
}

static void answer_box(void *ctx, const struct err *e, const struct outcome *o)
{
	struct mcp_call *c = ctx;
	if (e) {
		mcp_refuse_kind(c, e);
		return;
	}
	struct jsonw w = mcp_answer_begin(c);
	put_box(&w, o->sandbox);
	encode_notices(&w, o->notices);
	mcp_answer_end(c, &w);
}

static void on_created(void *ctx, const struct err *e, const struct outcome *o)
{
	if (e && e->kind == ERR_CONFLICT && e->sys == ENGINE_NEEDS_REGISTRIES)
		mcp_refuse(ctx, e, "this project's network needs the user's package registries: ask the user to run `skep new` there and to start `skep mcp --sandbox ID`.");
	else
		answer_box(ctx, e, o);
}

static char *copy(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

void mcp_sandbox_create(struct mcp_call *c, const json_t *args)
{
	struct err e;
	// A directory of the host is shown only to who works there already, and only that one.
	bool local = c->r->who->local && c->cwd && !mcp_arg_bool(args, "empty");
	const char *from = mcp_arg(args, "snapshot");
	const struct snapshot *n = from ? engine_snapshot_get(c->engine, from, &e) : NULL;
	if (request_may(c->r, SCOPE_RUN, NULL, &e) || (from && (!n || request_may(c->r, SCOPE_RUN, n->sandbox, &e)))) {
		mcp_refuse_kind(c, &e);
		return;
	}
	struct create make = {
		.name = copy(mcp_arg(args, "name")),
		.from = copy(from),
		.cwd = local && !from ? xstrdup(c->cwd) : NULL,
		.empty = !local && !from,
		.caller_path = local ? copy(request_header(c->r, "X-Skep-Path")) : NULL,
		.limits = LIMITS_DEFAULT,
		.umask_bits = 022,
		.setup = SETUP_WAIT,
	};
	if (rights_create(c->r, &make, &e)) {
		create_done(&make);
		mcp_refuse_kind(c, &e);
		return;
	}
	engine_create(c->engine, &make, (struct done){on_created, c});
}

struct listing {
	struct mcp_call *c;
	struct jsonw w;
	int n;
};

static void list_one(void *ctx, const struct sandbox *s)
{
	struct listing *l = ctx;
	if (l->n >= LISTED || !request_sees(l->c->r, s))
		return;
	l->n++;
	jw_open(&l->w, '{');
	put_box(&l->w, s);
	jw_close(&l->w, '}');
}

void mcp_sandbox_list(struct mcp_call *c, const json_t *args)
{
	struct listing l = {.c = c, .w = mcp_answer_begin(c)};
	(void)args;
	jw_key(&l.w, "sandboxes");
	jw_open(&l.w, '[');
	engine_each(c->engine, list_one, &l);
	jw_close(&l.w, ']');
	mcp_answer_end(c, &l.w);
}

void mcp_sandbox_stop(struct mcp_call *c, const json_t *args)
{
	const struct sandbox *s = mcp_box(c, args, SCOPE_RUN);
	if (s)
		engine_stop(c->engine, s->id, (struct done){answer_box, c});
}

static void list_running(void *ctx, const struct exec_row *x)
{
	struct listing *l = ctx;
	if (!x->running || l->n++ >= LISTED)
		return;
	const char *command = strv_len(x->argv) == 5 && !strcmp(x->argv[3], "sh") ? x->argv[4] : x->argv[0];
	jw_open(&l->w, '{');
	jw_kstr(&l->w, "exec", x->id);
	mcp_text(&l->w, "command", command, strnlen(command, 200));
	jw_close(&l->w, '}');
}

static void list_snapshot(void *ctx, const struct snapshot *n)
{
	struct listing *l = ctx;
	if (l->n++ >= LISTED)
		return;
	jw_open(&l->w, '{');
	jw_kstr(&l->w, "snapshot", n->id);
	jw_kstr(&l->w, "name", n->name);
	jw_kbool(&l->w, "automatic", n->automatic);
	jw_close(&l->w, '}');
}

static void list_port(void *ctx, const struct port_row *p)
{
	struct listing *l = ctx;
	if (l->n++ < LISTED)
		jw_u64(&l->w, p->port);
}

void mcp_status(struct mcp_call *c, const json_t *args)
{
	struct err e;
	const struct sandbox *s = mcp_box(c, args, SCOPE_READ);
	if (!s)
		return;
	struct listing l = {.c = c, .w = mcp_answer_begin(c)};
	put_box(&l.w, s);
	jw_kstr(&l.w, "base", engine_base_state(l.c->engine, s));
	jw_kstr(&l.w, "user", s->profile == PROFILE_ROOT ? "root" : "skep");
	jw_ku64(&l.w, "memory", s->limits.memory);
	jw_ku64(&l.w, "disk", s->limits.disk);
	jw_ku64(&l.w, "pids", s->limits.pids);
	jw_key(&l.w, "running");
	jw_open(&l.w, '[');
	bool bad = engine_execs(c->engine, s->id, list_running, &l, &e);
	jw_close(&l.w, ']');
	l.n = 0;
	jw_key(&l.w, "ports");
	jw_open(&l.w, '[');
	engine_ports(c->engine, s->id, list_port, &l);
	jw_close(&l.w, ']');
	l.n = 0;
	jw_key(&l.w, "snapshots");
	jw_open(&l.w, '[');
	bad = bad || engine_snapshots(c->engine, s->id, list_snapshot, &l, &e);
	jw_close(&l.w, ']');
	if (bad)
		mcp_refuse_kind(c, &e);
	else
		mcp_answer_end(c, &l.w);
}

// --- its moments ---

static void put_snapshot(struct jsonw *w, const struct snapshot *n)
{
	jw_kstr(w, "snapshot", n->id);
	jw_kstr(w, "snapshot_name", n->name);
}

static void on_moment(void *ctx, const struct err *e, const struct outcome *o)
{
	struct mcp_call *c = ctx;
	if (e) {
		mcp_refuse(c, e, e->kind == ERR_NOT_FOUND ? "status lists the snapshots of a sandbox." : NULL);
		return;
	}
	struct jsonw w = mcp_answer_begin(c);
	put_snapshot(&w, o->snapshot);
	jw_kstr(&w, "sandbox", o->sandbox ? o->sandbox->id : o->snapshot->sandbox);
	jw_kstr(&w, "note", "Covered: files of workspace, home and system. Not covered: running processes, memory, /tmp.");
	mcp_answer_end(c, &w);
}

void mcp_snapshot(struct mcp_call *c, const json_t *args)
{
	const struct sandbox *s = mcp_box(c, args, SCOPE_RUN);
	if (s)
		engine_snapshot(c->engine, s->id, mcp_arg(args, "name"), (struct done){on_moment, c});
}

// A snapshot of another sandbox is another sandbox's.
static bool may_use(struct mcp_call *c, const struct sandbox *s, const char *word)
{
	struct err e;
	const struct snapshot *n = word && id_is(word) ? engine_snapshot_get(c->engine, word, &e) : NULL;
	if (!n || !strcmp(n->sandbox, s->id))
		return true;
	err_set(&e, ERR_DENIED, "snapshot %s belongs to another sandbox", n->id);
	mcp_refuse(c, &e, "status lists the snapshots of this one.");
	return false;
}

void mcp_rollback(struct mcp_call *c, const json_t *args)
{
	const char *word = mcp_arg(args, "snapshot");
	const struct sandbox *s = mcp_box(c, args, SCOPE_RUN);
	if (s && may_use(c, s, word))
		engine_rollback(c->engine, s->id, word, (struct done){on_moment, c});
}

static void on_forked(void *ctx, const struct err *e, const struct outcome *o)
{
	struct mcp_call *c = ctx;
	if (e) {
		mcp_refuse_kind(c, e);
		return;
	}
	struct jsonw w = mcp_answer_begin(c);
	put_snapshot(&w, o->snapshot);
	jw_key(&w, "sandboxes");
	jw_open(&w, '[');
	for (const struct sandbox *const *s = o->forks; *s; s++)
		jw_str(&w, (*s)->id, strlen((*s)->id));
	jw_close(&w, ']');
	mcp_answer_end(c, &w);
}

void mcp_fork(struct mcp_call *c, const json_t *args)
{
	const char *word = mcp_arg(args, "snapshot");
	const struct sandbox *s = mcp_box(c, args, SCOPE_RUN);
	if (s && may_use(c, s, word))
		engine_fork(c->engine, s->id, word, (uint32_t)mcp_arg_num(args, "count", 1), (struct done){on_forked, c});
}

// --- what it changed, what it may reach ---

static void on_diff_cancelled(struct mcp_call *c)
{
	engine_review_cancel(c->engine, c->review);
}

static void on_diff(void *ctx, const struct err *e, const struct buf *out)
{
	struct mcp_call *c = ctx;
	c->on_cancel = NULL;
	if (e) {
		mcp_refuse_kind(c, e);
		return;
	}
	size_t max = mcp_arg_num(json_object_get(c->m.params, "arguments"), "max_output", DIFF_DEFAULT);
	size_t n = out->n <= max ? out->n : str_utf8_whole(out->p, max);
	struct jsonw w = mcp_answer_begin(c);
	mcp_text(&w, "diff", out->p ? out->p : "", n);
	jw_ku64(&w, "size", out->n);
	jw_kbool(&w, "truncated", n < out->n);
	if (n < out->n)
		jw_kstr(&w, "next", "It is cut: ask with format=stat, then with path for one file or directory at a time.");
	mcp_answer_end(c, &w);
}

void mcp_diff(struct mcp_call *c, const json_t *args)
{
	const char *path = mcp_arg(args, "path"), *format = mcp_arg(args, "format");
	const struct sandbox *s = mcp_box(c, args, SCOPE_READ);
	if (!s)
		return;
	struct review_want want = {.verb = REVIEW_DIFF, .context = 3, .umask_bits = 022, .format = xstrdup(format ? format : "patch")};
	size_t n = strlen(s->ws_path);
	if (path && !strncmp(path, s->ws_path, n) && path[n] == '/')
		path += n + 1; // as it is seen inside
	if (path)
		strv_add(&want.paths, path);
	uint64_t number = engine_review(c->engine, s->id, &want, (struct review_done){on_diff, c});
	if (!number)
		return; // answered
	c->review = number;
	c->on_cancel = on_diff_cancelled;
}

void mcp_preview(struct mcp_call *c, const json_t *args)
{
	struct err e;
	char sign[PREVIEW_LINK_MAX], until[32];
	auto_buf struct buf url = BUF_INIT(4096);
	uint64_t expires = clock_unix_ms() / 1000 + PREVIEW_S;
	const struct sandbox *s = mcp_box(c, args, SCOPE_RUN);
	if (!s)
		return;
	if (preview_link(c->r, s, (uint16_t)mcp_arg_num(args, "port", 0), expires, &url, sign, &e)) {
		mcp_refuse_kind(c, &e);
		return;
	}
	clock_iso(expires * 1000, until);
	struct jsonw w = mcp_answer_begin(c);
	jw_kstr(&w, "url", buf_cstr(&url));
	jw_kstr(&w, "expires", until);
	jw_kstr(&w, "note", "For the user's browser, on the machine where skep runs. The server inside may listen on 127.0.0.1; it must be running.");
	mcp_answer_end(c, &w);
}

void mcp_policy(struct mcp_call *c, const json_t *args)
{
	struct err e;
	const struct sandbox *s = mcp_box(c, args, SCOPE_READ);
	if (!s)
		return;
	struct jsonw w = mcp_answer_begin(c);
	jw_kstr(&w, "sandbox", s->id);
	jw_key(&w, "network");
	if (encode_policy(&w, c->engine, s, &e)) {
		mcp_refuse_kind(c, &e);
		return;
	}
	jw_kstr(&w, "note", "What no rule allows does not even resolve. Only the user can change this.");
	mcp_answer_end(c, &w);
}

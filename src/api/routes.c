// SPDX-License-Identifier: Apache-2.0
// The native API: one table, and a handler per row that decodes, asks the engine and encodes.
#include "api/access.h"
#include "api/auth.h"
#include "api/code.h"
#include "api/events.h"
#include "api/exec_io.h"
#include "api/files.h"
#include "api/follow.h"
#include "api/layers.h"
#include "api/net.h"
#include "api/once.h"
#include "api/openapi.h"
#include "api/page.h"
#include "api/ports.h"
#include "api/refused.h"
#include "api/review.h"
#include "api/server.h"

#include "base/mem.h"
#include "base/str.h"
#include "model/msg.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SKEP_VERSION "0.1.0"

static struct jsonw out(struct request *r)
{
	return (struct jsonw){.b = &r->answer};
}

// The end of most operations.
static void done_sandbox(void *ctx, const struct err *e, const struct outcome *o)
{
	struct request *r = ctx;
	struct jsonw w = out(r);
	if (e) {
		request_fail(r, e);
		return;
	}
	encode_sandbox(&w, r->engine, o->sandbox);
	request_answer(r, 200);
}

static void done_empty(void *ctx, const struct err *e, const struct outcome *o)
{
	(void)o;
	if (e)
		request_fail(ctx, e);
	else
		request_answer(ctx, 204);
}

// Owned. For who is not on this machine: the path where the same channel is (docs/streams.md).
static char *attach_socket(struct request *r, const char *sandbox)
{
	return r->who->local ? engine_socket(r->engine, sandbox) : xasprintf("/v1/sandboxes/%s/cell", sandbox);
}

static void put_exec(struct request *r, struct jsonw *w, const struct outcome *o)
{
	if (o->exec) {
		jw_key(w, "exec");
		encode_exec(w, o->exec);
	}
	jw_key(w, "attach");
	auto_free char *socket = attach_socket(r, o->sandbox->id);
	encode_attach(w, socket, o);
}

static void done_create(void *ctx, const struct err *e, const struct outcome *o)
{
	struct request *r = ctx;
	struct jsonw w = out(r);
	once_end(r->ctx, e, o);
	r->ctx = NULL;
	if (e) {
		request_fail(r, e);
		return;
	}
	if (o->setup) { // nothing was made yet
		jw_open(&w, '{');
		jw_key(&w, "setup");
		jw_open(&w, '{');
		jw_kstr(&w, "exec", o->setup);
		if (o->setup_ticket && r->who->local) {
			auto_free char *sock = engine_socket(r->engine, o->setup_box);
			jw_key(&w, "attach");
			jw_open(&w, '{');
			jw_kstr(&w, "exec", o->setup);
			jw_kstr(&w, "socket", sock);
			jw_kstr(&w, "ticket", o->setup_ticket);
			jw_close(&w, '}');
		}
		jw_close(&w, '}');
		jw_close(&w, '}');
		request_answer(r, 202);
		return;
	}
	jw_open(&w, '{');
	encode_sandbox_members(&w, r->engine, o->sandbox);
	if (o->exec_id)
		put_exec(r, &w, o);
	encode_notices(&w, o->notices);
	jw_close(&w, '}');
	request_answer(r, 201);
}

static void done_exec(void *ctx, const struct err *e, const struct outcome *o)
{
	struct request *r = ctx;
	struct jsonw w = out(r);
	if (e) {
		request_fail(r, e);
		return;
	}
	jw_open(&w, '{');
	put_exec(r, &w, o);
	jw_close(&w, '}');
	request_answer(r, 201);
}

static void done_attach(void *ctx, const struct err *e, const struct outcome *o)
{
	struct request *r = ctx;
	struct jsonw w = out(r);
	if (e) {
		request_fail(r, e);
		return;
	}
	auto_free char *socket = attach_socket(r, o->sandbox->id);
	encode_attach(&w, socket, o);
	request_answer(r, 200);
}

static void done_image(void *ctx, const struct err *e, const struct outcome *o)
{
	struct request *r = ctx;
	struct jsonw w = out(r);
	if (e) {
		request_fail(r, e);
		return;
	}
	encode_image(&w, o->image);
	request_answer(r, 201);
}

static bool body_is_empty(struct request *r)
{
	static const char *const none[] = {NULL};
	struct err e;
	if (!json_only(r->json, none, &e))
		return true;
	request_fail(r, &e);
	return false;
}

static bool get_offset(struct request *r, uint64_t *out_offset)
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

static void get_version(struct request *r)
{
	struct jsonw w = out(r);
	jw_open(&w, '{');
	jw_kstr(&w, "version", SKEP_VERSION);
	jw_ku64(&w, "protocol", PROTO_VERSION);
	jw_ku64(&w, "pid", (uint64_t)getpid());
	jw_close(&w, '}');
	request_answer(r, 200);
}

static void post_sandbox(struct request *r)
{
	struct create c = {0};
	struct err e;
	if (decode_create(r->json, &c, &e) || rights_create(r, &c, &e)) {
		create_done(&c);
		request_fail(r, &e);
		return;
	}
	struct once *once;
	if (!once_begin(r, once_replay_sandbox, &once)) {
		create_done(&c);
		return;
	}
	r->ctx = once;
	engine_create(r->engine, &c, (struct done){done_create, r});
}

struct listing {
	struct request *r;
	struct jsonw w;
	const char *label; // K=V, or NULL
	bool paged;
	struct page page;
};

static void list_sandbox(void *ctx, const struct sandbox *s)
{
	struct listing *l = ctx;
	bool fits = !l->label;
	for (char **v = s->labels; *v; v++)
		fits |= l->label && !strcmp(*v, l->label);
	if (fits && request_sees(l->r, s) && page_takes(&l->page, s->id, s->created))
		encode_sandbox(&l->w, l->r->engine, s);
}

static struct listing list_begin(struct request *r, const char *key)
{
	struct listing l = {.r = r, .w = out(r)};
	jw_open(&l.w, '{');
	jw_key(&l.w, key);
	jw_open(&l.w, '[');
	return l;
}

static void list_end(struct listing *l)
{
	jw_close(&l->w, ']');
	if (l->paged)
		page_next(&l->page, &l->w);
	jw_close(&l->w, '}');
	request_answer(l->r, 200);
}

// One in pieces. False: it was answered.
static bool page_list(struct request *r, const char *key, struct listing *out)
{
	struct err e;
	struct page p;
	if (page_begin(r, &p, &e)) {
		request_fail(r, &e);
		return false;
	}
	*out = list_begin(r, key);
	out->paged = true;
	out->page = p;
	return true;
}

static void get_sandboxes(struct request *r)
{
	struct listing l;
	if (!page_list(r, "sandboxes", &l))
		return;
	l.label = request_query(r, "label");
	engine_each(r->engine, list_sandbox, &l);
	list_end(&l);
}

static void get_sandbox(struct request *r)
{
	struct err e;
	struct jsonw w = out(r);
	const struct sandbox *s = engine_get(r->engine, r->parts[0], &e);
	if (!s) {
		request_fail(r, &e);
		return;
	}
	encode_sandbox(&w, r->engine, s);
	request_answer(r, 200);
}

static void delete_sandbox(struct request *r)
{
	const char *force = request_query(r, "force");
	bool forced = force && strcmp(force, "0") && strcmp(force, "false");
	engine_remove(r->engine, r->parts[0], forced, (struct done){done_empty, r});
}

static void post_start(struct request *r)
{
	if (body_is_empty(r))
		engine_start(r->engine, r->parts[0], (struct done){done_sandbox, r});
}

static void post_stop(struct request *r)
{
	if (body_is_empty(r))
		engine_stop(r->engine, r->parts[0], (struct done){done_sandbox, r});
}

static void post_pause(struct request *r)
{
	if (body_is_empty(r))
		engine_pause(r->engine, r->parts[0], true, (struct done){done_sandbox, r});
}

static void post_resume(struct request *r)
{
	if (body_is_empty(r))
		engine_pause(r->engine, r->parts[0], false, (struct done){done_sandbox, r});
}

static void post_pin(struct request *r)
{
	if (body_is_empty(r))
		engine_pin(r->engine, r->parts[0], true, (struct done){done_sandbox, r});
}

static void post_unpin(struct request *r)
{
	if (body_is_empty(r))
		engine_pin(r->engine, r->parts[0], false, (struct done){done_sandbox, r});
}

static void begin_exec(struct request *r, int (*decode)(const json_t *, struct exec_request *, struct err *))
{
	struct exec_request x = {0};
	struct err e;
	if (decode(r->json, &x, &e)) {
		exec_request_done(&x);
		request_fail(r, &e);
		return;
	}
	x.early = !x.detached;
	engine_exec(r->engine, r->parts[0], &x, (struct done){done_exec, r});
}

static void post_exec(struct request *r)
{
	begin_exec(r, decode_exec);
}

static void post_job(struct request *r)
{
	begin_exec(r, decode_job);
}

static void list_exec(void *ctx, const struct exec_row *x)
{
	struct listing *l = ctx;
	if (request_sees_id(l->r, x->sandbox) && page_takes(&l->page, x->id, x->started))
		encode_exec(&l->w, x);
}

static void get_execs(struct request *r)
{
	struct err e;
	struct listing l;
	if (!page_list(r, "execs", &l))
		return;
	if (engine_execs(r->engine, r->n_parts ? r->parts[0] : NULL, list_exec, &l, &e))
		request_fail(r, &e);
	else
		list_end(&l);
}

static void get_exec(struct request *r)
{
	struct err e;
	struct exec_row x;
	struct jsonw w = out(r);
	if (engine_exec_get(r->engine, r->parts[0], &x, &e)) {
		request_fail(r, &e);
		return;
	}
	encode_exec(&w, &x);
	exec_row_done(&x);
	request_answer(r, 200);
}

static void post_attach(struct request *r)
{
	if (body_is_empty(r))
		engine_attach(r->engine, r->parts[0], (struct done){done_attach, r});
}

static void post_kill(struct request *r)
{
	static const char *const known[] = {"signal", NULL};
	struct err e;
	uint64_t signal = 15;
	if (json_only(r->json, known, &e) || json_get_u64(r->json, "signal", &signal, &e)) {
		request_fail(r, &e);
	} else if (signal < 1 || signal > 64) {
		err_set(&e, ERR_INVALID, "signal must be 1 to 64");
		request_fail(r, &e);
	} else {
		engine_kill(r->engine, r->parts[0], (uint32_t)signal, (struct done){done_empty, r});
	}
}

static void number(char out_text[24], uint64_t v)
{
	if (fmt_to(out_text, 24, "%llu", (unsigned long long)v))
		out_text[0] = 0;
}

static void get_output(struct request *r)
{
	struct err e;
	uint64_t offset, first, end;
	const char *stream = request_query(r, "stream");
	if (!get_offset(r, &offset))
		return;
	r->answer.max = ANSWER_MAX;
	if (engine_output(r->engine, r->parts[0], stream ? stream : "stdout", offset, &r->answer, &first, &end, &e)) {
		request_fail(r, &e);
		return;
	}
	number(r->offset, first);
	number(r->end, end);
	r->type = "application/octet-stream";
	request_answer(r, 200);
}

static void get_journal(struct request *r)
{
	struct err e;
	uint64_t offset, end, wait = 0;
	const char *wait_ms = request_query(r, "wait_ms");
	if (!get_offset(r, &offset))
		return;
	if (wait_ms && str_to_u64(str_of(wait_ms), 0, INT64_MAX, &wait)) {
		err_set(&e, ERR_INVALID, "wait_ms must be a whole number");
		request_fail(r, &e);
		return;
	}
	r->answer.max = ANSWER_MAX;
	if (engine_journal(r->engine, r->parts[0], offset, &r->answer, &end, &e)) {
		request_fail(r, &e);
		return;
	}
	number(r->end, end);
	r->type = "application/x-ndjson";
	if (wait && !r->answer.n)
		follow(r, request_loop(r), offset, wait);
	else
		request_answer(r, 200);
}

static void get_verify(struct request *r)
{
	struct err e;
	struct journal_report rep = {0};
	struct jsonw w = out(r);
	if (r->n_parts ? engine_journal_verify(r->engine, r->parts[0], &rep, &e) : engine_service_verify(r->engine, &rep, &e)) {
		request_fail(r, &e);
		return;
	}
	jw_open(&w, '{');
	jw_kbool(&w, "ok", rep.ok);
	jw_ku64(&w, "events", rep.events);
	if (!rep.ok)
		jw_ku64(&w, "line", rep.line);
	if (!rep.ok || rep.torn)
		jw_kstr(&w, "reason", rep.reason);
	jw_close(&w, '}');
	request_answer(r, 200);
}

static void get_service_journal(struct request *r)
{
	struct err e;
	uint64_t offset, end;
	if (!get_offset(r, &offset))
		return;
	refused_flush();
	r->answer.max = ANSWER_MAX;
	if (engine_service_journal(r->engine, offset, &r->answer, &end, &e)) {
		request_fail(r, &e);
		return;
	}
	number(r->end, end);
	r->type = "application/x-ndjson";
	request_answer(r, 200);
}

static void list_image(void *ctx, const struct image_row *i)
{
	encode_image(&((struct listing *)ctx)->w, i);
}

static void get_images(struct request *r)
{
	struct err e;
	struct listing l = list_begin(r, "images");
	if (engine_images(r->engine, list_image, &l, &e))
		request_fail(r, &e);
	else
		list_end(&l);
}

static void get_image(struct request *r)
{
	struct err e;
	struct image_row i;
	struct jsonw w = out(r);
	if (engine_image_get(r->engine, r->parts[0], &i, &e)) {
		request_fail(r, &e);
		return;
	}
	encode_image(&w, &i);
	image_row_done(&i);
	request_answer(r, 200);
}

static void post_image(struct request *r)
{
	static const char *const known[] = {"source", "name", NULL};
	struct err e;
	const char *source, *name;
	if (json_only(r->json, known, &e) || json_get_str(r->json, "source", &source, &e) || json_get_str(r->json, "name", &name, &e))
		request_fail(r, &e);
	else
		engine_image_import(r->engine, source ? source : "", name, (struct done){done_image, r});
}

static void delete_image(struct request *r)
{
	engine_image_remove(r->engine, r->parts[0], (struct done){done_empty, r});
}

static void done_gc(void *ctx, const struct err *e, const struct gc_item *items, size_t n)
{
	struct request *r = ctx;
	if (e) {
		request_fail(r, e);
		return;
	}
	struct listing l = list_begin(r, "items");
	for (size_t i = 0; i < n; i++) {
		jw_open(&l.w, '{');
		jw_kstr(&l.w, "what", items[i].what);
		jw_kstr(&l.w, "why", items[i].why);
		if (items[i].bytes)
			jw_ku64(&l.w, "bytes", items[i].bytes);
		jw_kbool(&l.w, "done", items[i].done);
		jw_close(&l.w, '}');
	}
	list_end(&l);
}

static void post_gc(struct request *r)
{
	static const char *const known[] = {"dry_run", NULL};
	struct err e;
	bool dry = false;
	if (json_only(r->json, known, &e) || json_get_bool(r->json, "dry_run", &dry, &e))
		request_fail(r, &e);
	else
		engine_gc(r->engine, dry, (struct gc_done){done_gc, r});
}

static void post_shutdown(struct request *r)
{
	if (!body_is_empty(r))
		return;
	server_shutdown(r->server);
	request_answer(r, 204);
}

static const struct route routes[] = {
	{"GET", "/v1/version", BODY_NONE, get_version, SEEN(SCOPE_READ)},
	{"GET", "/v1/openapi.json", BODY_NONE, get_openapi, SEEN(SCOPE_READ)},
	{"GET", "/v1/events", BODY_NONE, get_events, SEEN(SCOPE_READ)},
	{"GET", "/v1/tokens", BODY_NONE, get_tokens, SCOPE_ADMIN},
	{"POST", "/v1/tokens", BODY_JSON, post_token, SCOPE_ADMIN},
	{"DELETE", "/v1/tokens/{}", BODY_NONE, delete_token, SCOPE_ADMIN},
	{"GET", "/v1/listeners", BODY_NONE, get_listeners, SCOPE_ADMIN},
	{"POST", "/v1/listeners", BODY_JSON, post_listener, SCOPE_LOCAL},
	{"GET", "/v1/listeners/{}/hold", BODY_NONE, get_listener_hold, SCOPE_LOCAL},
	{"DELETE", "/v1/listeners/{}", BODY_NONE, delete_listener, SCOPE_LOCAL},
	{"POST", "/v1/sandboxes", BODY_JSON, post_sandbox, SEEN(SCOPE_RUN)},
	{"GET", "/v1/sandboxes", BODY_NONE, get_sandboxes, SEEN(SCOPE_READ)},
	{"GET", "/v1/sandboxes/{}", BODY_NONE, get_sandbox, SCOPE_READ},
	{"DELETE", "/v1/sandboxes/{}", BODY_NONE, delete_sandbox, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/start", BODY_JSON, post_start, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/stop", BODY_JSON, post_stop, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/pause", BODY_JSON, post_pause, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/resume", BODY_JSON, post_resume, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/pin", BODY_JSON, post_pin, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/unpin", BODY_JSON, post_unpin, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/execs", BODY_JSON, post_exec, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/execs", BODY_NONE, get_execs, SCOPE_READ},
	{"POST", "/v1/sandboxes/{}/jobs", BODY_JSON, post_job, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/token", BODY_NONE, get_sandbox_token, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/events", BODY_NONE, get_sandbox_events, SCOPE_READ},
	{"POST", "/v1/sandboxes/{}/dial", BODY_JSON, post_dial, SCOPE_LOCAL},
	{"POST", "/v1/sandboxes/{}/preview", BODY_JSON, post_preview, SCOPE_RUN},
	{"DELETE", "/v1/sandboxes/{}/preview", BODY_NONE, delete_preview, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/exec", BODY_JSON, post_exec_wait, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/exec/stream", BODY_JSON, post_exec_stream, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/exec/ws", BODY_NONE, get_sandbox_exec_ws, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/cell", BODY_NONE, get_cell_tunnel, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/connect", BODY_NONE, get_port_tunnel, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/files", BODY_NONE, get_file, SCOPE_READ},
	{"HEAD", "/v1/sandboxes/{}/files", BODY_NONE, get_file, SCOPE_READ},
	{"PUT", "/v1/sandboxes/{}/files", BODY_STREAM, put_file, SCOPE_RUN},
	{"DELETE", "/v1/sandboxes/{}/files", BODY_NONE, delete_file, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/files/tar", BODY_NONE, get_file_tar, SCOPE_READ},
	{"PUT", "/v1/sandboxes/{}/files/tar", BODY_STREAM, put_file_tar, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/files/list", BODY_NONE, get_file_list, SCOPE_READ},
	{"GET", "/v1/sandboxes/{}/files/stat", BODY_NONE, get_file_stat, SCOPE_READ},
	{"GET", "/v1/sandboxes/{}/files/watch", BODY_NONE, get_file_watch, SCOPE_READ},
	{"POST", "/v1/sandboxes/{}/files/mkdir", BODY_JSON, post_file_mkdir, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/files/move", BODY_JSON, post_file_move, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/files/copy", BODY_JSON, post_file_copy, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/files/remove", BODY_JSON, post_file_remove, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/files/search", BODY_JSON, post_file_search, SCOPE_READ},
	{"POST", "/v1/sandboxes/{}/files/edit", BODY_JSON, post_file_edit, SCOPE_RUN},
	{"GET", "/v1/sandboxes/{}/journal", BODY_NONE, get_journal, SCOPE_READ},
	{"GET", "/v1/sandboxes/{}/journal/verify", BODY_NONE, get_verify, SCOPE_READ},
	{"GET", "/v1/sandboxes/{}/policy", BODY_NONE, get_policy, SCOPE_READ},
	{"POST", "/v1/sandboxes/{}/policy", BODY_JSON, post_policy, SCOPE_ADMIN},
	{"POST", "/v1/sandboxes/{}/policy/explain", BODY_JSON, post_explain, SCOPE_READ},
	{"GET", "/v1/sandboxes/{}/asks", BODY_NONE, get_asks, SCOPE_READ},
	{"POST", "/v1/sandboxes/{}/answers", BODY_JSON, post_answer, SCOPE_ADMIN},
	{"POST", "/v1/sandboxes/{}/snapshots", BODY_JSON, post_snapshot, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/rollback", BODY_JSON, post_rollback, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/fork", BODY_JSON, post_fork, SCOPE_RUN},
	{"POST", "/v1/sandboxes/{}/diff", BODY_JSON, post_diff, SCOPE_READ},
	{"POST", "/v1/sandboxes/{}/apply", BODY_JSON, post_apply, SCOPE_REVIEW},
	{"POST", "/v1/sandboxes/{}/dismiss", BODY_JSON, post_dismiss, SCOPE_REVIEW},
	{"POST", "/v1/sandboxes/{}/undo", BODY_JSON, post_undo, SCOPE_REVIEW},
	{"POST", "/v1/sandboxes/{}/export", BODY_JSON, post_export, SCOPE_REVIEW},
	{"GET", "/v1/snapshots", BODY_NONE, get_snapshots, SEEN(SCOPE_READ)},
	{"GET", "/v1/snapshots/{}", BODY_NONE, get_snapshot, SCOPE_READ},
	{"DELETE", "/v1/snapshots/{}", BODY_NONE, delete_snapshot, SCOPE_RUN},
	{"GET", "/v1/journal", BODY_NONE, get_service_journal, SCOPE_ADMIN},
	{"GET", "/v1/journal/verify", BODY_NONE, get_verify, SCOPE_ADMIN},
	{"GET", "/v1/policy", BODY_NONE, get_rules, SCOPE_READ},
	{"POST", "/v1/policy", BODY_JSON, post_rules, SCOPE_ADMIN},
	{"POST", "/v1/policy/check", BODY_JSON, post_check, SCOPE_READ},
	{"GET", "/v1/secrets", BODY_NONE, get_secrets, SCOPE_READ},
	{"POST", "/v1/secrets", BODY_JSON, post_secret, SCOPE_ADMIN},
	{"DELETE", "/v1/secrets/{}", BODY_NONE, delete_secret, SCOPE_ADMIN},
	{"GET", "/v1/trust", BODY_NONE, get_trust, SCOPE_LOCAL},
	{"POST", "/v1/trust", BODY_JSON, post_trust, SCOPE_LOCAL},
	{"DELETE", "/v1/trust", BODY_NONE, delete_trust, SCOPE_LOCAL},
	{"GET", "/v1/execs", BODY_NONE, get_execs, SEEN(SCOPE_READ)},
	{"GET", "/v1/execs/{}", BODY_NONE, get_exec, SCOPE_READ},
	{"POST", "/v1/execs/{}/attach", BODY_JSON, post_attach, SCOPE_RUN},
	{"GET", "/v1/execs/{}/stream", BODY_NONE, get_exec_stream, SCOPE_READ},
	{"GET", "/v1/execs/{}/ws", BODY_NONE, get_exec_ws, SCOPE_RUN},
	{"POST", "/v1/execs/{}/stdin", BODY_BYTES, post_exec_stdin, SCOPE_RUN},
	{"POST", "/v1/execs/{}/resize", BODY_JSON, post_exec_resize, SCOPE_RUN},
	{"POST", "/v1/execs/{}/kill", BODY_JSON, post_kill, SCOPE_RUN},
	{"GET", "/v1/execs/{}/output", BODY_NONE, get_output, SCOPE_READ},
	{"GET", "/v1/images", BODY_NONE, get_images, SEEN(SCOPE_READ)},
	{"POST", "/v1/images", BODY_JSON, post_image, SCOPE_ADMIN},
	{"GET", "/v1/images/{}", BODY_NONE, get_image, SEEN(SCOPE_READ)},
	{"DELETE", "/v1/images/{}", BODY_NONE, delete_image, SCOPE_ADMIN},
	{"POST", "/v1/gc", BODY_JSON, post_gc, SCOPE_ADMIN},
	{"POST", "/v1/shutdown", BODY_JSON, post_shutdown, SCOPE_LOCAL},
	{0},
};

const struct surface native_api = {.name = "native", .routes = routes};

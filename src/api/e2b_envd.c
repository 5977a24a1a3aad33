// SPDX-License-Identifier: Apache-2.0
// The way in: which sandbox a request means, whether its caller may, whether it runs. Everything behind this is one of the
// calls of the table.
#include "api/e2b_envd.h"

#include "api/e2b_envd_int.h"
#include "api/e2b_files.h"
#include "api/e2b_metrics.h"
#include "base/base64.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void enter(struct request *r);

// --- the table ---

enum call_kind { CALL_RPC, CALL_STREAM, CALL_REST, CALL_FILE, CALL_OPEN }; // FILE: a signature is as good as the token

#define CALLS(X)                                                                     \
	X("POST", "/process.Process/Start", BODY_BYTES, process_start, CALL_STREAM)   \
	X("POST", "/process.Process/Connect", BODY_BYTES, process_connect, CALL_STREAM) \
	X("POST", "/process.Process/List", BODY_BYTES, process_list, CALL_RPC)        \
	X("POST", "/process.Process/SendInput", BODY_BYTES, process_send_input, CALL_RPC) \
	X("POST", "/process.Process/StreamInput", BODY_BYTES, process_stream_input, CALL_STREAM) \
	X("POST", "/process.Process/CloseStdin", BODY_BYTES, process_close_stdin, CALL_RPC) \
	X("POST", "/process.Process/SendSignal", BODY_BYTES, process_send_signal, CALL_RPC) \
	X("POST", "/process.Process/Update", BODY_BYTES, process_update, CALL_RPC)    \
	X("POST", "/filesystem.Filesystem/Stat", BODY_BYTES, filesystem_stat, CALL_RPC) \
	X("POST", "/filesystem.Filesystem/ListDir", BODY_BYTES, filesystem_list_dir, CALL_RPC) \
	X("POST", "/filesystem.Filesystem/MakeDir", BODY_BYTES, filesystem_make_dir, CALL_RPC) \
	X("POST", "/filesystem.Filesystem/Move", BODY_BYTES, filesystem_move, CALL_RPC) \
	X("POST", "/filesystem.Filesystem/Remove", BODY_BYTES, filesystem_remove, CALL_RPC) \
	X("POST", "/filesystem.Filesystem/WatchDir", BODY_BYTES, filesystem_watch_dir, CALL_STREAM) \
	X("POST", "/filesystem.Filesystem/CreateWatcher", BODY_BYTES, filesystem_create_watcher, CALL_RPC) \
	X("POST", "/filesystem.Filesystem/GetWatcherEvents", BODY_BYTES, filesystem_get_watcher_events, CALL_RPC) \
	X("POST", "/filesystem.Filesystem/RemoveWatcher", BODY_BYTES, filesystem_remove_watcher, CALL_RPC) \
	X("GET", "/files", BODY_NONE, files_get, CALL_FILE)                           \
	X("POST", "/files", BODY_STREAM, files_post, CALL_FILE)                       \
	X("POST", "/files/compose", BODY_JSON, files_compose, CALL_REST)              \
	X("GET", "/health", BODY_NONE, get_health, CALL_OPEN)                         \
	X("GET", "/envs", BODY_NONE, get_envs, CALL_REST)                             \
	X("GET", "/metrics", BODY_NONE, get_metrics, CALL_REST)

static void get_health(struct envd_call *c)
{
	envd_answer(c, 204);
}

static void get_envs(struct envd_call *c)
{
	const struct e2b_box *b = envd_box(c);
	struct jsonw w = {.b = &c->r->answer};
	jw_open(&w, '{');
	for (char **v = b ? b->env : NULL; v && *v; v++) {
		auto_free char *name = xstrndup(*v, strcspn(*v, "="));
		jw_kstr(&w, name, *v + strlen(name) + 1);
	}
	jw_close(&w, '}');
	envd_answer(c, 200);
}

static void on_metric(void *ctx, const struct e2b_metric *m)
{
	struct envd_call *c = ctx;
	struct jsonw w = {.b = &c->r->answer};
	if (!m) {
		envd_lost(c);
		return;
	}
	auto_buf struct buf percent = BUF_INIT(32);
	buf_fmt(&percent, "%.2f", m->cpu_pct);
	jw_open(&w, '{');
	jw_ku64(&w, "ts", m->at / 1000);
	jw_ku64(&w, "cpu_count", m->cpus);
	jw_key(&w, "cpu_used_pct");
	jw_raw(&w, percent.p);
	jw_ku64(&w, "mem_total", m->mem_total);
	jw_ku64(&w, "mem_used", m->mem);
	jw_ku64(&w, "mem_cache", 0);
	jw_ku64(&w, "mem_total_mib", m->mem_total >> 20);
	jw_ku64(&w, "mem_used_mib", m->mem >> 20);
	jw_ku64(&w, "disk_used", m->disk);
	jw_ku64(&w, "disk_total", m->disk_total);
	jw_close(&w, '}');
	envd_answer(c, 200);
}

static void get_metrics(struct envd_call *c)
{
	const struct e2b_box *b = envd_box(c);
	if (b)
		e2b_metrics_sample(c->g, b, on_metric, c);
	else
		envd_lost(c);
}

#define AS_ROUTE(m, p, b, f, k) {m, p, b, enter, SCOPE_OPEN},
#define AS_CALL(m, p, b, f, k) {f, k},
static const struct route routes[] = {CALLS(AS_ROUTE){0}};
static const struct {
	void (*fn)(struct envd_call *c);
	enum call_kind kind;
} calls[] = {CALLS(AS_CALL)};

static enum call_kind kind_of(const struct request *r)
{
	return r->route ? calls[r->route - routes].kind : CALL_REST;
}

static bool is_rpc(const struct request *r)
{
	enum call_kind k = kind_of(r);
	return k == CALL_RPC || k == CALL_STREAM;
}

// --- answers ---

void envd_call_free(struct envd_call *c)
{
	if (c->msg)
		json_decref(c->msg);
	free(c->user);
	free(c);
}

void envd_answer(struct envd_call *c, int status)
{
	struct request *r = c->r;
	envd_call_free(c);
	if (is_rpc(r))
		rpc_answer(r);
	else
		request_answer(r, status);
}

static void rest_error(struct request *r, int status, const char *message)
{
	struct jsonw w = {.b = &r->answer};
	buf_clear(&r->answer);
	jw_open(&w, '{');
	jw_ku64(&w, "code", (uint64_t)status);
	jw_kstr(&w, "message", message);
	jw_close(&w, '}');
	r->type = "application/json; charset=utf-8";
	request_answer(r, status);
}

static int rest_status(enum rpc_code code)
{
	switch (code) {
	case RPC_RESOURCE_EXHAUSTED:
		return 507; // what is full is the disk
	case RPC_UNAVAILABLE:
		return 502;
	default:
		return rpc_code_status(code);
	}
}

void envd_error(struct envd_call *c, enum rpc_code code, const char *message)
{
	struct request *r = c->r;
	envd_call_free(c);
	if (is_rpc(r))
		rpc_error(r, code, message);
	else
		rest_error(r, rest_status(code), message);
}

void envd_refuse(struct envd_call *c, int status, const char *message)
{
	struct request *r = c->r;
	envd_call_free(c);
	rest_error(r, status, message);
}

enum rpc_code envd_code_of(const struct err *e)
{
	return e->sys == EUSERS		       ? RPC_UNAUTHENTICATED
	       : e->sys == EEXIST	       ? RPC_ALREADY_EXISTS
	       : e->sys == ENOTDIR || e->sys == EISDIR ? RPC_INVALID_ARGUMENT
					       : rpc_code_of(e->kind);
}

void envd_fail(struct envd_call *c, const struct err *e)
{
	envd_error(c, envd_code_of(e), e->msg);
}

static void answer_lost(struct request *r, const char *id)
{
	struct jsonw w = {.b = &r->answer};
	buf_clear(&r->answer);
	jw_open(&w, '{');
	jw_kstr(&w, "sandboxId", id);
	jw_kstr(&w, "message", "The sandbox was not found");
	jw_ku64(&w, "code", 502);
	jw_close(&w, '}');
	r->type = NULL;
	request_answer(r, 502);
}

void envd_lost(struct envd_call *c)
{
	struct request *r = c->r;
	char id[ID_SIZE];
	memcpy(id, c->sandbox, sizeof id);
	envd_call_free(c);
	answer_lost(r, id);
}

// What the server itself refuses: no such path, a body that is too long.
static void on_fail(struct request *r, const struct err *e)
{
	if (r->route && is_rpc(r))
		rpc_error(r, rpc_code_of(e->kind), e->msg);
	else
		rest_error(r, e->kind == ERR_NOT_FOUND ? 404 : status_of(e), e->msg);
}

// --- who ---

// Of 49983-ID.anything. Owned, or NULL.
static char *id_of_host(const struct request *r)
{
	const char *host = request_header(r, "Host");
	size_t n = host ? strspn(host, "0123456789") : 0;
	if (n != 5 || strncmp(host, "49983-", 6))
		return NULL;
	size_t len = strspn(host + 6, "abcdefghijklmnopqrstuvwxyz0123456789");
	return len && host[6 + len] == '.' ? xstrndup(host + 6, len) : NULL;
}

static char *id_of(const struct request *r)
{
	const char *id = request_header(r, "E2b-Sandbox-Id"), *port = request_header(r, "E2b-Sandbox-Port");
	if (id)
		return !port || !strcmp(port, "49983") ? xstrdup(id) : NULL;
	return id_of_host(r);
}

static bool is_mine(const struct request *r)
{
	auto_free char *id = id_of(r);
	return id || (str_has_prefix(r->target, "/files?") && strstr(r->target, "signature="));
}

static bool may_enter(const struct request *r, const struct e2b_box *b)
{
	const char *token = request_header(r, "X-Access-Token");
	return !b->token[0] || (token && key_equal(b->token, token));
}

// Basic authorization names the user, without a password. False: malformed.
static bool user_of(struct envd_call *c, const struct e2b_box *b)
{
	const char *h = request_header(c->r, "Authorization"), *name = request_query(c->r, "username");
	auto_buf struct buf plain = BUF_INIT(1024);
	if (is_rpc(c->r) && h && !strncasecmp(h, "Basic ", 6)) {
		if (base64_decode(h + 6, strlen(h + 6), &plain) || strlen(buf_cstr(&plain)) != plain.n)
			return false;
		plain.p[strcspn(plain.p, ":")] = 0;
		name = plain.p;
	} else if (is_rpc(c->r)) {
		name = NULL;
	}
	c->user_is_default = !name || !*name || !strcmp(name, b->user);
	c->user = xstrdup(name && *name ? name : b->user);
	return true;
}

static void on_awake(void *ctx, struct e2b_box *b)
{
	struct envd_call *c = ctx;
	struct err e;
	if (!b) {
		envd_lost(c);
		return;
	}
	if (!user_of(c, b)) {
		envd_error(c, RPC_UNAUTHENTICATED, "the Authorization header is not Basic");
		return;
	}
	if (is_rpc(c->r) && calls[c->r->route - routes].fn != process_stream_input && !(c->msg = rpc_message(c->r, &e))) {
		envd_fail(c, &e);
		return;
	}
	c->fn(c);
}

static size_t not_yet(struct request *r, const char *p, size_t n)
{
	(void)r, (void)p, (void)n;
	return 0;
}

static const char *refused(struct request *r, enum call_kind kind, const struct e2b_box *b)
{
	if (kind == CALL_OPEN)
		return NULL;
	if (kind == CALL_FILE)
		return files_refused(r, b);
	return may_enter(r, b) ? NULL : "unauthorized access, please provide a valid access token or method signing if supported";
}

static void enter(struct request *r)
{
	auto_free char *id = id_of(r);
	enum call_kind kind = kind_of(r);
	const struct e2b_box *b = id ? e2b_box_get(r->engine, id) : kind == CALL_FILE ? files_box(r) : NULL;
	if (!b && !id && kind == CALL_FILE) {
		rest_error(r, 401, "invalid signature");
		return;
	}
	if (!b) {
		answer_lost(r, id ? id : "");
		return;
	}
	const char *why = refused(r, kind, b);
	if (why) {
		rest_error(r, 401, why);
		return;
	}
	if (r->route->body == BODY_STREAM)
		r->on_body = not_yet;
	struct envd_call *c = xcalloc(1, sizeof *c);
	*c = (struct envd_call){.r = r, .g = r->engine, .loop = request_loop(r), .fn = calls[r->route - routes].fn};
	memcpy(c->sandbox, b->id, sizeof c->sandbox);
	if (kind == CALL_OPEN) // whether it runs: an SDK asks that when a stream of a sandbox that was paused broke
		on_awake(c, e2b_is_running(r->engine, b) ? e2b_box_get(r->engine, c->sandbox) : NULL);
	else
		e2b_awake(r->engine, c->sandbox, on_awake, c);
}

const struct e2b_box *envd_box(const struct envd_call *c)
{
	return e2b_box_get(c->g, c->sandbox);
}

void envd_job(struct envd_call *c, const struct envd_job *j, struct job_done d)
{
	const char *argv[4 + countof(j->args)] = {"for", c->user, j->op};
	for (size_t i = 0; i < countof(j->args) && j->args[i]; i++)
		argv[3 + i] = j->args[i];
	engine_job(c->loop, c->g, &(struct job){.sandbox = c->sandbox, .argv = (char *const *)argv, .max = j->max}, d);
}

const struct surface e2b_envd = {.name = "envd", .routes = routes, .mine = is_mine, .any_parts = true, .fail = on_fail};

void e2b_envd_stop(void)
{
	processes_forget();
	watches_forget();
}

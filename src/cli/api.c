// SPDX-License-Identifier: Apache-2.0
#include "cli/api.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/build.h"
#include "cli/home.h"
#include "cli/line.h"
#include "cli/term.h"
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// A stopped daemon (SIGSTOP, a debugger) accepts connections and never answers.
static bool peer_is_stopped(int fd, pid_t *out)
{
	struct ucred peer;
	socklen_t n = sizeof peer;
	if (home_remote() || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) || peer.pid <= 0)
		return false;
	*out = peer.pid;
	return proc_is_stopped(peer.pid);
}

static const char *doing = "waiting for skepd"; // what a person reads meanwhile

static void show_wait(int fd, unsigned waited_ms)
{
	static const char off[] = "\r\033[K";
	struct err ignored;
	pid_t pid;
	bool term = isatty(STDERR_FILENO) && !term_is_dumb();
	auto_free char *on = waited_ms > HTTP_LONG_WAIT_MS ? xasprintf("%sskep: %s, %u s\xe2\x80\xa6", off, doing, waited_ms / 1000)
							   : xasprintf("skep: %s\xe2\x80\xa6", doing);
	if (waited_ms == HTTP_LONG_WAIT_MS) {
		if (peer_is_stopped(fd, &pid))
			dprintf(STDERR_FILENO, "%sskep: skepd (process %d) is stopped and does not answer: kill -CONT %d lets it go on\n",
				term ? off : "", (int)pid, (int)pid);
		return;
	}
	if (term && fs_write_all(STDERR_FILENO, waited_ms ? on : off, strlen(waited_ms ? on : off), &ignored))
		return;
}

void api_doing(const char *what)
{
	doing = what;
}

static int reopen(struct api *a, struct err *e)
{
	const char *token = NULL;
	uint64_t ignored;
	if (line_retry(&ignored, e) || (home_remote() && home_token(&token, e))) // before anything has begun
		return -1;
	int fd = home_connect_skepd(e);
	if (fd < 0)
		return -1;
	http_client_done(&a->http);
	http_client_init(&a->http, fd);
	a->http.host = home_remote();
	a->http.token = token;
	a->http.on_wait = show_wait;
	return 0;
}

int api_open(struct api *a, struct err *e)
{
	*a = API_CLOSED;
	return reopen(a, e);
}

void api_close(struct api *a)
{
	http_client_done(&a->http);
}

// What an older skepd does not understand it calls wrong, and what it does not have it calls absent.
static void blame_build(const struct api *a, struct err *e)
{
	pid_t other = e->kind == ERR_INVALID || e->kind == ERR_NOT_FOUND || e->kind == ERR_UNSUPPORTED ? build_of_other(a->http.fd) : 0;
	auto_free char *said = other ? xstrdup(e->msg) : NULL;
	if (other)
		err_set(e, e->kind, "%s; skepd (process %d) is of another build than this skep: kill %d ends it, the next skep starts its own, and what "
				    "runs in sandboxes goes on", said, (int)other, (int)other);
}

static int refused(const struct api *a, const struct http_reply *r, struct err *e)
{
	struct err ignored;
	auto_json json_t *j = json_read(r->body.n ? r->body.p : "", r->body.n, &ignored);
	const json_t *o = j ? json_object_get(j, "error") : NULL;
	if (!o)
		return err_set(e, ERR_SYSTEM, "skepd answered with status %d", r->head.status);
	err_set(e, err_kind_parse(json_str(o, "kind")), "%s", json_str(o, "message"));
	if (r->head.status == 401)
		err_set(e, ERR_DENIED, "%s: set SKEP_TOKEN (skep token new makes one, where skepd runs)", home_remote() ? home_remote() : "skepd");
	e->sys = !strcmp(json_str(o, "needs"), "registries") ? API_NEEDS_REGISTRIES : 0;
	blame_build(a, e);
	return -1;
}

// skepd may have been restarted, or have closed a connection that idled: a read is simply asked again.
static int call(struct api *a, const struct http_request *rq, struct http_reply *out, struct err *e)
{
	bool again = !strcmp(rq->method, "GET");
	if (a->http.fd < 0 && reopen(a, e))
		return -1;
	if (http_call(&a->http, rq, out, e)) {
		if (!again || e->kind != ERR_UNAVAILABLE || reopen(a, e) || http_call(&a->http, rq, out, e))
			return -1;
	}
	return out->head.status >= 300 ? refused(a, out, e) : 0;
}

static int call_simple(struct api *a, const char *method, const char *path, const char *body, struct http_reply *out,
		       struct err *e)
{
	struct http_request rq = {.method = method, .path = path, .body = body, .body_len = body ? strlen(body) : 0};
	return call(a, &rq, out, e);
}

json_t *api_json(struct api *a, const char *method, const char *path, const char *body, struct err *e)
{
	auto_http_reply struct http_reply r = {0};
	if (call_simple(a, method, path, body, &r, e))
		return NULL;
	return json_read(r.body.n ? r.body.p : "", r.body.n, e);
}

int api_do(struct api *a, const char *method, const char *path, const char *body, struct err *e)
{
	auto_http_reply struct http_reply r = {0};
	return call_simple(a, method, path, body, &r, e);
}

int api_raw(struct api *a, const char *path, const char *body, struct http_reply *out, struct err *e)
{
	struct http_request rq = {.method = "POST", .path = path, .body = body, .body_len = strlen(body), .reply_max = API_LONG};
	return call(a, &rq, out, e);
}

int api_lines(struct api *a, const char *path, const char *body, void (*on_piece)(void *ctx, struct buf *body), void *ctx, struct err *e)
{
	auto_http_reply struct http_reply r = {0};
	struct http_request rq = {.method = "POST", .path = path, .body = body, .body_len = strlen(body), .on_piece = on_piece, .ctx = ctx};
	a->http.on_wait = NULL; // the answer's own lines say what is going on
	return call(a, &rq, &r, e);
}

int api_bytes(struct api *a, const char *path, struct http_reply *out, struct err *e)
{
	return call_simple(a, "GET", path, NULL, out, e);
}

int api_put_file(struct api *a, const char *path, int fd, struct err *e)
{
	auto_http_reply struct http_reply r = {0};
	return call(a, &(struct http_request){.method = "PUT", .path = path, .body_fd = &fd}, &r, e);
}

int api_get_file(struct api *a, const char *path, int fd, struct err *e)
{
	auto_http_reply struct http_reply r = {0};
	return call(a, &(struct http_request){.method = "GET", .path = path, .reply_fd = &fd}, &r, e);
}

int api_journal(struct api *a, const char *id, unsigned wait_ms, uint64_t *at, struct http_reply *r, struct str *out, struct err *e)
{
	auto_free char *query = xasprintf("journal?offset=%llu&wait_ms=%u", (unsigned long long)*at, wait_ms);
	auto_free char *path = id ? api_path("/v1/sandboxes", id, query) : xasprintf("/v1/%s", query);
	if (api_bytes(a, path, r, e))
		return -1;
	const char *last = r->body.n ? memrchr(r->body.p, '\n', r->body.n) : NULL;
	if (!last)
		return 0;
	*out = (struct str){r->body.p, (size_t)(last - r->body.p)};
	*at += out->n + 1;
	return 1;
}

char *api_path(const char *prefix, const char *id, const char *suffix)
{
	auto_buf struct buf b = BUF_INIT(64 << 10);
	buf_fmt(&b, "%s/", prefix);
	http_encode(&b, id);
	if (suffix)
		buf_fmt(&b, "/%s", suffix);
	return buf_take(&b);
}

static bool is_at_or_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);
	return *dir && str_has_prefix(path, dir) && (!path[n] || path[n] == '/');
}

const char *api_pick(const json_t *boxes, const char *cwd, bool clean_too)
{
	size_t i;
	json_t *s;
	json_array_foreach(boxes, i, s)
	{
		const json_t *pending = json_object_get(s, "pending");
		bool clean = json_is_integer(pending) && !json_integer_value(pending);
		if ((!clean || clean_too) && is_at_or_below(cwd, json_str(s, "repo")))
			return json_str(s, "id");
	}
	return NULL;
}

static char *id_of_directory(struct api *a, bool clean_too, struct err *e)
{
	if (home_remote()) {
		err_set(e, ERR_INVALID, "name a sandbox: this directory is not on the machine of SKEP_HOST (skep ps lists them)");
		return NULL;
	}
	auto_free char *cwd = getcwd(NULL, 0);
	auto_json json_t *j = api_json(a, "GET", "/v1/sandboxes", NULL, e);
	if (!j)
		return NULL;
	const json_t *boxes = json_object_get(j, "sandboxes");
	const char *id = cwd ? api_pick(boxes, cwd, false) : NULL;
	if (!id && cwd && clean_too)
		id = api_pick(boxes, cwd, true);
	if (id)
		return xstrdup(id);
	err_set(e, ERR_NOT_FOUND, "no sandbox of this directory %s (name one; skep ps lists them)", clean_too ? "is there" : "has pending changes");
	return NULL;
}

char *api_default_id(struct api *a, struct err *e)
{
	return id_of_directory(a, false, e);
}

char *api_newest_id(struct api *a, struct err *e)
{
	return id_of_directory(a, true, e);
}

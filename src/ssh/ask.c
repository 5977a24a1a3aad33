// SPDX-License-Identifier: Apache-2.0
// Requests to skepd: by its socket here, through skep where the sandbox is another machine's.
#include "base/base64.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/client.h"
#include "model/limits.h"
#include "model/msg.h"
#include "ssh/ssh_int.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BODY_MAX (2 * LIMIT_ARGV)

int ask_connect(const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	if (*path != '/')
		return err_set(e, ERR_INVALID, "%s is no absolute path", path);
	auto_free char *dir = xstrndup(path, (size_t)(slash - path) + 1);
	auto_fd int at = fs_open(AT_FDCWD, dir, O_PATH | O_DIRECTORY, 0, e);
	return at < 0 ? -1 : fs_unix_connect(at, slash + 1, e); // by its directory: the kernel takes 108 bytes
}

void ask_ticket_done(struct ask_ticket *t)
{
	free(t->socket);
	free(t->ticket);
	*t = (struct ask_ticket){0};
}

static int refused(const struct http_reply *r, const json_t *answer, struct err *e)
{
	const json_t *o = json_object_get(answer, "error");
	if (!o)
		return err_set(e, ERR_SYSTEM, "skepd answered with status %d", r->head.status);
	return err_set(e, err_kind_parse(json_str(o, "kind")), "%s", json_str(o, "message"));
}

static int take_ticket(const json_t *answer, struct ask_ticket *out, struct err *e)
{
	const json_t *attach = json_object_get(answer, "attach") ? json_object_get(answer, "attach") : answer;
	if (*json_str(attach, "socket") != '/')
		return err_set(e, ERR_BUG, "skepd named no socket");
	*out = (struct ask_ticket){xstrdup(json_str(attach, "socket")), xstrdup(json_str(attach, "ticket"))};
	return 0;
}

// A connection for each request: skepd may have been started anew since the last one.
static int post_here(struct server *s, const char *what, struct buf *body, struct ask_ticket *out, struct err *e)
{
	auto_buf struct buf path = BUF_INIT(4096);
	auto_http_reply struct http_reply r = {0};
	struct http_client c;
	buf_str(&path, "/v1/sandboxes/");
	http_encode(&path, s->args->sandbox);
	buf_fmt(&path, "/%s", what);
	int fd = ask_connect(s->args->socket, e);
	if (fd < 0)
		return err_set(e, ERR_UNAVAILABLE, "skepd does not answer (any skep command starts it again)");
	http_client_init(&c, fd);
	struct http_request rq = {.method = "POST", .path = buf_cstr(&path), .body = buf_cstr(body), .body_len = body->n};
	int rc = http_call(&c, &rq, &r, e);
	http_client_done(&c);
	if (rc)
		return -1;
	auto_json json_t *answer = json_read(r.body.n ? r.body.p : "", r.body.n, e);
	if (!answer || r.head.status >= 300)
		return refused(&r, answer, e);
	return take_ticket(answer, out, e);
}

// --- of another machine: skep asks, with its token, and for this sandbox alone ---

bool ask_is_far(const struct server *s)
{
	return s->args->asks >= 0;
}

static int answer_of(struct server *s, struct frame *f, struct err *e)
{
	if (chan_recv(&s->dials, f, e)) {
		chan_close(&s->dials);
		return err_set(e, ERR_UNAVAILABLE, "skep, which asks for this connection, has ended");
	}
	if (f->type == M_OK)
		return 0;
	struct wire w = {.p = f->p, .n = f->n};
	uint32_t kind = wire_get_u32(&w);
	(void)wire_get_u32(&w);
	auto_free char *msg = wire_get_str(&w);
	return err_set(e, kind && kind < ERR_KINDS ? (enum err_kind)kind : ERR_SYSTEM, "%s", msg ? msg : "skep refused");
}

static int post_far(struct server *s, bool job, const struct buf *body, struct ask_ticket *out, struct err *e)
{
	struct frame f;
	chan_send(&s->dials, M_POST, job, 0, body->p, body->n);
	if (answer_of(s, &f, e))
		return -1;
	auto_json json_t *answer = json_read((const char *)f.p, f.n, e);
	return answer ? take_ticket(answer, out, e) : -1;
}

int ask_attach(struct server *s, const struct ask_ticket *t, struct err *e)
{
	struct frame f;
	if (!ask_is_far(s))
		return ask_connect(t->socket, e);
	chan_send(&s->dials, M_LINE, 0, 0, NULL, 0);
	if (answer_of(s, &f, e))
		return -1;
	return f.fd >= 0 ? take_fd(&f.fd) : err_set(e, ERR_BUG, "skep gave no connection");
}

static void put_argv(struct jsonw *w, char *const *argv)
{
	bool utf8 = true;
	for (char *const *a = argv; *a; a++)
		utf8 &= str_is_utf8(*a, strlen(*a));
	jw_key(w, utf8 ? "argv" : "argv_b64");
	jw_open(w, '[');
	for (char *const *a = argv; *a; a++) {
		auto_buf struct buf b64 = BUF_INIT(BODY_MAX);
		if (!utf8)
			base64_add(&b64, *a, strlen(*a));
		const char *text = utf8 ? *a : buf_cstr(&b64);
		jw_str(w, text, strlen(text));
	}
	jw_close(w, ']');
}

static mode_t our_umask(void)
{
	mode_t m = umask(077);
	umask(m);
	return m;
}

static void put_command(struct jsonw *w, const struct ask_exec *x)
{
	if (x->tty) {
		jw_kbool(w, "tty", true);
		jw_ku64(w, "rows", x->rows);
		jw_ku64(w, "cols", x->cols);
	}
	jw_kstr(w, "cwd", x->cwd);
	jw_kbool(w, "stdin", true);
	jw_ku64(w, "umask", our_umask());
	if (x->env)
		jw_kstrv(w, "caller_env", x->env);
}

int ask_exec(struct server *s, const struct ask_exec *x, struct ask_ticket *out, struct err *e)
{
	auto_buf struct buf body = BUF_INIT(BODY_MAX);
	struct jsonw w = {.b = &body};
	jw_open(&w, '{');
	put_argv(&w, x->argv);
	if (*s->user)
		jw_kstr(&w, "user", s->user);
	if (x->job)
		jw_kbool(&w, "want_stdin", true);
	else
		put_command(&w, x);
	jw_close(&w, '}');
	if (body.overflow)
		return err_set(e, ERR_LIMIT, "the command is too long");
	return ask_is_far(s) ? post_far(s, x->job, &body, out, e) : post_here(s, x->job ? "jobs" : "execs", &body, out, e);
}

int ask_dial(struct server *s, struct ask_ticket *out, struct err *e)
{
	auto_buf struct buf body = BUF_INIT(8);
	buf_str(&body, "{}");
	return post_here(s, "dial", &body, out, e);
}

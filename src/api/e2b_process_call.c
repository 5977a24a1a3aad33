// SPDX-License-Identifier: Apache-2.0
// process.Process: what is asked of processes, decoded.
#include "api/e2b_process_int.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/limits.h"
#include <stdlib.h>
#include <string.h>

// --- which one ---

static void not_found(struct envd_call *c, uint32_t pid, const char *tag)
{
	auto_free char *why = tag ? xasprintf("process with tag '%.100s' not found", tag)
				  : xasprintf("process with pid %u not found", pid);
	envd_error(c, RPC_NOT_FOUND, why);
}

struct adoption {
	struct envd_call *c;
	void (*then)(struct envd_call *c, struct process *p);
	struct exec_row row;
};

static char *config_text(char *const *argv, const json_t *envs, const char *cwd)
{
	struct buf b = BUF_INIT(LIMIT_ARGV * 2);
	struct jsonw w = {.b = &b};
	const char *key;
	json_t *v;
	jw_open(&w, '{');
	jw_kstr(&w, "cmd", argv[0]);
	jw_kstrv(&w, "args", argv + 1);
	jw_key(&w, "envs");
	jw_open(&w, '{');
	json_object_foreach(envs, key, v)
		jw_kstr(&w, key, json_string_value(v));
	jw_close(&w, '}');
	jw_kstr(&w, "cwd", cwd);
	jw_close(&w, '}');
	if (!b.overflow)
		return buf_take(&b);
	buf_done(&b);
	return xstrdup("{}");
}

static void on_adopted(void *ctx, const struct err *e, const struct outcome *o)
{
	struct adoption *a = ctx;
	struct err te;
	struct process *p = e ? NULL : process_by_exec(a->row.id); // somebody else was faster
	if (!e && !p)
		p = process_add(&(struct process_new){.g = a->c->g, .loop = a->c->loop, .sandbox = a->c->sandbox, .exec = &a->row,
						      .ticket = o->ticket, .config = config_text(a->row.argv, NULL, a->row.cwd),
						      .tty = a->row.tty, .has_stdin = true, .later = true},
				&te);
	if (p)
		a->then(a->c, p);
	else
		not_found(a->c, a->row.pid, NULL); // it has ended meanwhile
	exec_row_done(&a->row);
	free(a);
}

struct search {
	uint32_t pid;
	char exec[ID_SIZE];
};

static void look_for_pid(void *ctx, const struct exec_row *x)
{
	struct search *s = ctx;
	if (x->running && x->pid == s->pid)
		memcpy(s->exec, x->id, sizeof s->exec);
}

// One that an earlier daemon, or another surface, started.
static bool adopt(struct envd_call *c, uint32_t pid, void (*then)(struct envd_call *c, struct process *p))
{
	struct search s = {.pid = pid};
	struct err e;
	struct adoption *a = xcalloc(1, sizeof *a);
	if (!pid || engine_execs(c->g, c->sandbox, look_for_pid, &s, &e) || !s.exec[0] ||
	    engine_exec_get(c->g, s.exec, &a->row, &e)) {
		free(a);
		return false;
	}
	a->c = c;
	a->then = then;
	engine_attach(c->g, s.exec, (struct done){on_adopted, a});
	return true;
}

void process_with(struct envd_call *c, const json_t *sel, void (*then)(struct envd_call *c, struct process *p))
{
	uint32_t pid = 0;
	const char *tag = NULL;
	struct err e;
	if (proto_u32(sel, "pid", &pid, &e) || proto_str(sel, "tag", &tag, &e)) {
		envd_fail(c, &e);
		return;
	}
	struct process *p = tag ? process_by_tag(c->sandbox, tag) : process_by_pid(c->sandbox, pid);
	if (p)
		then(c, p);
	else if (tag || !adopt(c, pid, then))
		not_found(c, pid, tag);
}

static void with_live(struct envd_call *c, void (*then)(struct envd_call *c, struct process *p))
{
	process_with(c, proto_get(c->msg, "process"), then);
}

// --- Start ---

struct start {
	struct envd_call *c;
	struct exec_request x;
	char *config, *tag;
};

static void start_free(struct start *s)
{
	exec_request_done(&s->x);
	free(s->config);
	free(s->tag);
	free(s);
}

static void put_env(char ***env, const char *name, const char *value)
{
	auto_free char *kv = xasprintf("%s=%s", name, value);
	strv_add(env, kv);
}

static int decode_config(struct start *s, const json_t *process, struct err *e)
{
	const json_t *args = proto_get(process, "args"), *envs = proto_get(process, "envs");
	const char *cmd, *cwd, *key;
	size_t i;
	json_t *v;
	if (proto_str(process, "cmd", &cmd, e) || proto_str(process, "cwd", &cwd, e))
		return -1;
	if (!cmd || !*cmd)
		return err_set(e, ERR_INVALID, "process.cmd is missing");
	strv_add(&s->x.argv, cmd);
	json_array_foreach(args, i, v) {
		if (!json_is_string(v))
			return err_set(e, ERR_INVALID, "args must be strings");
		strv_add(&s->x.argv, json_string_value(v));
	}
	json_object_foreach(envs, key, v) {
		if (!json_is_string(v))
			return err_set(e, ERR_INVALID, "envs must be strings");
		put_env(&s->x.env, key, json_string_value(v));
	}
	s->config = config_text(s->x.argv, envs, cwd);
	if (cwd)
		s->x.cwd = xstrdup(cwd);
	return 0;
}

static int decode_size(const json_t *pty, uint32_t *rows, uint32_t *cols, struct err *e)
{
	const json_t *size = proto_get(pty, "size");
	if (proto_u32(size, "rows", rows, e) || proto_u32(size, "cols", cols, e))
		return -1;
	return *rows > UINT16_MAX || *cols > UINT16_MAX ? err_set(e, ERR_INVALID, "the terminal is too large") : 0;
}

static int decode_start(struct start *s, struct err *e)
{
	const json_t *m = s->c->msg, *pty = proto_get(m, "pty");
	const struct e2b_box *b = envd_box(s->c);
	const char *tag;
	bool in = true;
	for (char **v = b ? b->env : NULL; v && *v; v++)
		strv_add(&s->x.env, *v);
	if (decode_config(s, proto_get(m, "process"), e) || proto_str(m, "tag", &tag, e) || proto_bool(m, "stdin", &in, e))
		return -1;
	s->tag = tag ? xstrdup(tag) : NULL;
	s->x.tty = pty;
	s->x.whole = true;
	s->x.want_stdin = in;
	s->x.rows = 24, s->x.cols = 80;
	return pty ? decode_size(pty, &s->x.rows, &s->x.cols, e) : 0;
}

static void on_failed(void *ctx, const char *why)
{
	struct envd_call *c = ctx;
	envd_error(c, RPC_INVALID_ARGUMENT, why);
}

static void on_started(void *ctx, const struct err *e, const struct outcome *o)
{
	struct start *s = ctx;
	struct envd_call *c = s->c;
	struct err te;
	struct process *p = NULL;
	if (e)
		te = *e;
	else
		p = process_add(&(struct process_new){.g = c->g, .loop = c->loop, .sandbox = c->sandbox, .exec = o->exec,
						      .ticket = o->ticket, .config = take(&s->config), .tag = take(&s->tag),
						      .tty = s->x.tty, .has_stdin = s->x.want_stdin && !s->x.tty},
				&te);
	start_free(s);
	if (!p) {
		envd_fail(c, &te);
	} else if (!o->exec->pid) {
		process_on_failed(p, on_failed, c);
	} else {
		struct request *r = c->r;
		envd_call_free(c);
		process_subscribe(p, r, true);
	}
}

static void begin(struct start *s, const char *home)
{
	struct envd_call *c = s->c;
	struct exec_request x = s->x;
	char **asked = x.env;
	s->x = (struct exec_request){.tty = x.tty, .want_stdin = x.want_stdin};
	x.env = NULL;
	put_env(&x.env, "HOME", home);
	put_env(&x.env, "USER", c->user);
	put_env(&x.env, "LOGNAME", c->user);
	for (char **v = asked; v && *v; v++)
		strv_add(&x.env, *v); // what comes later wins
	strv_free(asked);
	x.user = xstrdup(c->user);
	x.has_umask = x.has_timeout = true;
	x.umask_bits = 022;
	x.timeout_ms = rpc_timeout_ms(c->r);
	engine_exec(c->g, c->sandbox, &x, (struct done){on_started, s});
}

static void on_home(void *ctx, const struct err *e, struct buf *out)
{
	struct start *s = ctx;
	struct wire w = {.p = out ? (const uint8_t *)out->p : NULL, .n = out ? out->n : 0};
	if (e) {
		struct envd_call *c = s->c;
		start_free(s);
		if (envd_code_of(e) == RPC_UNAUTHENTICATED)
			envd_fail(c, e);
		else
			envd_error(c, RPC_INVALID_ARGUMENT, e->msg);
		return;
	}
	auto_free char *home = wire_get_str(&w), *cwd = wire_get_str(&w);
	free(s->x.cwd);
	s->x.cwd = cwd ? take(&cwd) : NULL;
	begin(s, home ? home : "/");
}

void process_start(struct envd_call *c)
{
	struct err e;
	struct start *s = xcalloc(1, sizeof *s);
	const struct e2b_box *b = envd_box(c);
	s->c = c;
	if (decode_start(s, &e)) {
		start_free(s);
		envd_fail(c, &e);
		return;
	}
	// Who it is and where that is, is known inside.
	if (!s->x.cwd && b && c->user_is_default)
		s->x.cwd = xstrdup(b->workdir);
	struct envd_job j = {.op = "home", .args = {s->x.cwd ? s->x.cwd : ""}, .max = 16 << 10};
	static const char *const marks[] = {"E2B_SANDBOX=", "E2B_SANDBOX_ID=", "E2B_TEMPLATE_ID="};
	for (size_t i = 0, n = 1; i < countof(marks); i++, n += j.args[n] != NULL)
		for (char **v = b ? b->env : NULL; v && *v; v++)
			j.args[n] = str_has_prefix(*v, marks[i]) ? *v : j.args[n]; // the last of a name counts
	envd_job(c, &j, (struct job_done){on_home, s});
}

// --- the others ---

static void connect_to(struct envd_call *c, struct process *p)
{
	struct request *r = c->r;
	envd_call_free(c);
	process_subscribe(p, r, false);
}

void process_connect(struct envd_call *c)
{
	with_live(c, connect_to);
}

struct listing {
	struct jsonw w;
};

static void list_known(void *ctx, const struct process *p)
{
	struct listing *l = ctx;
	process_write_info(&l->w, p);
}

static void list_row(void *ctx, const struct exec_row *x)
{
	struct listing *l = ctx;
	if (!x->running || !x->pid || process_by_exec(x->id))
		return;
	auto_free char *config = config_text(x->argv, NULL, x->cwd);
	jw_open(&l->w, '{');
	jw_key(&l->w, "config");
	jw_raw(&l->w, config);
	jw_ku64(&l->w, "pid", x->pid);
	jw_close(&l->w, '}');
}

void process_list(struct envd_call *c)
{
	struct listing l = {.w.b = &c->r->answer};
	struct err e;
	jw_open(&l.w, '{');
	jw_key(&l.w, "processes");
	jw_open(&l.w, '[');
	process_each(c->sandbox, list_known, &l);
	int rc = engine_execs(c->g, c->sandbox, list_row, &l, &e);
	jw_close(&l.w, ']');
	jw_close(&l.w, '}');
	if (rc)
		envd_fail(c, &e);
	else
		envd_answer(c, 200);
}

bool process_gone(struct envd_call *c, const struct process *p)
{
	if (!process_has_ended(p))
		return false;
	not_found(c, process_pid(p), NULL);
	return true;
}

static void on_killed(void *ctx)
{
	envd_answer(ctx, 200);
}

static void send_signal(struct envd_call *c, struct process *p)
{
	const json_t *v = proto_get(c->msg, "signal");
	const char *name = json_is_string(v) ? json_string_value(v) : "";
	int64_t n = json_is_integer(v) ? json_integer_value(v) : 0;
	if (process_gone(c, p))
		return;
	if (!strcmp(name, "SIGNAL_SIGKILL") || n == 9) {
		process_kill(p, on_killed, c);
	} else if (!strcmp(name, "SIGNAL_SIGTERM") || n == 15) {
		process_term(p);
		envd_answer(c, 200);
	} else {
		envd_error(c, RPC_UNIMPLEMENTED, "invalid signal: SIGNAL_SIGKILL and SIGNAL_SIGTERM can be sent");
	}
}

void process_send_signal(struct envd_call *c)
{
	with_live(c, send_signal);
}

static void update(struct envd_call *c, struct process *p)
{
	const json_t *pty = proto_get(c->msg, "pty");
	uint32_t rows = 24, cols = 80;
	struct err e;
	if (process_gone(c, p))
		return;
	if (pty && !process_is_tty(p)) {
		envd_error(c, RPC_INTERNAL, "tty not assigned to process");
		return;
	}
	if (pty && decode_size(pty, &rows, &cols, &e)) {
		envd_fail(c, &e);
		return;
	}
	if (pty)
		process_resize(p, rows, cols);
	envd_answer(c, 200);
}

void process_update(struct envd_call *c)
{
	with_live(c, update);
}

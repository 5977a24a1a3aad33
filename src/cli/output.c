// SPDX-License-Identifier: Apache-2.0
// An exec that runs or ran: attach to it, read what it wrote, send it a signal.
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/api.h"
#include "cli/out.h"
#include "cli/plain.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct attach_opts {
	uint64_t offset;
	bool no_stdin;
};

struct logs_opts {
	bool follow, raw;
	const char *stream;
};

static const struct opt attach_opts[] = {
	VALUE(OPT_COUNT, AT(struct attach_opts, offset), "offset", 0, "N", "start at byte N of stdout (default 0)"),
	FLAG(AT(struct attach_opts, no_stdin), "no-stdin", 0, "only watch"),
	OPTS_END,
};

static const struct opt logs_opts[] = {
	FLAG(AT(struct logs_opts, follow), "follow", 'f', "go on until the exec ends"),
	CHOICE(AT(struct logs_opts, stream), "stream", 0, "S", "only this one", "stdout|stderr"),
	FLAG(AT(struct logs_opts, raw), "raw", 0, "byte for byte also on a terminal, which then obeys what it says"),
	OPTS_END,
};

static uint64_t header_u64(const struct http_reply *r, const char *name, uint64_t otherwise)
{
	uint64_t v;
	struct str s = http_head_get(&r->head, name);
	return s.p && !str_to_u64(s, 0, UINT64_MAX, &v) ? v : otherwise;
}

static void mark_gap(const char *stream, uint64_t bytes)
{
	auto_buf struct buf b = BUF_INIT(256);
	buf_fmt(&b, "skep: [%llu bytes of %s were not kept]\n", (unsigned long long)bytes, stream);
	out_stderr(&b);
}

// NULL: it ends here. On a terminal what steers it is shown and not obeyed.
static int put_bytes(struct plain *p, int fd, const char *bytes, size_t n, struct err *e)
{
	if (!p)
		return fs_write_all(fd, bytes, n, e);
	auto_buf struct buf b = BUF_INIT(5 * n + 256);
	if (bytes)
		plain_add(p, bytes, n, &b);
	else
		plain_end(p, &b);
	return fs_write_all(fd, b.p, b.n, e);
}

// What was kept of one stream, in answers of bounded size.
static int copy_stream(struct api *a, const char *id, const char *stream, int fd, struct plain *plain, struct err *e)
{
	for (uint64_t at = 0;;) {
		auto_http_reply struct http_reply r = {0};
		auto_free char *query = xasprintf("output?stream=%s&offset=%llu", stream, (unsigned long long)at);
		auto_free char *path = api_path("/v1/execs", id, query);
		if (api_bytes(a, path, &r, e))
			return -1;
		uint64_t from = header_u64(&r, "X-Skep-Offset", at);
		if (from > at)
			mark_gap(stream, from - at);
		if (put_bytes(plain, fd, r.body.p, r.body.n, e))
			return -1;
		at = from + r.body.n;
		if (!r.body.n || at >= header_u64(&r, "X-Skep-End", at))
			return plain ? put_bytes(plain, fd, NULL, 0, e) : 0;
	}
}

static int copy_streams(struct api *a, const char *id, const struct logs_opts *o, struct err *e)
{
	static const char *const names[] = {"stdout", "stderr"};
	for (int i = 0; i < 2; i++) {
		struct plain plain = {0};
		if (o->stream && strcmp(o->stream, names[i]))
			continue;
		if (copy_stream(a, id, names[i], i + 1, isatty(i + 1) && !o->raw ? &plain : NULL, e))
			return -1;
	}
	return 0;
}

// The exec as skepd knows it; and where to attach, or NULL with CONFLICT when its cell is gone.
static json_t *ask_attach(struct api *a, const char *id, json_t **out_exec, struct err *e)
{
	auto_free char *path = api_path("/v1/execs", id, NULL), *attach = api_path("/v1/execs", id, "attach");
	*out_exec = api_json(a, "GET", path, NULL, e);
	return *out_exec ? api_json(a, "POST", attach, "{}", e) : NULL;
}

// Its cell is gone: what was kept, and how it ended.
static int replay(const struct call *c, struct api *a, const json_t *exec)
{
	struct err e;
	if (copy_streams(a, c->words[0], &(struct logs_opts){0}, &e))
		return out_fail(c, &e);
	return (int)json_u64(exec, "status");
}

static int attach_run(const struct call *c)
{
	const struct attach_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	auto_json json_t *exec = NULL;
	auto_json json_t *j = api_open(&a, &e) ? NULL : ask_attach(&a, c->words[0], &exec, &e);
	if (!j && exec && e.kind == ERR_CONFLICT)
		return replay(c, &a, exec);
	if (!j)
		return out_fail(c, &e);
	api_close(&a);
	struct pump_result r;
	struct pump_spec spec = {
		.in = o->no_stdin ? -1 : 0,
		.out = 1,
		.err = 2,
		.join = true,
		.tty = json_is_true(json_object_get(exec, "tty")) && !o->no_stdin,
		.out_from = o->offset == OPT_UNSET ? 0 : o->offset,
	};
	int status = session_run(c, j, spec, &r);
	pump_result_done(&r);
	return status;
}

// Output of a living exec comes from its cell; of an ended one from what was kept.
static int follow(const struct call *c, struct api *a, struct err *e)
{
	const struct logs_opts *o = c->opts;
	auto_json json_t *exec = NULL;
	auto_json json_t *j = ask_attach(a, c->words[0], &exec, e);
	if (!j)
		return e->kind == ERR_CONFLICT ? copy_streams(a, c->words[0], o, e) : -1;
	struct pump_result r;
	struct pump_spec spec = {
		.in = -1,
		.plain = !o->raw,
		.join = true,
		.out = o->stream && strcmp(o->stream, "stdout") ? -1 : 1,
		.err = o->stream && strcmp(o->stream, "stderr") ? -1 : 2,
	};
	spec.socket = json_str(j, "socket");
	spec.ticket = json_str(j, "ticket");
	spec.exec = json_str(j, "exec");
	int rc = pump_run(&spec, &r, e);
	if (!rc)
		pump_result_done(&r);
	return rc;
}

static int logs_run(const struct call *c)
{
	const struct logs_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	if (api_open(&a, &e) || (o->follow ? follow(c, &a, &e) : copy_streams(&a, c->words[0], o, &e)))
		return out_fail(c, &e);
	return 0;
}

static const struct {
	const char *name;
	int number;
} signals[] = {
	{"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"ABRT", SIGABRT}, {"KILL", SIGKILL},
	{"USR1", SIGUSR1}, {"SEGV", SIGSEGV}, {"USR2", SIGUSR2}, {"PIPE", SIGPIPE}, {"ALRM", SIGALRM},
	{"TERM", SIGTERM}, {"CONT", SIGCONT}, {"STOP", SIGSTOP}, {"TSTP", SIGTSTP}, {"WINCH", SIGWINCH},
};

static int signal_of(const char *s, struct err *e)
{
	uint64_t n;
	if (!str_to_u64(str_of(s), 1, 64, &n))
		return (int)n;
	const char *bare = strncasecmp(s, "SIG", 3) ? s : s + 3;
	for (size_t i = 0; i < countof(signals); i++)
		if (!strcasecmp(bare, signals[i].name))
			return signals[i].number;
	return err_set(e, ERR_INVALID, "unknown signal %s (a number, or TERM, KILL, INT, HUP ...)", s);
}

static int kill_run(const struct call *c)
{
	struct err e;
	auto_api struct api a = API_CLOSED;
	int sig = c->n_words > 1 ? signal_of(c->words[1], &e) : SIGTERM;
	auto_free char *path = api_path("/v1/execs", c->words[0], "kill"), *body = xasprintf("{\"signal\":%d}", sig);
	if (sig < 0 || api_open(&a, &e) || api_do(&a, "POST", path, body, &e))
		return out_fail(c, &e);
	return 0;
}

const struct cmd cmd_attach = {
	.name = "attach",
	.args = "EXEC",
	.help = "attach to a running exec",
	.notes =
		"Shows its output from the start of what was kept and passes stdin on. The exit status is the exec's.\n"
		"Ending skep attach leaves the exec alone; skep kill ends it.",
	.opts = attach_opts,
	.opts_size = sizeof(struct attach_opts),
	.min_words = 1,
	.max_words = 1,
	.tail = 1,
	.hint = HINT_EXEC,
	.run = attach_run,
};

const struct cmd cmd_logs = {
	.name = "logs",
	.args = "EXEC",
	.help = "print what an exec wrote",
	.notes = "On a terminal colours stay; whatever else would steer it is shown and not obeyed.",
	.opts = logs_opts,
	.opts_size = sizeof(struct logs_opts),
	.min_words = 1,
	.max_words = 1,
	.tail = -1,
	.hint = HINT_EXEC,
	.run = logs_run,
};

const struct cmd cmd_kill = {
	.name = "kill",
	.args = "EXEC [SIGNAL]",
	.help = "send a signal to an exec and all it started (default TERM)",
	.min_words = 1,
	.max_words = 2,
	.tail = -1,
	.hint = HINT_EXEC,
	.run = kill_run,
};

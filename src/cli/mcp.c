// SPDX-License-Identifier: Apache-2.0
// mcp: the Model Context Protocol on stdin and stdout, a message a line. Every request goes to skepd's /mcp and every answer
// comes back from there; here are only the two ends, cancelled requests, and the sandbox of --new.
#include "base/fs.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "cli/api.h"
#include "cli/flight.h"
#include "cli/home.h"
#include "cli/out.h"
#include "cli/request.h"
#include "cli/verbs.h"
#include "model/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (64u << 10)
#define LAST_MS 1000 // for answers that are under way when stdin ends

struct mcp_opts {
	struct create_opts create; // first: its rows have their offsets
	const char *sandbox;
	bool make;
};

#define MCP_AT(member) offsetof(struct mcp_opts, member)
static const struct opt mcp_opts[] = {
	HINTED(OPT_STR, HINT_SANDBOX, MCP_AT(sandbox), "sandbox", 0, "ID", "work on this sandbox, and on no other"),
	FLAG(MCP_AT(make), "new", 0, "work on a new sandbox on the current directory, and on no other"),
	CREATE_ROWS,
	FLAG(CREATE_AT(keep), "keep", 0, "keep the one of --new afterwards, even unchanged"),
	OPTS_END,
};

struct bridge {
	const struct mcp_opts *opts;
	struct loop loop;
	struct watch in, signals;
	struct timer last;
	struct flights flights;
	struct buf line;
	bool skipping; // the rest of a line that was too long
	char *target;
	char *made;  // id of the sandbox of --new
	bool over;   // stdin has ended
	bool closed; // nobody reads our stdout
};

static void say(struct bridge *b, const char *p, size_t n)
{
	struct err e;
	auto_buf struct buf line = BUF_INIT(n + 1);
	buf_add(&line, p, n);
	buf_byte(&line, '\n');
	if (!b->closed && fs_write_all(STDOUT_FILENO, line.p, line.n, &e)) {
		b->closed = true;
		loop_stop(&b->loop);
	}
}

static void say_error(struct bridge *b, const char *id, const char *message)
{
	auto_buf struct buf t = BUF_INIT(8192);
	struct jsonw w = {.b = &t};
	jw_open(&w, '{');
	jw_kstr(&w, "jsonrpc", "2.0");
	jw_key(&w, "id");
	jw_raw(&w, id ? id : "null");
	jw_key(&w, "error");
	jw_open(&w, '{');
	jw_ki64(&w, "code", -32603);
	jw_kstr(&w, "message", message);
	jw_close(&w, '}');
	jw_close(&w, '}');
	say(b, buf_cstr(&t), t.n);
}

// --- what is asked of skepd ---

static void make_target(struct bridge *b, const char *sandbox)
{
	auto_buf struct buf t = BUF_INIT(64u << 10);
	auto_free char *cwd = home_remote() ? NULL : getcwd(NULL, 0);
	buf_str(&t, "/mcp?stdio=1");
	if (sandbox) {
		buf_str(&t, "&sandbox=");
		http_encode(&t, sandbox);
	} else if (cwd && *cwd == '/') {
		buf_str(&t, "&cwd=");
		http_encode(&t, cwd);
	}
	free(b->target);
	b->target = buf_take(&t);
}

// With the first call that needs it: agents start their servers long before they use them, or never do.
static int make_sandbox(struct bridge *b, struct err *e)
{
	auto_json json_t *box = create_sandbox(b->opts->create, NULL, e);
	if (!box)
		return -1;
	b->made = xstrdup(json_str(box, "id"));
	make_target(b, b->made);
	return 0;
}

static void on_message(void *ctx, const char *p, size_t n)
{
	say(ctx, p, n);
}

static void leave_if_done(struct bridge *b)
{
	if (b->over && !b->flights.n)
		loop_stop(&b->loop);
}

static void on_end(void *ctx, struct flight *f, const struct err *e)
{
	struct bridge *b = ctx;
	if (e)
		say_error(b, f->id, e->msg);
	flight_free(&b->flights, f);
	leave_if_done(b);
}

static const struct flight_ops ops = {.message = on_message, .end = on_end};

static void cancel(struct bridge *b, const json_t *params)
{
	auto_buf struct buf id = BUF_INIT(4096);
	const json_t *v = json_object_get(params, "requestId");
	if (v)
		json_print(&id, v, 0);
	struct flight *f = v ? flight_find(&b->flights, buf_cstr(&id)) : NULL;
	if (f)
		flight_free(&b->flights, f);
}

static bool needs_sandbox(const char *method)
{
	return !strcmp(method, "tools/call") || !strcmp(method, "resources/read");
}

static void take_line(struct bridge *b, const char *p, size_t n)
{
	struct err e;
	auto_json json_t *m = json_read(p, n, &e);
	const json_t *id = json_object_get(m, "id");
	const char *method = json_str(m, "method");
	auto_buf struct buf text = BUF_INIT(4096);
	if (json_is_object(m) && !id) { // skepd has no use for the others
		if (!strcmp(method, "notifications/cancelled"))
			cancel(b, json_object_get(m, "params"));
		return;
	}
	if (id)
		json_print(&text, id, 0);
	bool known = id && !text.overflow;
	if (json_is_object(m) && !*method)
		return; // an answer to what was never asked
	if (b->opts->make && !b->made && needs_sandbox(method) && make_sandbox(b, &e)) {
		say_error(b, known ? buf_cstr(&text) : NULL, e.msg);
		return;
	}
	auto_free char *kept = known ? xstrdup(buf_cstr(&text)) : NULL;
	if (flight_send(&b->flights, b->target, p, n, kept ? xstrdup(kept) : NULL, &e))
		say_error(b, kept, e.msg);
}

// --- stdin ---

static void take_lines(struct bridge *b)
{
	for (;;) {
		char *nl = b->line.n ? memchr(b->line.p, '\n', b->line.n) : NULL;
		if (!nl)
			return;
		size_t n = (size_t)(nl - b->line.p), whole = n + 1;
		if (n && b->line.p[n - 1] == '\r')
			n--;
		if (n && !b->skipping)
			take_line(b, b->line.p, n);
		b->skipping = false;
		buf_cut(&b->line, whole);
	}
}

static void on_last(struct timer *t)
{
	loop_stop(&container_of(t, struct bridge, last)->loop);
}

static void stdin_over(struct bridge *b)
{
	if (b->in.fd >= 0)
		loop_del(&b->loop, &b->in);
	if (b->line.n && !b->skipping)
		take_line(b, b->line.p, b->line.n);
	b->over = true;
	timer_set(&b->loop, &b->last, LAST_MS);
	leave_if_done(b);
}

static void on_stdin(struct watch *w, uint32_t events)
{
	struct bridge *b = container_of(w, struct bridge, in);
	char *room = buf_room(&b->line, CHUNK);
	(void)events;
	if (!room) {
		if (!b->skipping)
			say_error(b, NULL, "the message is too long");
		b->skipping = true;
		buf_clear(&b->line);
		return;
	}
	ssize_t n = read(STDIN_FILENO, room, CHUNK);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		stdin_over(b);
		return;
	}
	b->line.n += (size_t)n;
	take_lines(b);
}

static void on_signal(struct watch *w, uint32_t events)
{
	(void)events;
	while (loop_signal_next(w->fd))
		;
	loop_stop(&container_of(w, struct bridge, signals)->loop);
}

static int watch_ends(struct bridge *b, struct err *e)
{
	static const int ends[] = {SIGTERM, SIGINT, SIGHUP};
	int fd = loop_signals(ends, countof(ends), e);
	b->signals.fn = on_signal;
	b->in.fn = on_stdin;
	signal(SIGPIPE, SIG_IGN);
	if (fd < 0 || loop_add(&b->loop, &b->signals, fd, LOOP_IN, e))
		return -1;
	if (!loop_add(&b->loop, &b->in, STDIN_FILENO, LOOP_IN, e))
		return 0;
	if (e->sys != EPERM)
		return -1;
	b->in.fd = -1; // a file is always ready
	while (!b->over)
		on_stdin(&b->in, LOOP_IN);
	return 0;
}

// --- the sandbox afterwards ---

static void clean_up(struct bridge *b)
{
	struct err e;
	const struct create_opts *o = &b->opts->create;
	auto_api struct api a = API_CLOSED;
	auto_buf struct buf t = BUF_INIT(1024);
	if (!b->made || o->name || o->context || o->keep)
		return;
	auto_free char *path = api_path("/v1/sandboxes", b->made, NULL);
	if (!api_open(&a, &e) && !api_do(&a, "DELETE", path, NULL, &e))
		return;
	if (e.kind == ERR_CONFLICT)
		buf_fmt(&t, "skep: mcp: changes are kept in %s: skep diff %s shows them, skep apply %s takes them\n", b->made, b->made, b->made);
	else
		buf_fmt(&t, "skep: mcp: %s is kept: %s\n", b->made, e.msg);
	out_stderr(&t);
}

static int find_sandbox(struct bridge *b, struct err *e)
{
	auto_api struct api a = API_CLOSED;
	auto_free char *path = api_path("/v1/sandboxes", b->opts->sandbox, NULL);
	if (api_open(&a, e))
		return -1;
	auto_json json_t *box = api_json(&a, "GET", path, NULL, e);
	if (!box)
		return -1;
	make_target(b, json_str(box, "id"));
	return 0;
}

static int begin(struct bridge *b, struct err *e)
{
	if (b->opts->sandbox)
		return find_sandbox(b, e);
	make_target(b, b->opts->make ? "" : NULL);
	return 0;
}

static int check(const struct mcp_opts *o, struct err *e)
{
	static const struct create_opts none = {.cpus = OPT_UNSET, .memory = OPT_UNSET, .disk = OPT_UNSET, .pids = OPT_UNSET, .nofile = OPT_UNSET, .timeout = OPT_UNSET,
					 .ttl = OPT_UNSET, .idle = OPT_UNSET, .lease = OPT_UNSET};
	if (o->make && o->sandbox)
		return err_set(e, ERR_INVALID, "--new and --sandbox exclude each other");
	if (!o->make && memcmp(&o->create, &none, sizeof none))
		return err_set(e, ERR_INVALID, "options of a new sandbox go with --new");
	return request_check(&o->create, e);
}

static int mcp_run(const struct call *c)
{
	struct err e;
	struct bridge b = {.opts = c->opts, .line = BUF_INIT(LIMIT_REQUEST_BODY + CHUNK), .last.fn = on_last};
	if (check(b.opts, &e))
		return out_usage(c, &e);
	if (begin(&b, &e) || loop_init(&b.loop, &e))
		return out_fail(c, &e);
	b.flights = (struct flights){.loop = &b.loop, .ops = &ops, .ctx = &b};
	int rc = watch_ends(&b, &e) || ((!b.over || b.flights.n) && loop_run(&b.loop, &e)) ? out_fail(c, &e) : 0;
	while (b.flights.list)
		flight_free(&b.flights, b.flights.list);
	clean_up(&b);
	loop_done(&b.loop);
	buf_done(&b.line);
	free(b.target);
	free(b.made);
	return rc;
}

const struct cmd cmd_mcp = {
	.name = "mcp",
	.args = "",
	.help = "serve sandboxes to an agent: MCP on stdin and stdout",
	.notes = "Without --sandbox and --new the agent makes and names its sandboxes itself, on the current directory. The one of --new\n"
		 "is made with the first call that needs it, and removed at the end unless changes are pending or it has --name,\n"
		 "--context or --keep. No tool applies changes, mounts, or widens what a sandbox may reach. See docs/mcp.md; skep init\n"
		 "writes the configuration of agents.",
	.opts = mcp_opts,
	.opts_size = sizeof(struct mcp_opts),
	.tail = -1,
	.run = mcp_run,
};

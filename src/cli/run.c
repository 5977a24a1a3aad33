// SPDX-License-Identifier: Apache-2.0
// run: a new sandbox on the current directory, attached to one command. new: one to come back to.
#include "base/mem.h"
#include "cli/advice.h"
#include "cli/agent.h"
#include "cli/api.h"
#include "cli/hold.h"
#include "cli/out.h"
#include "cli/request.h"
#include "cli/session.h"
#include "cli/term.h"
#include "cli/verbs.h"
#include "model/msg.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define SUMMARY_NAMES 8 // changed paths named in the summary line

static const struct opt run_opts[] = {
	CREATE_ROWS,
	FLAG(CREATE_AT(rm), "rm", 0, "remove it afterwards, also with --name, if nothing is pending"),
	FLAG(CREATE_AT(keep), "keep", 0, "keep it afterwards, even unchanged"),
	FLAG(CREATE_AT(tty), "tty", 't', "give the command a terminal in any case"),
	FLAG(CREATE_AT(no_tty), "no-tty", 'T', "give it none"),
	OPTS_END,
};

static const struct opt new_opts[] = {
	CREATE_ROWS,
	FLAG(CREATE_AT(keep), "keep", 0, "pin it: it never expires, and only rm --force removes it"),
	FLAG(CREATE_AT(json), "json", 0, "print the whole sandbox, not only its id"),
	OPTS_END,
};

static void list_names(struct buf *b, char *const *names, uint32_t n)
{
	size_t given = strv_len(names);
	buf_str(b, "  (");
	for (size_t i = 0; i < given && i < SUMMARY_NAMES; i++) {
		buf_str(b, i ? ", " : "");
		out_text(b, names[i]);
	}
	buf_str(b, n > SUMMARY_NAMES || given < n ? ", \xe2\x80\xa6)\n" : ")\n");
}

// The names of one kind, without the letter of the kind.
static char **extra_names(const struct changes_sum *s, char kind)
{
	char **names = NULL;
	for (char **x = s->extra; x && *x; x++)
		if (**x == kind)
			strv_add(&names, *x + 2);
	return names;
}

static void list_extra(struct buf *b, const struct changes_sum *s)
{
	char **git = extra_names(s, 'G'), **home = extra_names(s, 'H');
	if (s->git) {
		buf_fmt(b, "%u item%s only in the sandbox's git repository", s->git, s->git == 1 ? "" : "s");
		list_names(b, git, s->git);
	}
	if (s->outside) {
		buf_fmt(b, "%u file%s in ", s->outside, s->outside == 1 ? "" : "s");
		out_text(b, s->home ? s->home : "the home directory");
		buf_fmt(b, " %s kept with the sandbox", s->outside == 1 ? "is" : "are");
		list_names(b, home, s->outside);
	}
	strv_free(git);
	strv_free(home);
}

static void list_changes(struct buf *b, const struct pump_result *r)
{
	uint32_t beside = r->sum.git + r->sum.outside, files = r->n_changes > beside ? r->n_changes - beside : 0;
	if (files)
		buf_fmt(b, "%u file%s changed", files, files == 1 ? "" : "s");
	else
		buf_str(b, "no files changed");
	if (r->sum.ignored)
		buf_fmt(b, ", %u ignored", r->sum.ignored);
	if (files)
		list_names(b, r->changes, files);
	else
		buf_byte(b, '\n');
	list_extra(b, &r->sum);
}

static void summarize(const char *ref, const struct pump_result *r)
{
	auto_buf struct buf b = BUF_INIT(64 << 10);
	if (r->n_changes == CHANGES_UNKNOWN)
		buf_str(&b, "which files changed is not known: the cell died before it could look\n");
	else
		list_changes(&b, r);
	if (!r->removed)
		buf_fmt(&b, "kept as %s: skep diff %s shows the changes, skep apply %s takes them, skep rm --force %s discards them\n", ref,
			ref, ref, ref);
	out_stderr(&b);
}

// --rm of a sandbox with pending changes is refused by skepd; the command's own status stands.
static void remove_after(const struct call *c, const char *id)
{
	struct err e;
	auto_api struct api a = API_CLOSED;
	auto_free char *path = api_path("/v1/sandboxes", id, NULL);
	if (api_open(&a, &e) || api_do(&a, "DELETE", path, NULL, &e))
		if (e.kind != ERR_NOT_FOUND)
			out_fail(c, &e);
}

// A preset that stands in a file may need the registries, too; only skepd knows.
static json_t *create_once(const struct create_opts *o, const struct exec_request *x, struct err *e)
{
	auto_api struct api a = API_CLOSED;
	json_t *box = NULL;
	for (int registries = 0; registries < 2 && !box; registries++) {
		auto_buf struct buf body = BUF_INIT(HTTP_BODY_MAX);
		if (request_create(&body, o, x, registries, e) || (!registries && api_open(&a, e)))
			return NULL;
		if (x)
			hold_begin();
		box = api_json(&a, "POST", "/v1/sandboxes", buf_cstr(&body), e);
		if (x)
			hold_end(json_object_get(box, "attach"));
		if (!box && !net_needs_registries(e))
			return NULL;
	}
	if (box && !json_object_get(box, "setup"))
		net_notices(box);
	return box;
}

// The project's setup runs in a sandbox of its own first: its output is shown, on stderr, until it is done. Where it can not
// be watched, since it has ended or somebody else watches, nothing is shown; how it ended is told by the next try.
static int watch_setup(const json_t *setup, struct err *e)
{
	struct err ignored;
	auto_api struct api a = API_CLOSED;
	auto_free char *path = api_path("/v1/execs", json_str(setup, "exec"), "attach");
	const json_t *attach = json_object_get(setup, "attach"); // for who made it run
	auto_json json_t *later = attach || api_open(&a, &ignored) ? NULL : api_json(&a, "POST", path, "{}", &ignored);
	attach = attach ? attach : later;
	struct pump_spec spec = {.socket = json_str(attach, "socket"), .ticket = json_str(attach, "ticket"), .in = -1, .out = 2, .err = 2, .join = true};
	struct pump_result r = {0};
	int rc = attach ? pump_run(&spec, &r, &ignored) : -1;
	uint32_t status = rc ? 0 : r.exit.status;
	pump_result_done(&r);
	if (!status)
		return 0;
	const json_t *network = json_object_get(setup, "network");
	return err_set(e, ERR_SYSTEM, "the setup in %s failed with status %u.%s Correct it, or go without: --no-setup", json_str(setup, "file"), status,
		       json_is_false(network) ? " It had no network: --net registries gives it one, or skep trust --setup-net registries." : "");
}

// The person at the terminal may do without what the setup would have made.
static bool offer_no_setup(const struct cmd *cmd, const struct err *why)
{
	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return false;
	out_fail(&(struct call){.cmd = cmd}, why);
	return term_ask_yes("skep: go on without the setup? [y/N] ");
}

json_t *create_sandbox(struct create_opts o, const struct exec_request *x, struct err *e)
{
	auto_json json_t *box = create_once(&o, x, e);
	const json_t *setup = json_object_get(box, "setup");
	if (!setup)
		return take(&box);
	o.wait_setup = true;
	if (!watch_setup(setup, e))
		return create_once(&o, x, e);
	if (!o.cmd || !offer_no_setup(o.cmd, e))
		return NULL;
	o.no_setup = true;
	return create_once(&o, x, e);
}

static json_t *create_asking(const struct call *c, const struct create_opts *given, const struct exec_request *x, struct err *e)
{
	struct create_opts o = *given;
	o.cmd = c->cmd;
	return create_sandbox(o, x, e);
}

// The null device is the same inside: nothing has to be carried there.
static bool has_stdin(void)
{
	struct stat st;
	return !fstat(STDIN_FILENO, &st) && !(S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3));
}

static int run_in(const struct call *c, const struct create_opts *o)
{
	struct err e;
	bool tty = o->tty || (!o->no_tty && term_is_all());
	bool in = tty || has_stdin();
	struct exec_request x = {.argv = c->words, .tty = tty, .want_stdin = in, .timeout = OPT_UNSET};
	auto_json json_t *box = create_asking(c, o, &x, &e);
	if (!box)
		return out_fail(c, &e);
	const char *id = json_str(box, "id"), *name = json_str(box, "name");
	struct pump_result r;
	struct pump_spec spec = {.in = in ? 0 : -1, .out = 1, .err = 2, .tty = tty, .forward = true, .to_end = !o->context};
	int status = session_run(c, json_object_get(box, "attach"), spec, &r);
	if (status == 127 && r.exit.reason && !o->image)
		advice_missing(c->words[0]);
	if (status || advice_is_wanted())
		advice_refused(o, id);
	if (r.has_changes && advice_is_wanted())
		summarize(*name ? name : id, &r);
	if (o->rm && !r.removed)
		remove_after(c, id);
	pump_result_done(&r);
	return status;
}

static int run_run(const struct call *c)
{
	struct create_opts own = *(const struct create_opts *)c->opts;
	const struct create_opts *o = &own;
	struct err e;
	if (request_check(o, &e))
		return out_usage(c, &e);
	int failed = agent_apply(&own, c->n_before_dashes < 0 ? c->words[0] : NULL, &e);
	int status = failed ? out_fail(c, &e) : run_in(c, o);
	agent_done(&own);
	return status;
}

static int new_run(const struct call *c)
{
	const struct create_opts *o = c->opts;
	struct err e;
	if (request_check(o, &e))
		return out_usage(c, &e);
	auto_json json_t *box = create_asking(c, c->opts, NULL, &e);
	if (!box)
		return out_fail(c, &e);
	if (o->json)
		return out_json(box);
	auto_buf struct buf b = BUF_INIT(256);
	buf_fmt(&b, "%s\n", json_str(box, "id"));
	return out_flush(&b);
}

const struct cmd cmd_run = {
	.name = "run",
	.args = "[--] CMD...",
	.help = "run a command in a new sandbox on the current directory",
	.notes = "The command sees the project at its own path and may change everything; the real files stay.\n"
		 "Several commands are one line of a shell: skep run -- sh -c 'npm ci && npm test'.\n"
		 "claude, codex, gemini, opencode and qwen without -- get what they need: their network, the sealed secret\n"
		 "of their key if there is one, and a directory that keeps their login for the next run.\n"
		 "It has a terminal if stdin, stdout and stderr are terminals. The exit status is the command's:\n"
		 "128+N when signal N ended it, 127 not found, 126 not executable, 125 when skep itself failed.\n"
		 "Afterwards the sandbox is removed if nothing changed and it has neither --name nor --keep.",
	.opts = run_opts,
	.opts_size = sizeof(struct create_opts),
	.min_words = 1,
	.max_words = -1,
	.hint = HINT_COMMAND,
	.run = run_run,
};

const struct cmd cmd_new = {
	.name = "new",
	.args = "",
	.help = "make a sandbox and print its id",
	.opts = new_opts,
	.opts_size = sizeof(struct create_opts),
	.tail = -1,
	.run = new_run,
};

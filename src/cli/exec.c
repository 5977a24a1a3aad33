// SPDX-License-Identifier: Apache-2.0
// exec: a command in a sandbox that exists. shell: the same for a person.
#include "base/mem.h"
#include "cli/advice.h"
#include "cli/api.h"
#include "cli/hold.h"
#include "cli/out.h"
#include "cli/request.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include <string.h>
#include <unistd.h>

struct exec_opts {
	bool interactive, tty, detach;
	const char *user, *cwd;
	char **env;
	uint64_t timeout;
};

#define EXEC_AT(member) offsetof(struct exec_opts, member)
static const struct opt exec_opts[] = {
	FLAG(EXEC_AT(interactive), "interactive", 'i', "pass stdin to the command"),
	FLAG(EXEC_AT(tty), "tty", 't', "give it a terminal"),
	FLAG(EXEC_AT(detach), "detach", 'd', "do not wait: print the id of the exec"),
	VALUE(OPT_STR, EXEC_AT(user), "user", 'u', "USER", "run as USER inside"),
	VALUE(OPT_STR, EXEC_AT(cwd), "workdir", 'w', "DIR", "start in DIR (default: the workspace)"),
	VALUE(OPT_LIST, EXEC_AT(env), "env", 'e', "K=V", "set a variable; K alone takes it from here"),
	VALUE(OPT_DURATION, EXEC_AT(timeout), "timeout", 0, "TIME", "end it after TIME"),
	OPTS_END,
};

static const struct opt shell_opts[] = {
	VALUE(OPT_STR, EXEC_AT(user), "user", 'u', "USER", "be USER inside"),
	VALUE(OPT_STR, EXEC_AT(cwd), "workdir", 'w', "DIR", "start in DIR (default: the workspace)"),
	VALUE(OPT_LIST, EXEC_AT(env), "env", 'e', "K=V", "set a variable; K alone takes it from here"),
	OPTS_END,
};

// id NULL = the sandbox meant by none.
static json_t *start(const char *id, bool shell, struct exec_request *x, struct err *e)
{
	auto_buf struct buf body = BUF_INIT(HTTP_BODY_MAX);
	auto_api struct api a = API_CLOSED;
	if (api_open(&a, e))
		return NULL;
	auto_free char *found = id ? xstrdup(id) : NULL;
	if (!found)
		found = shell ? api_newest_id(&a, e) : api_default_id(&a, e);
	if (!found && e->kind == ERR_NOT_FOUND)
		err_set(e, ERR_NOT_FOUND, "no sandbox of this directory %s: name one (skep ps lists them), or begin with skep run -- CMD",
			shell ? "is there" : "has pending changes");
	if (!found || request_exec(&body, x, e))
		return NULL;
	auto_free char *path = api_path("/v1/sandboxes", found, "execs");
	hold_begin();
	json_t *j = api_json(&a, "POST", path, buf_cstr(&body), e);
	hold_end(json_object_get(j, "attach"));
	return j;
}

// For a person, who may have opened it without a name. How much is pending is being counted now.
static void tell_where(const char *id)
{
	auto_buf struct buf b = BUF_INIT(1024);
	buf_fmt(&b, "left %s: skep diff %s shows its changes, skep apply %s takes them\n", id, id, id);
	out_stderr(&b);
}

static int execute(const struct call *c, const char *id, struct exec_request *x, bool shell)
{
	struct err e;
	if (request_check_env(x->env, &e))
		return out_usage(c, &e);
	auto_json json_t *j = start(id, shell, x, &e);
	if (!j)
		return out_fail(c, &e);
	if (x->detach) {
		auto_buf struct buf b = BUF_INIT(256);
		buf_fmt(&b, "%s\n", json_str(json_object_get(j, "exec"), "id"));
		return out_flush(&b);
	}
	struct pump_result r;
	struct pump_spec spec = {.in = x->want_stdin ? 0 : -1, .out = 1, .err = 2, .tty = x->tty, .forward = true};
	int status = session_run(c, json_object_get(j, "attach"), spec, &r);
	const char *box = json_str(json_object_get(j, "exec"), "sandbox");
	pump_result_done(&r);
	if (status)
		advice_of_exec(box, json_str(json_object_get(j, "exec"), "id"));
	if (shell && x->tty && isatty(STDERR_FILENO))
		tell_where(id ? id : box);
	return status;
}

static int exec_run(const struct call *c)
{
	const struct exec_opts *o = c->opts;
	bool has_id = c->n_before_dashes != 0;
	if (has_id && c->n_words < 2) {
		struct err e;
		err_set(&e, ERR_INVALID, "CMD is missing");
		return out_usage(c, &e);
	}
	struct exec_request x = {
		.argv = c->words + has_id,
		.env = o->env,
		.cwd = o->cwd,
		.here = true, // inside the project it means the same directory inside the sandbox
		.user = o->user,
		.tty = o->tty,
		.want_stdin = o->interactive,
		.detach = o->detach,
		.timeout = o->timeout,
	};
	return execute(c, has_id ? c->words[0] : NULL, &x, false);
}

static int shell_run(const struct call *c)
{
	static char sh[] = "/bin/sh", flag[] = "-c";
	static char script[] = "exec \"${SHELL:-$(command -v bash || echo /bin/sh)}\"";
	char *argv[] = {sh, flag, script, NULL};
	const struct exec_opts *o = c->opts;
	struct exec_request x = {
		.argv = argv,
		.env = o->env,
		.cwd = o->cwd,
		.here = true,
		.user = o->user,
		.tty = isatty(0),
		.want_stdin = true,
		.timeout = OPT_UNSET,
	};
	return execute(c, c->n_words ? c->words[0] : NULL, &x, true);
}

const struct cmd cmd_exec = {
	.name = "exec",
	.args = "[ID] [--] CMD...",
	.help = "run a command in a sandbox",
	.notes = "Starts or resumes the sandbox first. Without ID (then -- is needed): the newest sandbox of this\n"
		 "directory with pending changes. The exit status is the command's, 125 when skep itself failed.",
	.opts = exec_opts,
	.opts_size = sizeof(struct exec_opts),
	.min_words = 1,
	.max_words = -1,
	.tail = 1,
	.hint = HINT_SANDBOX,
	.run = exec_run,
};

const struct cmd cmd_shell = {
	.name = "shell",
	.args = "[ID]",
	.help = "open a shell in a sandbox",
	.opts = shell_opts,
	.opts_size = sizeof(struct exec_opts),
	.max_words = 1,
	.tail = 1,
	.hint = HINT_SANDBOX,
	.run = shell_run,
};

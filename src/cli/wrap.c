// SPDX-License-Identifier: Apache-2.0
// wrap: a command of an agent in the sandbox of this directory and conversation, as if it ran here: same directory, streams and
// exit status. Also known by the name skep-wrap, for agents that take a program to put before their shell commands.
#include "base/mem.h"
#include "base/sha256.h"
#include "cli/out.h"
#include "cli/request.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IDLE_MS 600000 // nobody says when the conversation is over; the next command starts it again

static const struct opt wrap_opts[] = {
	CREATE_ROWS,
	OPTS_END,
};

// The conversation, as the agent names it to its children.
static const char *session(void)
{
	static const char *const names[] = {"SKEP_SESSION", "CLAUDE_CODE_SESSION_ID"};
	for (size_t i = 0; i < countof(names); i++) {
		const char *v = getenv(names[i]);
		if (v && *v)
			return v;
	}
	return "";
}

// The git top level, or the directory itself: an agent that changes directory stays in its sandbox.
static char *top(void)
{
	auto_free char *cwd = getcwd(NULL, 0), *dir = cwd ? xstrdup(cwd) : NULL;
	while (dir && *dir) {
		auto_free char *git = xasprintf("%s/.git", dir);
		if (!access(git, F_OK))
			return take(&dir);
		*strrchr(dir, '/') = 0;
	}
	return take(&cwd);
}

static char *context(void)
{
	char hex[SHA256_HEX];
	auto_free char *dir = top(), *key = xasprintf("%s\n%s", dir ? dir : "", session());
	sha256_hex(key, strlen(key), hex);
	hex[32] = 0;
	return xasprintf("wrap-%s", hex);
}

static int wrap_run(const struct call *c)
{
	static char shell[] = "/bin/sh", flag[] = "-c", name[] = "sh",
		    script[] = "if command -v bash >/dev/null; then exec bash -c \"$1\"; else exec sh -c \"$1\"; fi";
	struct create_opts o = *(const struct create_opts *)c->opts;
	struct err e;
	char *line[] = {shell, flag, script, name, c->words[0], NULL};
	auto_free char *key = context();
	if (request_check(&o, &e))
		return out_usage(c, &e);
	o.context = o.context ? o.context : key;
	o.idle = o.idle == OPT_UNSET ? IDLE_MS : o.idle;
	struct exec_request x = {.argv = c->n_words == 1 ? line : c->words, .want_stdin = true, .timeout = OPT_UNSET};
	auto_json json_t *box = create_sandbox(o, &x, &e);
	if (!box)
		return out_fail(c, &e);
	struct pump_result r;
	struct pump_spec spec = {.in = 0, .out = 1, .err = 2, .forward = true};
	int status = session_run(c, json_object_get(box, "attach"), spec, &r);
	pump_result_done(&r);
	return status;
}

const struct cmd cmd_wrap = {
	.name = "wrap",
	.args = "[--] CMD...",
	.help = "run an agent's command in the sandbox of this directory and conversation",
	.notes = "The sandbox is made at the first command and found again by the next (--context says otherwise); it stops\n"
		 "after ten idle minutes (--idle) and keeps its files. One word is a shell\n"
		 "command line; several are a command and its arguments. The conversation is $SKEP_SESSION, else what Claude Code says.\n"
		 "For Claude Code: CLAUDE_CODE_SHELL_PREFIX=/path/of/skep-wrap, or skep init --wrap. The exit status is the command's.",
	.opts = wrap_opts,
	.opts_size = sizeof(struct create_opts),
	.min_words = 1,
	.max_words = -1,
	.tail = 0,
	.hint = HINT_COMMAND,
	.run = wrap_run,
};

// SPDX-License-Identifier: Apache-2.0
// code: an editor on a sandbox, by its Remote-SSH extension. That one reads ~/.ssh/config, so our hosts must be known there:
// one Include line, added only with the user's yes.
#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "cli/api.h"
#include "cli/out.h"
#include "cli/ssh_config.h"
#include "cli/term.h"
#include "cli/verbs.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG_MAX (4u << 20)

struct code_opts {
	bool yes;
	const char *editor;
};

#define CODE_AT(member) offsetof(struct code_opts, member)
static const struct opt code_opts[] = {
	FLAG(CODE_AT(yes), "yes", 'y', "add the Include line to ~/.ssh/config without asking"),
	VALUE(OPT_STR, CODE_AT(editor), "editor", 0, "PROGRAM", "VS Code or one that takes its options (default code)"),
	OPTS_END,
};

// One whole line of the file, behind any spaces.
static bool has_line(const char *text, const char *line)
{
	size_t n = strlen(line);
	for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		const char *at = p + strspn(p, " \t");
		if (!strncmp(at, line, n) && (!at[n] || at[n] == '\n'))
			return true;
	}
	return false;
}

// A link stays one: what it leads to is replaced.
static char *real_file(const char *path)
{
	char *real = realpath(path, NULL);
	return real ? real : xstrdup(path);
}

static int add_include(const char *path, const char *line, struct buf *was, struct err *e)
{
	auto_buf struct buf text = BUF_INIT(CONFIG_MAX + 8192);
	auto_free char *real = real_file(path), *dir = xstrndup(path, (size_t)(strrchr(path, '/') - path));
	struct stat st;
	// At the top: behind a Host line it would count for that host alone.
	buf_fmt(&text, "%s\n%s%s", line, was->n ? "\n" : "", buf_cstr(was));
	if (mkdir(dir, 0700) && errno != EEXIST)
		return err_sys(e, "%s", dir);
	return fs_replace(AT_FDCWD, real, text.p, text.n, stat(real, &st) ? 0600 : st.st_mode & 07777, e);
}

// 0: our hosts are known to ssh now.
static int include(const char *config, bool yes, struct err *e)
{
	const char *home = getenv("HOME");
	if (!home || *home != '/')
		return err_set(e, ERR_INVALID, "HOME is not set, so ~/.ssh/config can not be found");
	auto_free char *path = xasprintf("%s/.ssh/config", home), *line = xasprintf("Include \"%s\"", config);
	auto_buf struct buf was = BUF_INIT(CONFIG_MAX), ask = BUF_INIT(8192);
	if (fs_read(AT_FDCWD, path, &was, e) && e->sys != ENOENT)
		return -1;
	if (has_line(buf_cstr(&was), line))
		return 0;
	buf_fmt(&ask, "add `%s` to the top of %s? [y/N] ", line, path);
	if (!yes && !term_ask_yes(buf_cstr(&ask)))
		return err_set(e, ERR_CONFLICT, "the editor finds sandboxes by ~/.ssh/config: say --yes, or put `%s` at its top yourself", line);
	return add_include(path, line, &was, e);
}

static int start_editor(const char *editor, const char *host, const char *dir, struct err *e)
{
	auto_free char *program = xstrdup(editor), *remote = xasprintf("ssh-remote+%s", host), *path = xstrdup(dir);
	char opt[] = "--remote";
	char *argv[] = {program, opt, remote, path, NULL};
	execvp(program, argv);
	if (errno == ENOENT)
		return err_set(e, ERR_UNAVAILABLE,
			       "%s is not installed or not on PATH (in VS Code: \"Shell Command: Install 'code' command\"); "
			       "or open the host %s in any editor that speaks SSH",
			       editor, host);
	return err_sys(e, "%s", editor);
}

static bool is_on_path(const char *program)
{
	if (strchr(program, '/'))
		return !access(program, X_OK);
	auto_free char *found = proc_find(getenv("PATH"), program);
	return found;
}

static int open_editor(const struct call *c, struct err *e)
{
	const struct code_opts *o = c->opts;
	const char *editor = o->editor ? o->editor : "code";
	auto_api struct api a = API_CLOSED;
	auto_free char *dir = ssh_dir(e), *config = dir ? ssh_config_write(dir, e) : NULL;
	if (!config || api_open(&a, e))
		return -1;
	auto_free char *id = c->n_words ? xstrdup(c->words[0]) : api_default_id(&a, e), *path = id ? api_path("/v1/sandboxes", id, NULL) : NULL;
	auto_json json_t *box = path ? api_json(&a, "GET", path, NULL, e) : NULL;
	if (!box)
		return -1;
	const char *name = *json_str(box, "name") ? json_str(box, "name") : json_str(box, "id");
	auto_free char *host = ssh_host_of(name);
	// the file is not touched for an editor that is not there
	if (is_on_path(editor) && include(config, o->yes, e))
		return -1;
	api_close(&a);
	return start_editor(editor, host, c->n_words > 1 ? c->words[1] : json_str(box, "workspace_path"), e);
}

static int code_run(const struct call *c)
{
	struct err e;
	return open_editor(c, &e) ? out_fail(c, &e) : 0;
}

const struct cmd cmd_code = {
	.name = "code",
	.args = "[ID] [PATH]",
	.help = "open VS Code on a sandbox",
	.notes = "Uses its Remote-SSH extension, which reads ~/.ssh/config: one Include line is added there, after a question.\n"
		 "PATH is inside the sandbox; default: the workspace.",
	.opts = code_opts,
	.opts_size = sizeof(struct code_opts),
	.max_words = 2,
	.tail = -1,
	.hint = HINT_SANDBOX,
	.run = code_run,
};

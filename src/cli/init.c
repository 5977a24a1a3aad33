// SPDX-License-Identifier: Apache-2.0
// init: the entry for `skep mcp` in the configuration of agents. Files are merged into, never replaced: what somebody else wrote
// stays, and a file that can not be understood is left alone and said so.
#include "base/fs.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/edit.h"
#include "cli/home.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (4u << 20)

enum form {
	FORM_SERVERS, // "mcpServers": {"skep": {"command": …, "args": […]}}
	FORM_OPENCODE, // "mcp": {"skep": {"type": "local", "command": […]}}
	FORM_TOML,    // [mcp_servers.skep]
};
static const struct agent {
	const char *name, *project, *user; // files; user: below $HOME; project NULL: it has none
	const char *sign;		   // a directory of it below $HOME
	enum form form;
} agents[] = {
	{"claude", ".mcp.json", ".claude.json", ".claude", FORM_SERVERS},
	{"codex", NULL, ".codex/config.toml", ".codex", FORM_TOML},
	{"cursor", ".cursor/mcp.json", ".cursor/mcp.json", ".cursor", FORM_SERVERS},
	{"gemini", ".gemini/settings.json", ".gemini/settings.json", ".gemini", FORM_SERVERS},
	{"qwen", ".qwen/settings.json", ".qwen/settings.json", ".qwen", FORM_SERVERS},
	{"opencode", "opencode.json", ".config/opencode/opencode.json", ".config/opencode", FORM_OPENCODE},
};

struct init_opts {
	char **agents;
	bool user, print, remove, wrap;
};

#define INIT_AT(member) offsetof(struct init_opts, member)
static const struct opt init_opts[] = {
	{.name = "agent", .kind = OPT_LIST, .offset = INIT_AT(agents), .arg = "AGENT", .help = "for this one (default: those that are found); may be repeated",
	 .choices = "claude|codex|cursor|gemini|qwen|opencode|all"},
	FLAG(INIT_AT(user), "user", 0, "in the user's own files instead of the project's"),
	FLAG(INIT_AT(wrap), "wrap", 0, "Claude Code only: run its shell commands in a sandbox (skep wrap)"),
	FLAG(INIT_AT(print), "print", 0, "show what would be written, and write nothing"),
	FLAG(INIT_AT(remove), "remove", 0, "take the entry out again"),
	OPTS_END,
};

struct work {
	const struct init_opts *o;
	char *const *extra; // further arguments of skep mcp
	char *command, *args; // JSON
	char *both;	      // JSON: command and arguments in one list
	char *env, *env_toml; // where this skepd is, if not in the usual place; NULL = it is. Agents hand on few variables
	struct table table;
	int status;
};

// --- where ---

static char *place(const struct work *w, const struct agent *a)
{
	const char *home = getenv("HOME"), *codex = getenv("CODEX_HOME"), *xdg = getenv("XDG_CONFIG_HOME");
	if (!w->o->user && a->project)
		return xstrdup(a->project);
	if (a->form == FORM_TOML && codex && *codex)
		return xasprintf("%s/config.toml", codex);
	if (a->form == FORM_OPENCODE && xdg && *xdg == '/')
		return xasprintf("%s/opencode/opencode.json", xdg);
	return xasprintf("%s/%s", home ? home : "", a->user);
}

static bool is_there(const struct agent *a)
{
	const char *home = getenv("HOME");
	auto_free char *sign = xasprintf("%s/%s", home ? home : "", a->sign);
	return fs_exists(AT_FDCWD, sign) || (a->project && fs_exists(AT_FDCWD, a->project));
}

static bool is_wanted(const struct work *w, const struct agent *a)
{
	if (!w->o->agents)
		return is_there(a);
	for (char **v = w->o->agents; *v; v++)
		if (!strcmp(*v, "all") || !strcmp(*v, a->name))
			return true;
	return false;
}

// --- what ---

// By name where that finds us: the file may be shared with others.
static char *program(const char *name, struct err *e)
{
	const char *path = getenv("PATH");
	auto_free char *self = home_program(name, e), *real = self ? realpath(self, NULL) : NULL;
	struct str rest = str_of(path ? path : ""), dir;
	if (!self)
		return NULL;
	while (real && str_next(&rest, ':', &dir)) {
		auto_free char *there = xasprintf("%.*s/%s", (int)dir.n, dir.p, name);
		auto_free char *found = access(there, X_OK) ? NULL : realpath(there, NULL);
		if (found)
			return xstrdup(strcmp(found, real) ? self : name);
	}
	return take(&self);
}

static void prepare_env(struct work *w)
{
	static const char *const names[] = {"SKEP_HOME", "SKEP_HOST"}; // a token stays out of files
	auto_buf struct buf json = BUF_INIT(16u << 10), toml = BUF_INIT(16u << 10);
	for (size_t i = 0; i < countof(names); i++) {
		auto_buf struct buf value = BUF_INIT(8192);
		struct jsonw v = {.b = &value};
		const char *now = getenv(names[i]);
		if (!now || !*now)
			continue;
		jw_str(&v, now, strlen(now));
		buf_fmt(&json, "%s\"%s\": %s", json.n ? ", " : "{ ", names[i], buf_cstr(&value));
		buf_fmt(&toml, "%s%s = %s", toml.n ? ", " : "{ ", names[i], buf_cstr(&value));
	}
	w->env = json.n ? xasprintf("%s }", buf_cstr(&json)) : NULL;
	w->env_toml = toml.n ? xasprintf("%s }", buf_cstr(&toml)) : NULL;
}

static int prepare(struct work *w, struct err *e)
{
	auto_free char *skep = program("skep", e);
	auto_buf struct buf one = BUF_INIT(64u << 10), args = BUF_INIT(64u << 10), both = BUF_INIT(64u << 10);
	struct jsonw a = {.b = &one};
	if (!skep)
		return -1;
	jw_str(&a, skep, strlen(skep));
	buf_str(&args, "\"mcp\", \"--new\"");
	for (char *const *x = w->extra; *x; x++) {
		struct jsonw v = {.b = &args};
		buf_str(&args, ", ");
		jw_str(&v, *x, strlen(*x));
	}
	buf_fmt(&both, "[%s, %s]", buf_cstr(&one), buf_cstr(&args));
	w->args = xasprintf("[%s]", buf_cstr(&args));
	w->command = buf_take(&one);
	w->both = buf_take(&both);
	prepare_env(w);
	return args.overflow || both.overflow ? err_set(e, ERR_LIMIT, "the arguments are too long") : 0;
}

static enum edit set_members(struct buf *t, const char *top, const struct toml_key *m, struct err *e)
{
	const char *entry[] = {top, "skep", NULL, NULL};
	enum edit rc = EDIT_SAME;
	if (!jsonc_has(t, entry)) {
		auto_buf struct buf value = BUF_INIT(64u << 10);
		for (; m->name; m++)
			buf_fmt(&value, "%s\"%s\": %s", value.n ? ", " : "{ ", m->name, m->value);
		buf_str(&value, " }");
		return jsonc_set(t, entry, buf_cstr(&value), e);
	}
	for (; m->name; m++) {
		entry[2] = m->name;
		enum edit one = jsonc_set(t, entry, m->value, e);
		if (one == EDIT_FAILED)
			return one;
		rc = one == EDIT_DONE ? one : rc;
	}
	return rc;
}

static enum edit change(const struct work *w, const struct agent *a, struct buf *t, struct err *e)
{
	const struct toml_key plain[] = {{"command", w->command}, {"args", w->args}, {w->env ? "env" : NULL, w->env}, {0}};
	const struct toml_key timed[] = {
		{"command", w->command}, {"args", w->args}, {"tool_timeout_sec", "330"}, {w->env ? "env" : NULL, w->env_toml}, {0}};
	const struct toml_key local[] = {
		{"type", "\"local\""}, {"command", w->both}, {w->env ? "environment" : NULL, w->env}, {0}};
	const char *top = a->form == FORM_OPENCODE ? "mcp" : "mcpServers";
	const char *entry[] = {top, "skep", NULL};
	if (a->form == FORM_TOML)
		return w->o->remove ? toml_remove(t, "mcp_servers.skep", e) : toml_set(t, "mcp_servers.skep", timed, e);
	if (w->o->remove)
		return jsonc_remove(t, entry, e);
	return set_members(t, top, a->form == FORM_OPENCODE ? local : plain, e);
}

// --- files ---

static int read_file(const char *path, struct buf *t, mode_t *mode, struct err *e)
{
	struct stat st;
	if (stat(path, &st))
		return errno == ENOENT ? 0 : err_sys(e, "%s", path);
	*mode = st.st_mode & 0777;
	return fs_read(AT_FDCWD, path, t, e);
}

static int write_file(const char *path, const struct buf *t, mode_t mode, struct err *e)
{
	auto_free char *real = realpath(path, NULL), *dir = xstrdup(real ? real : path);
	char *slash = strrchr(dir, '/');
	if (slash && slash != dir) {
		*slash = 0;
		if (fs_mkdirs(AT_FDCWD, dir, 0755, e))
			return -1;
	}
	return fs_replace(AT_FDCWD, real ? real : path, t->p ? t->p : "", t->n, mode, e); // through a link, not over it
}

static void tell(struct work *w, const char *name, const char *path, const char *what)
{
	table_add(&w->table, name);
	table_add(&w->table, path);
	table_add(&w->table, what);
}

static void complain(struct work *w, const char *name, const char *path, const struct err *e)
{
	auto_free char *what = xasprintf("left alone: %s. skep init --agent %s --print shows what to add", e->msg, name);
	tell(w, name, path, what);
	w->status = out_exit_of(e->kind);
}

static void print_file(const char *path, const struct buf *t)
{
	auto_buf struct buf b = BUF_INIT(2 * FILE_MAX);
	buf_fmt(&b, "# %s\n", path);
	buf_add(&b, t->p, t->n);
	buf_str(&b, t->n && t->p[t->n - 1] == '\n' ? "" : "\n");
	out_flush(&b);
}

typedef enum edit change_fn(const struct work *w, const struct agent *a, struct buf *t, struct err *e);

static void do_file(struct work *w, const struct agent *a, const char *path, change_fn *fn)
{
	struct err e;
	mode_t mode = 0644;
	auto_buf struct buf t = BUF_INIT(FILE_MAX);
	bool bad = !w->o->print && read_file(path, &t, &mode, &e);
	bool new = !t.n;
	enum edit rc = bad ? EDIT_FAILED : fn(w, a, &t, &e);
	if (rc == EDIT_FAILED) {
		complain(w, a->name, path, &e);
		return;
	}
	if (w->o->print) {
		print_file(path, &t);
		return;
	}
	bool empty = w->o->remove && rc == EDIT_DONE && (a->form == FORM_TOML ? !t.n : jsonc_is_empty(&t));
	if (rc == EDIT_DONE && (empty ? unlink(path) && err_sys(&e, "remove %s", path) : write_file(path, &t, mode, &e)))
		complain(w, a->name, path, &e);
	else
		tell(w, a->name, path, rc == EDIT_SAME ? w->o->remove ? "not there" : "as it should be" : w->o->remove ? "removed" : new ? "made" : "changed");
}

// --- Claude Code's shell ---

static enum edit change_wrap(const struct work *w, const struct agent *a, struct buf *t, struct err *e)
{
	static const char *const entry[] = {"env", "CLAUDE_CODE_SHELL_PREFIX", NULL};
	auto_free char *self = home_program("skep-wrap", e);
	auto_buf struct buf value = BUF_INIT(8192);
	struct jsonw v = {.b = &value};
	(void)a;
	if (w->o->remove)
		return jsonc_remove(t, entry, e);
	if (!self)
		return EDIT_FAILED;
	jw_str(&v, self, strlen(self)); // Claude Code takes a path without arguments
	return jsonc_set(t, entry, buf_cstr(&value), e);
}

static void do_wrap(struct work *w)
{
	const char *home = getenv("HOME");
	auto_free char *path = w->o->user ? xasprintf("%s/.claude/settings.json", home ? home : "") : xstrdup(".claude/settings.local.json");
	do_file(w, &agents[0], path, change_wrap);
}

static int init_run(const struct call *c)
{
	struct err e;
	struct work w = {.o = c->opts, .extra = c->words, .table.n_cols = 3};
	int n = 0;
	if (c->n_words && c->n_before_dashes != 0) {
		err_set(&e, ERR_INVALID, "arguments of skep mcp go behind --");
		return out_usage(c, &e);
	}
	if (prepare(&w, &e))
		return out_fail(c, &e);
	if (w.o->wrap) {
		do_wrap(&w);
		n++;
	}
	for (size_t i = 0; i < countof(agents) && !w.o->wrap; i++) {
		auto_free char *path = is_wanted(&w, &agents[i]) ? place(&w, &agents[i]) : NULL;
		if (!path)
			continue;
		do_file(&w, &agents[i], path, change);
		n++;
	}
	auto_buf struct buf b = BUF_INIT(1 << 20);
	table_print(&w.table, &b);
	free(w.command);
	free(w.args);
	free(w.both);
	free(w.env);
	free(w.env_toml);
	if (n) {
		int rc = out_flush(&b);
		return w.status ? w.status : rc;
	}
	err_set(&e, ERR_NOT_FOUND, "no agent was found: name one with --agent (claude, codex, cursor, gemini, qwen, opencode, or all)");
	return out_fail(c, &e);
}

const struct cmd cmd_init = {
	.name = "init",
	.args = "[-- ARG...]",
	.help = "give agents their sandboxes: write the entry for skep mcp into their configuration",
	.notes = "The entry starts `skep mcp --new` in the project; ARGs are added to it, such as -- --net registries. Project files:\n"
		 ".mcp.json (Claude Code), .cursor/mcp.json, .gemini/settings.json, .qwen/settings.json, opencode.json; Codex has its own,\n"
		 "~/.codex/config.toml. Everything else in these files stays as it is.",
	.opts = init_opts,
	.opts_size = sizeof(struct init_opts),
	.max_words = -1,
	.tail = -1,
	.run = init_run,
};

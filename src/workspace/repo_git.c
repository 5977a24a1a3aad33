// SPDX-License-Identifier: Apache-2.0
#include "workspace/repo_git.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

// What a caller's git, ssh and credential helpers need, and nothing that would move git to another repository.
static const char *const passed[] = {
	"HOME",
	"USER",
	"LOGNAME",
	"XDG_CONFIG_HOME",
	"XDG_CACHE_HOME",
	"XDG_RUNTIME_DIR",
	"DBUS_SESSION_BUS_ADDRESS",
	"DISPLAY",
	"WAYLAND_DISPLAY",
	"SSH_AUTH_SOCK",
	"SSH_ASKPASS",
	"SSH_ASKPASS_REQUIRE",
	"GIT_ASKPASS",
	"GIT_SSH",
	"GIT_SSH_COMMAND",
	"GIT_SSH_VARIANT",
	"GIT_SSL_CAINFO",
	"GIT_SSL_CAPATH",
	"GIT_SSL_CERT",
	"GIT_SSL_KEY",
	"SSL_CERT_FILE",
	"SSL_CERT_DIR",
	"GIT_CONFIG_GLOBAL",
	"GIT_CONFIG_SYSTEM",
	"GIT_CONFIG_NOSYSTEM",
	"GIT_PROXY_COMMAND",
	"KRB5CCNAME",
	"GNUPGHOME",
	"TMPDIR",
	"http_proxy",
	"https_proxy",
	"all_proxy",
	"no_proxy",
	"HTTP_PROXY",
	"HTTPS_PROXY",
	"ALL_PROXY",
	"NO_PROXY",
};

// Whoever may be the one to configure what: nothing of this ever runs.
static const char *const off[] = {
	"core.hooksPath=/dev/null",  "core.fsmonitor=false",
	"core.untrackedCache=false", "gc.auto=0",
	"maintenance.auto=false",    "core.pager=cat",
	"core.editor=false",	     "credential.interactive=false",
	"advice.detachedHead=false", "protocol.ext.allow=never",
};

void git_init(struct git_run *g, enum git_env env, const char *dir)
{
	*g = (struct git_run){.env = env, .dir = dir, .in = -1, .hold = -1, .status = -1, .said = {-1, -1}};
	g->out = BUF_INIT(64u << 20);
	g->err = BUF_INIT(64u << 10);
}

void git_done(struct git_run *g)
{
	strv_free(g->args);
	strv_free(g->vars);
	buf_done(&g->out);
	buf_done(&g->err);
	close_fd(&g->said[0]);
	close_fd(&g->said[1]);
}

void git_arg(struct git_run *g, const char *arg)
{
	strv_add(&g->args, arg);
}

void git_args(struct git_run *g, ...)
{
	va_list ap;
	va_start(ap, g);
	for (const char *a; (a = va_arg(ap, const char *));)
		git_arg(g, a);
	va_end(ap);
}

void git_var(struct git_run *g, const char *var)
{
	strv_add(&g->vars, var);
}

int git_stdin(const char *p, size_t n, struct err *e)
{
	auto_fd int fd = memfd_create("stdin", MFD_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "memfd_create");
	if (fs_write_all(fd, p, n, e))
		return -1;
	return lseek(fd, 0, SEEK_SET) < 0 ? err_sys(e, "lseek") : take_fd(&fd);
}

// The system's own first: a project may have put a directory of its own on the caller's PATH.
static char *find_git(void)
{
	const char *path = getenv("PATH");
	auto_free char *all = xasprintf("/usr/local/bin:/usr/bin:/bin:%s", path ? path : "");
	return proc_find(all, "git");
}

static char **environment(const struct git_run *g)
{
	char **env = NULL;
	const char *path = getenv("PATH");
	auto_free char *p =
		xasprintf("PATH=%s", path && *path && g->env == GIT_CALLER ? path : "/usr/local/bin:/usr/bin:/bin");
	strv_add(&env, p);
	strv_add(&env, "LC_ALL=C");
	strv_add(&env, "GIT_TERMINAL_PROMPT=0");
	strv_add(&env, "GIT_OPTIONAL_LOCKS=0");
	for (size_t i = 0; g->env == GIT_CALLER && i < countof(passed); i++) {
		const char *v = getenv(passed[i]);
		auto_free char *kv = v ? xasprintf("%s=%s", passed[i], v) : NULL;
		if (kv)
			strv_add(&env, kv);
	}
	if (g->env == GIT_ALONE) {
		strv_add(&env, "HOME=/nonexistent");
		strv_add(&env, "GIT_CONFIG_NOSYSTEM=1");
		strv_add(&env, "GIT_CONFIG_GLOBAL=/dev/null");
		strv_add(&env, "GIT_ATTR_NOSYSTEM=1");
	}
	for (char **v = g->vars; v && *v; v++)
		strv_add(&env, *v);
	return env;
}

static char **command(const struct git_run *g)
{
	char **argv = NULL;
	strv_add(&argv, "git");
	for (size_t i = 0; i < countof(off); i++) {
		strv_add(&argv, "-c");
		strv_add(&argv, off[i]);
	}
	if (g->env == GIT_ALONE) {
		strv_add(&argv, "-c");
		strv_add(&argv, "protocol.allow=never");
	}
	auto_free char *dir = g->dir ? xasprintf("--git-dir=%s", g->dir) : NULL,
		       *tree = g->tree ? xasprintf("--work-tree=%s", g->tree) : NULL;
	if (dir)
		strv_add(&argv, dir);
	if (tree)
		strv_add(&argv, tree);
	if (!g->patterns)
		strv_add(&argv, "--literal-pathspecs"); // a path is a path, also ":!x": sandboxes choose their names
	for (char **a = g->args; a && *a; a++)
		strv_add(&argv, *a);
	return argv;
}

static pid_t spawn(const struct git_run *g, int in, int out, int err, struct err *e)
{
	auto_free char *git = find_git();
	if (!git)
		return err_set(e, ERR_UNSUPPORTED, "git is not installed; install it to work with repositories");
	struct proc_fd fds[4] = {{out, 1}, {err, 2}};
	int n = 2;
	if (in >= 0)
		fds[n++] = (struct proc_fd){in, 0};
	if (g->hold >= 0)
		fds[n++] = (struct proc_fd){g->hold, 9};
	char **argv = command(g), **env = environment(g);
	pid_t pid = proc_spawn(&(struct proc_spec){.path = git, .argv = argv, .env = env, .fds = fds, .n_fds = n}, e);
	strv_free(argv);
	strv_free(env);
	return pid;
}

// One read. Of stdout all counts, and what is too much is an overflow; of stderr the end counts.
static void drain(struct git_run *g, int *fd, bool is_err)
{
	char block[16384];
	struct buf *b = is_err ? &g->err : &g->out;
	struct err ignored;
	ssize_t n = read(*fd, block, sizeof block);
	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0)
		return close_fd(fd);
	if (is_err && b->n + (size_t)n > b->max)
		buf_cut(b, b->n / 2);
	buf_add(b, block, (size_t)n);
	if (!is_err || !g->relay)
		return;
	for (ssize_t i = 0; i < n; i++)
		if (block[i] == '\r')
			block[i] = '\n'; // made for a terminal; here every step is a line
	if (fs_write_all(STDERR_FILENO, block, (size_t)n, &ignored))
		g->relay = false; // nobody listens
}

static void collect(struct git_run *g, int out, int err)
{
	while (out >= 0 || err >= 0) {
		struct pollfd p[2] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			break;
		if (out >= 0 && p[0].revents)
			drain(g, &out, false);
		if (err >= 0 && p[1].revents)
			drain(g, &err, true);
	}
	close_fd(&out);
	close_fd(&err);
}

static int wait_for(pid_t pid, int *status)
{
	while (waitpid(pid, status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return 0;
}

int git_start(struct git_run *g, struct err *e)
{
	int o[2], r[2];
	if (pipe2(o, O_CLOEXEC))
		return err_sys(e, "pipe");
	auto_fd int out = o[0], out_w = o[1];
	if (pipe2(r, O_CLOEXEC))
		return err_sys(e, "pipe");
	auto_fd int err = r[0], err_w = r[1];
	pid_t pid = spawn(g, g->in, out_w, err_w, e);
	if (pid < 0)
		return -1;
	close_fd(&out_w);
	close_fd(&err_w);
	collect(g, take_fd(&out), take_fd(&err));
	if (wait_for(pid, &g->status))
		return err_sys(e, "wait for git");
	return g->out.overflow ? err_set(e, ERR_LIMIT, "git %s answers more than %zu bytes", g->args[0], g->out.max)
			       : 0;
}

const char *git_output(struct git_run *g)
{
	if (g->out.n && g->out.p[g->out.n - 1] == '\n')
		g->out.p[--g->out.n] = 0;
	return buf_cstr(&g->out);
}

const char *git_said(struct git_run *g)
{
	static const char *const heads[] = {"fatal: ", "error: ", "remote: "};
	const char *said = NULL, *any = "";
	for (size_t i = 0; i < g->err.n; i++)
		if (g->err.p[i] == '\r')
			g->err.p[i] = '\n';
	struct str rest = str_of(buf_cstr(&g->err)), line;
	while (str_next(&rest, '\n', &line)) {
		if (!line.n)
			continue;
		if (line.p[line.n] == '\n')
			g->err.p[line.p - g->err.p + (ptrdiff_t)line.n] = 0;
		any = line.p;
		for (size_t i = 0; i < countof(heads); i++)
			if (str_has_prefix(line.p, heads[i]) && (!said || i == 0))
				said = line.p + strlen(heads[i]);
	}
	return said ? said : any;
}

int git_must(struct git_run *g, struct err *e)
{
	if (git_start(g, e))
		return -1;
	if (!g->status)
		return 0;
	const char *why = git_said(g);
	return err_set(e, strstr(why, "No space left") ? ERR_LIMIT : ERR_SYSTEM, "git %s: %.400s", g->args[0],
		       *why ? why : "failed");
}

int git_open(struct git_run *g, int *out_in, struct err *e)
{
	int p[2];
	for (int i = 0; i < 2; i++)
		if ((g->said[i] = memfd_create("said", MFD_CLOEXEC)) < 0)
			return err_sys(e, "memfd_create");
	if (pipe2(p, O_CLOEXEC))
		return err_sys(e, "pipe");
	auto_fd int r = p[0], w = p[1];
	g->pid = spawn(g, r, g->said[0], g->said[1], e);
	if (g->pid < 0)
		return -1;
	*out_in = take_fd(&w);
	return 0;
}

int git_finish(struct git_run *g, struct err *e)
{
	if (wait_for(g->pid, &g->status))
		return err_sys(e, "wait for git");
	if (lseek(g->said[0], 0, SEEK_SET) < 0 || lseek(g->said[1], 0, SEEK_SET) < 0)
		return err_sys(e, "lseek");
	return fs_read_fd(g->said[0], &g->out, e) || fs_read_fd(g->said[1], &g->err, e) ? -1 : 0;
}

// SPDX-License-Identifier: Apache-2.0
// The tests are a program of their own (skep-attack) that shares nothing with us but its command line. Here
// it gets a project of its own with a copy of itself, canaries on the host to aim at, and cells to run in,
// made with the same `skep run` and `skep exec` that a user would type.
#include "cli/attack.h"

#include "base/fs.h"
#include "base/home.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/home.h"
#include "cli/out.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_MAX (1u << 20)
#define MEMORY "536870912" // limits of the test cells, small enough to reach
#define PIDS "128"	   // as many as fit into the memory
#define DISK "536870912"
#define NAME "canary.test" // what a rule allows: the canary's port on the host, under this name only

struct attack {
	char *program, *top, *project, *host, *inside; // inside: the copy in the project
	char **env;				       // "K=V" for the tests
	char *rule;				       // NULL = none
	char id[32];				       // sandbox for exec
	pid_t server;				       // host-serve
	int server_in;				       // it ends when this closes
	struct err *e;
};

// Collects stdout; stderr is dropped, since some tests flood it. Exit status, or -1.
static int run_program(const char *path, char **argv, struct buf *out, struct err *e)
{
	int p[2], status;
	if (pipe2(p, O_CLOEXEC))
		return err_sys(e, "pipe");
	auto_fd int r = p[0], w = p[1];
	struct proc_fd fds[] = {{w, 1}};
	pid_t pid = proc_spawn(&(struct proc_spec){.path = path, .argv = argv, .fds = fds, .n_fds = 1}, e);
	if (pid < 0)
		return -1;
	close_fd(&w);
	int rc = fs_read_fd(r, out, e);
	close_fd(&r);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (rc)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// skep-attack VERB ARG on the host.
static int on_host(struct attack *a, const char *verb, const char *arg, struct buf *out)
{
	char **argv = NULL;
	strv_add(&argv, "skep-attack");
	strv_add(&argv, verb);
	if (arg)
		strv_add(&argv, arg);
	int rc = run_program(a->program, argv, out, a->e);
	strv_free(argv);
	return rc;
}

static void add_env_lines(struct attack *a, struct buf *text)
{
	struct str rest = {text->p, text->n}, line;
	while (text->n && str_next(&rest, '\n', &line)) {
		auto_free char *kv = xstrndup(line.p, line.n);
		if (strchr(kv, '=') && str_is_utf8(kv, line.n))
			strv_add(&a->env, kv);
	}
}

static int copy_file(const char *from, const char *to, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(64u << 20);
	if (fs_read(AT_FDCWD, from, &b, e))
		return -1;
	return fs_write(AT_FDCWD, to, b.p, b.n, 0755, e);
}

static int make_places(struct attack *a)
{
	const char *tmp = getenv("TMPDIR");
	a->top = xasprintf("%s/skep-attack-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
	if (!mkdtemp(a->top))
		return err_sys(a->e, "make %s", a->top);
	a->project = xasprintf("%s/project", a->top);
	a->host = xasprintf("%s/host", a->top);
	a->inside = xasprintf("%s/skep-attack", a->project);
	if (mkdir(a->project, 0755) || chdir(a->project))
		return err_sys(a->e, "%s", a->project);
	return copy_file(a->program, a->inside, a->e);
}

// Reads the server's variables up to the one that says it is ready.
static int read_ready(struct attack *a, int fd)
{
	auto_buf struct buf b = BUF_INIT(TEXT_MAX);
	while (!b.n || !memmem(b.p, b.n, "SKEP_ATTACK_READY=", 18)) {
		char *room = buf_room(&b, 4096);
		ssize_t n = room ? read(fd, room, 4096) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(a->e, ERR_SYSTEM, "skep-attack host-serve ended early");
		b.n += (size_t)n;
	}
	add_env_lines(a, &b);
	return 0;
}

static int start_server(struct attack *a)
{
	int in[2], out[2];
	char name[] = "skep-attack", verb[] = "host-serve";
	char *argv[] = {name, verb, a->host, NULL};
	if (pipe2(in, O_CLOEXEC))
		return err_sys(a->e, "pipe");
	a->server_in = in[1];
	auto_fd int child_in = in[0];
	if (pipe2(out, O_CLOEXEC))
		return err_sys(a->e, "pipe");
	auto_fd int from = out[0], child_out = out[1];
	struct proc_fd fds[] = {{child_in, 0}, {child_out, 1}, {STDERR_FILENO, 2}};
	a->server = proc_spawn(&(struct proc_spec){.path = a->program, .argv = argv, .fds = fds, .n_fds = 3}, a->e);
	if (a->server < 0)
		return -1;
	close_fd(&child_out);
	return read_ready(a, from);
}

// `skep VERB…` with the limits and variables every test gets.
static char **skep_argv(const struct attack *a, const char *verb)
{
	static const char *const limits[] = {"--memory", MEMORY, "--pids", PIDS, "--disk", DISK};
	char **argv = NULL;
	strv_add(&argv, "skep");
	strv_add(&argv, verb);
	for (size_t i = 0; strcmp(verb, "exec") && i < countof(limits); i++)
		strv_add(&argv, limits[i]);
	for (size_t i = 0; a->rule && strcmp(verb, "exec") && i < 2; i++)
		strv_add(&argv, i ? a->rule : "--allow");
	for (char **kv = a->env; *kv; kv++) {
		strv_add(&argv, "--env");
		strv_add(&argv, *kv);
	}
	return argv;
}

static int run_skep(char **argv, struct buf *out, struct err *e)
{
	int rc = run_program("/proc/self/exe", argv, out, e);
	strv_free(argv);
	return rc;
}

static int make_sandbox(struct attack *a)
{
	auto_buf struct buf b = BUF_INIT(TEXT_MAX);
	int rc = run_skep(skep_argv(a, "new"), &b, a->e);
	if (rc > 0)
		return err_set(a->e, ERR_SYSTEM, "skep new ended with status %d", rc);
	const char *text = buf_cstr(&b);
	return rc || fmt_to(a->id, sizeof a->id, "%.*s", (int)strcspn(text, "\n"), text) ? -1 : 0;
}

// So that the gate serves while it is attacked.
static void add_rule(struct attack *a)
{
	static const char port[] = "SKEP_ATTACK_TCP=";
	for (char **kv = a->env; *kv && !a->rule; kv++)
		if (str_has_prefix(*kv, port))
			a->rule = xasprintf(NAME ":%s=127.0.0.1", *kv + strlen(port));
	strv_add(&a->env, "SKEP_ATTACK_NAME=" NAME);
}

static int prepare(struct attack *a)
{
	auto_buf struct buf b = BUF_INIT(TEXT_MAX);
	struct err *e = a->e;
	a->program = home_program("skep-attack", e);
	auto_free char *home = home_dir(getenv("HOME"), e);
	if (!a->program || !home || make_places(a))
		return -1;
	int rc = on_host(a, "host-prepare", a->host, &b);
	if (rc)
		return rc < 0 ? -1 : err_set(e, ERR_SYSTEM, "skep-attack host-prepare ended with status %d", rc);
	add_env_lines(a, &b);
	auto_free char *own = xasprintf("SKEP_ATTACK_SKEP_HOME=%s", home);
	strv_add(&a->env, own);
	strv_add(&a->env, "SKEP_ATTACK_MEM=" MEMORY);
	strv_add(&a->env, "SKEP_ATTACK_PIDS=" PIDS);
	// Not the disk limit: where it is supervised, reaching it stops the whole cell, the test with it.
	if (start_server(a))
		return -1;
	add_rule(a);
	return make_sandbox(a);
}

static void tidy(struct attack *a)
{
	struct err ignored; // what went wrong before is what counts
	auto_buf struct buf b = BUF_INIT(TEXT_MAX);
	a->e = &ignored;
	char skep[] = "skep", rm[] = "rm", force[] = "--force";
	char *argv[] = {skep, rm, force, a->id, NULL};
	if (a->id[0] && run_program("/proc/self/exe", argv, &b, &ignored) < 0)
		out_stderr(&b);
	close_fd(&a->server_in);
	if (a->server > 0)
		waitpid(a->server, NULL, 0);
	if (a->program && a->host)
		on_host(a, "host-clean", a->host, &b);
	if (!chdir("/") && a->top && fs_remove_tree(AT_FDCWD, a->top, &ignored))
		out_stderr(&b);
	free(a->program);
	free(a->rule);
	free(a->top);
	free(a->project);
	free(a->host);
	free(a->inside);
	strv_free(a->env);
}

enum verdict { CONTAINED, SKIPPED, ESCAPED, NO_VERDICT, VERDICTS };
static const char *const verdict_names[] = {"contained", "skipped", "ESCAPED", "NO VERDICT"};

// The line is `T-001 CONTAINED detail`; anything else is no good news.
static enum verdict judge(struct buf *out, const char *test, const char **out_detail)
{
	static const char *const words[] = {"CONTAINED", "SKIPPED", "ESCAPED"};
	char *line = out->n ? out->p : NULL;
	size_t n = strlen(test);
	*out_detail = "no verdict was printed";
	if (!line || strncmp(line, test, n) || line[n] != ' ')
		return NO_VERDICT;
	line[strcspn(line, "\n")] = 0;
	for (int v = 0; v < NO_VERDICT; v++)
		if (str_has_prefix(line + n + 1, words[v])) {
			*out_detail = line + n + 1 + strlen(words[v]);
			return (enum verdict)v;
		}
	return NO_VERDICT;
}

static enum verdict run_once(struct attack *a, const char *test, bool first, struct buf *out, const char **out_detail)
{
	char **argv = skep_argv(a, first ? "run" : "exec");
	if (!first)
		strv_add(&argv, a->id);
	strv_add(&argv, "--");
	strv_add(&argv, a->inside);
	strv_add(&argv, "inside");
	strv_add(&argv, test);
	struct err e;
	*out_detail = "skep failed";
	return run_skep(argv, out, &e) < 0 ? NO_VERDICT : judge(out, test, out_detail);
}

// A probe that uses the machine up may be the first to die of it: once more before that is called a result.
static enum verdict run_test(struct attack *a, const char *test, bool first, struct buf *out, const char **out_detail)
{
	enum verdict v = run_once(a, test, first, out, out_detail);
	if (v != NO_VERDICT)
		return v;
	buf_clear(out);
	return run_once(a, test, first, out, out_detail);
}

static enum verdict worse(enum verdict a, enum verdict b)
{
	return a > b ? a : b;
}

static enum verdict add_test(struct attack *a, struct str id, struct str title, struct table *t)
{
	auto_buf struct buf out1 = BUF_INIT(TEXT_MAX), out2 = BUF_INIT(TEXT_MAX);
	auto_free char *test = xstrndup(id.p, id.n), *text = xstrndup(title.p, title.n);
	const char *detail1, *detail2;
	enum verdict first = run_test(a, test, true, &out1, &detail1), exec = run_test(a, test, false, &out2, &detail2);
	enum verdict both = worse(first, exec);
	table_add(t, test);
	table_add(t, text);
	table_add(t, verdict_names[first]);
	table_add(t, verdict_names[exec]);
	table_add(t, both == CONTAINED ? "ok" : first == both ? detail1 : detail2);
	return both;
}

// `T-001<TAB>severity<TAB>title`, or without the severity: the title is what comes last.
static int run_tests(struct attack *a, struct table *t, int counts[VERDICTS])
{
	auto_buf struct buf list = BUF_INIT(TEXT_MAX);
	int rc = on_host(a, "list", NULL, &list);
	if (rc)
		return rc < 0 ? -1 : err_set(a->e, ERR_SYSTEM, "skep-attack list ended with status %d", rc);
	struct str rest = {list.p, list.n}, line;
	while (list.n && str_next(&rest, '\n', &line)) {
		const char *tab = memchr(line.p, '\t', line.n), *last = tab ? memrchr(line.p, '\t', line.n) : NULL;
		if (!tab)
			continue;
		struct str id = {line.p, (size_t)(tab - line.p)},
			   title = {last + 1, line.n - (size_t)(last + 1 - line.p)};
		counts[add_test(a, id, title, t)]++;
	}
	return 0;
}

static int report(struct table *t, const int counts[VERDICTS])
{
	auto_buf struct buf b = BUF_INIT(16u << 20);
	table_print(t, &b);
	buf_fmt(&b, "%d contained, %d skipped, %d escaped, %d without a verdict\n", counts[CONTAINED], counts[SKIPPED],
		counts[ESCAPED], counts[NO_VERDICT]);
	return out_flush(&b) || counts[ESCAPED] || counts[NO_VERDICT] || !counts[CONTAINED];
}

static int report_json(struct table *t, const int counts[VERDICTS])
{
	static const char *const columns[] = {"test", "title", "first", "exec", "result"};
	static const char *const names[] = {
		[CONTAINED] = "contained", [SKIPPED] = "skipped", [ESCAPED] = "escaped", [NO_VERDICT] = "no_verdict"};
	auto_buf struct buf b = BUF_INIT(16u << 20);
	struct jsonw w = {.b = &b};
	size_t n = countof(columns);
	struct err e;
	jw_open(&w, '{');
	jw_key(&w, "tests");
	jw_open(&w, '[');
	for (size_t i = n; i + n <= t->n_cells; i += n) { // behind the heads
		jw_open(&w, '{');
		for (size_t k = 0; k < n; k++)
			jw_kstr(&w, columns[k], t->cells[i + k]);
		jw_close(&w, '}');
	}
	jw_close(&w, ']');
	for (int i = 0; i < VERDICTS; i++)
		jw_ki64(&w, names[i], counts[i]);
	jw_close(&w, '}');
	auto_json json_t *o = json_read(buf_cstr(&b), b.n, &e);
	return !o || out_json(o) || counts[ESCAPED] || counts[NO_VERDICT] || !counts[CONTAINED];
}

int attack_run(const struct call *c, bool json)
{
	static const char *const heads[] = {"TEST", "TITLE", "FIRST", "EXEC", "RESULT"};
	struct err e;
	struct attack a = {.server_in = -1, .e = &e};
	struct table t = {.n_cols = countof(heads)};
	int counts[VERDICTS] = {0};
	for (size_t i = 0; i < countof(heads); i++)
		table_add(&t, heads[i]);
	int rc = prepare(&a) || run_tests(&a, &t, counts);
	tidy(&a);
	if (rc)
		return out_fail(c, &e);
	return json ? report_json(&t, counts) : report(&t, counts);
}

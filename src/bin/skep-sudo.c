// SPDX-License-Identifier: Apache-2.0
// skep-sudo: what a sandbox with a root of its own sees as `sudo` (init/sudo.h). It has no rights and needs none.
#include "base/mem.h"
#include "sudo/args.h"
#include "sudo/request.h"
#include "sudo/run.h"
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int fail(const struct err *e)
{
	fprintf(stderr, "sudo: %s\n", e->msg);
	return 1;
}

static struct passwd *account(const char *name)
{
	struct passwd *pw = getpwnam(name);
	char *end;
	unsigned long uid = pw || !*name ? 0 : strtoul(name, &end, 10);
	return pw || !*name || *end ? pw : getpwuid((uid_t)uid);
}

// Ends as the command did: who called us sees the same.
static int end_like(int status)
{
	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	int sig = WTERMSIG(status);
	sigset_t one;
	setrlimit(RLIMIT_CORE, &(struct rlimit){0});
	signal(sig, SIG_DFL);
	sigemptyset(&one);
	sigaddset(&one, sig);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	raise(sig);
	return 128 + sig;
}

static int run(const struct sudo_args *a)
{
	struct err e;
	struct exec_spec s;
	int status;
	struct passwd *pw = getpwuid(getuid());
	auto_free char *caller = pw ? xstrdup(pw->pw_name) : xasprintf("#%u", getuid());
	auto_free char *shell = pw ? xstrdup(pw->pw_shell) : NULL;
	const char *own = getenv("SHELL");
	struct sudo_caller by = {.name = caller, .shell = own && *own ? own : shell, .uid = getuid(), .gid = getgid(), .env = environ};
	pw = account(a->user);
	struct sudo_account as = {pw ? pw->pw_name : a->user, pw ? pw->pw_dir : "/", pw && *pw->pw_shell ? pw->pw_shell : "/bin/sh"};
	if (!pw && strspn(a->user, "0123456789") != strlen(a->user)) {
		err_set(&e, ERR_NOT_FOUND, "unknown user %s", a->user);
		return fail(&e);
	}
	sudo_request(a, &by, &as, &s);
	s.cwd = a->chdir ? xstrdup(a->chdir) : a->login ? xstrdup(as.home) : NULL;
	pid_t behind = a->background ? fork() : 0;
	if (behind)
		return behind < 0;
	return sudo_run(&s, a->background, &status, &e) ? fail(&e) : end_like(status);
}

int main(int argc, char **argv)
{
	struct err e;
	struct sudo_args a;
	char host[256] = "";
	if (argc < 1 || sudo_args_parse(argv, &a, &e)) {
		fail(&e);
		fputs(sudo_usage, stderr);
		return 1;
	}
	switch (a.what) {
	case SUDO_RUN:
		return run(&a);
	case SUDO_NOTHING:
		return 0;
	case SUDO_LIST:
		gethostname(host, sizeof host - 1);
		if (*a.command)
			return puts(*a.command) < 0;
		return printf("User uid %u may run the following commands on %s:\n    (ALL : ALL) NOPASSWD: ALL\n", getuid(), host) < 0;
	case SUDO_VERSION:
		return puts("Sudo of a skep sandbox, for the options of sudo 1.9") < 0;
	case SUDO_HELP:
		return fputs(sudo_usage, stdout) < 0;
	}
	return 1;
}

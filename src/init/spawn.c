// SPDX-License-Identifier: Apache-2.0
#include "init/spawn.h"

#include "base/proc.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK (128u << 10)

#define DOOMED 500
#define SCORE_MAX 1000

static struct {
	int fd;
	int spared; // nobody may go below what a service manager gave us
} score = {.fd = -1};

void spawn_score(int fd)
{
	char text[16] = "";
	uint64_t was = 0;
	if (fd >= 0 && pread(fd, text, sizeof text - 1, 0) > 0)
		(void)!str_to_u64((struct str){text, strcspn(text, "\n")}, 0, SCORE_MAX, &was); // one below 0 can be raised to 0
	score.fd = fd;
	score.spared = (int)was;
}

static const struct sock_fprog *filter;

void spawn_filter(const struct sock_fprog *program)
{
	filter = program;
}

bool spawn_is_stopped(pid_t child)
{
	siginfo_t si = {0};
	return !waitid(P_PID, (id_t)child, &si, WSTOPPED | WNOHANG | WNOWAIT) && si.si_pid == child;
}

static void set_score(int value)
{
	char text[16];
	if (score.fd >= 0 && !fmt_to(text, sizeof text, "%d", value))
		(void)!write(score.fd, text, strlen(text));
}

void spawn_doomed(void)
{
	set_score(score.spared + DOOMED < SCORE_MAX ? score.spared + DOOMED : SCORE_MAX);
}

void spawn_spared(void)
{
	set_score(score.spared);
}

static int fail(struct spawn *s, const char *step)
{
	s->error = errno;
	s->failed = step;
	return 1; // exit status of the child; the parent looks at s->error
}

int spawn_error(const struct spawn *s, struct err *e)
{
	errno = s->error;
	enum err_kind kind = strcmp(s->failed, "execute") ? ERR_SYSTEM
			     : s->error == ENOENT || s->error == ENOTDIR ? ERR_NOT_FOUND
									   : ERR_DENIED;
	if (!strcmp(s->failed, "working directory"))
		err_sys(e, "%s %s", s->failed, s->cwd);
	else if (kind == ERR_SYSTEM)
		err_sys(e, "%s", s->failed);
	else
		err_set(e, kind, "%s: %s", s->argv[0],
			kind == ERR_NOT_FOUND	 ? "command not found"
			: s->error == EACCES ? "Permission denied: it is not an executable file"
						 : strerror(s->error));
	e->sys = s->error;
	return -1;
}

static void default_signals(bool keeper)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL};
	sigset_t none;
	// What we, and then what a terminal's keeper ignores; everything else is default, or becomes it with exec.
	static const int ours[] = {SIGPIPE, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGHUP, SIGCHLD};
	for (size_t i = 0; i < (keeper ? countof(ours) : 1); i++)
		sigaction(ours[i], &dfl, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

// The caller's directory must be one inside: not reached through /proc, and with a name.
static int enter_cwd(struct spawn *s)
{
	char got[4096];
	if (chdir(s->cwd))
		return fail(s, "working directory");
	if (syscall(SYS_getcwd, got, sizeof got) < 0 || got[0] != '/' || !strncmp(got, "/proc/", 6)) {
		errno = EACCES;
		return fail(s, "working directory");
	}
	return 0;
}

static int place_fds(struct spawn *s)
{
	int high[3];
	for (int i = 0; i < 3; i++)
		if ((high[i] = s->fds[i] > 2 ? s->fds[i] : fcntl(s->fds[i], F_DUPFD_CLOEXEC, 10)) < 0)
			return fail(s, "standard streams");
	for (int i = 0; i < 3; i++)
		if (dup2(high[i], i) < 0)
			return fail(s, "standard streams");
	if (syscall(SYS_close_range, 3, ~0U, 4 /* CLOSE_RANGE_CLOEXEC: our own stay until exec */))
		return fail(s, "closing descriptors");
	return 0;
}

// One that is another session's already stays that one's.
static void take_terminal(void)
{
	for (int i = 0; i < 3; i++)
		if (!ioctl(i, TIOCSCTTY, 0))
			return;
}

static void run_script(struct spawn *s, const char *path)
{
	size_t n = 0;
	while (s->argv[n])
		n++;
	const char *argv[1024];
	if (n + 2 > countof(argv))
		return;
	argv[0] = "sh";
	argv[1] = path;
	for (size_t i = 1; i <= n; i++)
		argv[i + 1] = s->argv[i];
	execve("/bin/sh", (char *const *)argv, s->env);
}

static int run_file(struct spawn *s, const char *path)
{
	execve(path, s->argv, s->env);
	if (errno == ENOEXEC)
		run_script(s, path);
	return fail(s, "execute");
}

// Candidates are looked at before they are executed, so that the record of executed programs has no misses.
static int run_from_path(struct spawn *s)
{
	char path[4096];
	size_t len = strlen(s->argv[0]);
	int seen = ENOENT;
	for (const char *p = s->path_var; p && *p; p += strcspn(p, ":"), p += *p == ':') {
		size_t n = strcspn(p, ":");
		if (!n || n + len + 2 > sizeof path)
			continue;
		memcpy(path, p, n);
		path[n] = '/';
		memcpy(path + n + 1, s->argv[0], len + 1);
		struct stat st;
		if (stat(path, &st) || S_ISDIR(st.st_mode))
			continue;
		if (access(path, X_OK)) {
			seen = EACCES;
			continue;
		}
		return run_file(s, path);
	}
	errno = seen;
	return fail(s, "execute");
}

static int become_user(struct spawn *s)
{
	if (!s->switch_user)
		return 0;
	proc_stretch(0, 0); // our parent could not, afterwards
	// raw calls: the C library's would try to signal threads that this borrowed memory does not have
	if (syscall(SYS_setgroups, 0, NULL) || syscall(SYS_setresgid, s->gid, s->gid, s->gid) ||
	    syscall(SYS_setresuid, s->uid, s->uid, s->uid))
		return fail(s, "become the user");
	return 0;
}

static int child(void *arg)
{
	struct spawn *s = arg;
	spawn_spared(); // our parent, who waits till we execute; our own place is settled
	if (s->terminal >= 0) {
		sigset_t ttou;
		sigemptyset(&ttou);
		sigaddset(&ttou, SIGTTOU);
		sigprocmask(SIG_BLOCK, &ttou, NULL);
		if (setpgid(0, 0) || tcsetpgrp(s->terminal, getpid()))
			return fail(s, "terminal");
	} else if (setsid() < 0) {
		return fail(s, "new session");
	}
	if (place_fds(s))
		return 1;
	if (s->takes_terminal)
		take_terminal();
	if (become_user(s) || enter_cwd(s))
		return 1;
	umask((mode_t)s->umask_bits);
	default_signals(s->terminal >= 0);
	if (filter && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0UL, filter))
		return fail(s, "filter of system calls");
	return strchr(s->argv[0], '/') ? run_file(s, s->argv[0]) : run_from_path(s);
}

static int entry(void *arg)
{
	_exit(child(arg));
}

pid_t spawn_process(struct spawn *s)
{
	static char stack[STACK] __attribute__((aligned(16)));
	sigset_t all, before;
	s->error = 0;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	spawn_doomed();
	pid_t pid = clone(entry, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, s);
	if (pid < 0) {
		fail(s, "new process");
		spawn_spared();
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (pid > 0)
		proc_stretch(pid, 0); // ours, which is short, was the child's till it executed
	if (pid > 0 && s->error) {
		int keep = s->error;
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		s->error = keep;
		return -1;
	}
	return pid;
}

// SPDX-License-Identifier: Apache-2.0
// T-019, T-110: new namespaces by every call, and the switches a process has for itself.
#include "attack.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NR_CLONE3 435
#define NR_PIDFD_OPEN 434

static const struct {
	unsigned long flag;
	const char *name;
} spaces[] = {
	{CLONE_NEWUSER, "user"}, {CLONE_NEWNS, "mount"}, {CLONE_NEWPID, "pid"},	 {CLONE_NEWNET, "net"},
	{CLONE_NEWIPC, "ipc"},	 {CLONE_NEWUTS, "uts"},	 {0x02000000, "cgroup"}, {0x00000080, "time"},
};

// ENOSPC is the answer of max_user_namespaces=0.
static void no_namespace(struct probe *p, const char *call, const char *space, struct answer a)
{
	judge(p,
	      is_refused(a) || a.err == ENOSPC || (a.err == EINVAL && !strcmp(call, "clone") && !strcmp(space, "time")),
	      "%s makes a %s namespace (%s)", call, space, err_name(a.err));
}

// A clone that worked returns twice; the second process ends in try_call as the first does.
static struct answer try_clone(unsigned long flags)
{
	return TRY(SYS_clone, (long)(flags | SIGCHLD), 0, 0, 0, 0);
}

static struct answer try_clone3(uint64_t flags)
{
	uint64_t args[11] = {flags, 0, 0, 0, SIGCHLD, 0, 0, 0, 0, 0, 0};

	return TRY(NR_CLONE3, (long)args, sizeof(args));
}

static void try_setns(struct probe *p)
{
	static const char *const names[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"};
	char path[64];

	for (int pid = 0; pid < 2; pid++)
		for (size_t i = 0; i < LEN(names); i++) {
			int fd = open(fmt(path, sizeof(path), "/proc/%s/ns/%s", pid ? "1" : "self", names[i]),
				      O_RDONLY | O_CLOEXEC);
			if (fd >= 0)
				must_refuse(p, path, TRY(SYS_setns, fd, 0));
			close(fd);
		}
	int fd = (int)syscall(NR_PIDFD_OPEN, 1, 0);
	must_refuse(p, "setns through a pidfd", TRY(SYS_setns, fd, CLONE_NEWNS | CLONE_NEWNET));
	close(fd);
}

static void *thread_main(void *arg)
{
	*(int *)arg = 42;
	return NULL;
}

// What blocks everything would pass the rest of this row.
static void still_works(struct probe *p)
{
	pthread_t t;
	int got = 0, status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(7);
	judge(p, waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7, "fork does not work any more");
	judge(p, !pthread_create(&t, NULL, thread_main, &got) && !pthread_join(t, NULL) && got == 42,
	      "threads do not work any more");
}

void t019_userns(struct probe *p)
{
	for (size_t i = 0; i < LEN(spaces); i++) {
		unsigned long f = spaces[i].flag, with_user = f | CLONE_NEWUSER;
		no_namespace(p, "unshare", spaces[i].name, TRY(SYS_unshare, (long)f));
		no_namespace(p, "unshare user and", spaces[i].name, TRY(SYS_unshare, (long)with_user));
		no_namespace(p, "clone3", spaces[i].name, try_clone3(with_user));
		if (f == 0x80) // the low byte of clone's flags is the exit signal: no time namespace that way
			continue;
		no_namespace(p, "clone", spaces[i].name, try_clone(f));
		no_namespace(p, "clone user and", spaces[i].name, try_clone(with_user));
		no_namespace(p, "clone with high bits", spaces[i].name, try_clone(with_user | 1UL << 40 | 1UL << 63));
	}
	judge(p, p->outside || try_clone3(0).err == ENOSYS, "clone3 is answered; its flags can not be judged");
	try_setns(p);
	still_works(p);
}

static void try_self_files(struct probe *p)
{
	static const struct {
		const char *path, *text;
	} tries[] = {
		{"/proc/self/uid_map", "0 0 1"},
		{"/proc/self/gid_map", "0 0 1"},
		{"/proc/self/projid_map", "0 0 1"},
		{"/proc/self/setgroups", "allow"},
		{"/proc/self/oom_score_adj", "-1000"},
		{"/proc/self/oom_score_adj", "-1"},
		{"/proc/self/oom_adj", "-17"},
		{"/proc/1/oom_score_adj", "1000"},
		{"/proc/1/uid_map", "0 0 1"},
		{"/proc/1/comm", "x"},
		{"/proc/1/clear_refs", "1"},
		{"/proc/1/coredump_filter", "0x7f"},
		{"/proc/1/timerslack_ns", "1"},
		{"/proc/1/mem", "x"},
		{"/proc/1/autogroup", "-20"},
		{"/proc/1/attr/current", "x"},
		{"/proc/1/sched", "0"},
		{"/proc/self/attr/exec", "unconfined"},
		{"/proc/self/attr/current", "unconfined"},
	};

	for (size_t i = 0; i < LEN(tries); i++) {
		if (p->outside && !strncmp(tries[i].path, "/proc/1", 7))
			continue;
		int fd = open(tries[i].path, O_WRONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : write(fd, tries[i].text, strlen(tries[i].text));
		judge(p, n < 0, "wrote %s to %s", tries[i].text, tries[i].path);
		close(fd);
	}
}

static void try_personality(struct probe *p)
{
	// own address layout and uname only: docs/syscalls.md
	static const unsigned long allowed[] = {0, 8, 0x20000, 0x20008, 0x40000};

	for (unsigned i = 0; i < 32 + 0x20; i++) {
		unsigned long v = i < 32 ? 1UL << i : i - 32;
		bool ok = false;
		for (size_t a = 0; a < LEN(allowed); a++)
			ok |= v == allowed[a];
		if (!ok)
			judge(p, !TRY(SYS_personality, (long)v).sig && TRY(SYS_personality, (long)v).err == EPERM,
			      "personality %#lx", v);
	}
	judge(p, TRY(SYS_personality, 0x0400000 | 8).err == EPERM, "personality READ_IMPLIES_EXEC|LINUX32");
	judge(p, TRY(SYS_personality, 0xffffffff).err == 0, "personality can not be asked for");
}

static void try_prctl(struct probe *p)
{
	prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0);
	judge(p, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "no_new_privs is off");
	judge(p, prctl(PR_GET_SECCOMP) != 0 || p->outside, "seccomp is off");
	judge(p, prctl(PR_SET_MM, PR_SET_MM_EXE_FILE, 0, 0, 0) != 0, "PR_SET_MM");
	judge(p, prctl(PR_CAPBSET_DROP, 63, 0, 0, 0) != 0, "PR_CAPBSET_DROP of nothing");
	judge(p, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 0, 0, 0) != 0, "ambient CHOWN");
}

static void try_switches(struct probe *p)
{
	try_self_files(p);
	try_personality(p);
	try_prctl(p);
}

void t110_self_writes(struct probe *p)
{
	in_child(p, try_switches);
}

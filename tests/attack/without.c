// SPDX-License-Identifier: Apache-2.0
// without: a kernel that lacks one of the things isolation is made of. Everything below the command sees it.
#include "attack.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
	const char *name;
	long nr;
	int err;
} calls[] = {
	{"seccomp", SYS_seccomp, EINVAL},
	{"landlock", 444, ENOSYS},
	{"landlock_restrict_self", 446, EPERM},
	{"pivot_root", SYS_pivot_root, EPERM},
	{"mount_setattr", 442, EPERM},
	{"move_mount", 429, EPERM},
	{"fsopen", 430, EPERM},
	{"mount", SYS_mount, EPERM},
	{"unshare", SYS_unshare, EPERM},
	{"clone3", 435, ENOSYS},
	{"capset", SYS_capset, EPERM},
	{"prctl", SYS_prctl, EINVAL},
	{"setns", SYS_setns, EPERM},
	{"setresuid", SYS_setresuid, EPERM},
	{"setgroups", SYS_setgroups, EPERM},
	{"prlimit", SYS_prlimit64, EPERM},
	{"sethostname", SYS_sethostname, EPERM},
	{"close_range", 436, ENOSYS},
};

static int install(long nr, int err)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {LEN(code), code};

	// Root keeps what no_new_privs would take from the programs below; others have no choice.
	if (geteuid() != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}

int run_without(const char *call, char **argv)
{
	for (size_t i = 0; i < LEN(calls); i++) {
		if (strcmp(calls[i].name, call))
			continue;
		if (install(calls[i].nr, calls[i].err) == 0)
			execvp(argv[0], argv);
		fprintf(stderr, "skep-attack: without %s: %s\n", call, strerror(errno));
		return 127;
	}
	fprintf(stderr, "skep-attack: without %s: not one of", call);
	for (size_t i = 0; i < LEN(calls); i++)
		fprintf(stderr, " %s", calls[i].name);
	fprintf(stderr, "\n");
	return 2;
}

// SPDX-License-Identifier: Apache-2.0
#include "isolate/setid.h"

#include "base/buf.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CREATES (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))
#define RULE_LEN 7 // instructions of one rule, at most

// Arguments by number; flags -1: the mode always counts, else where one of CREATES is set.
static const struct {
	int nr, mode, flags;
} calls[] = {
#ifdef SYS_chmod
	{SYS_chmod, 1, -1},  {SYS_creat, 1, -1}, {SYS_mknod, 1, -1}, {SYS_open, 2, 1},
#endif
	{SYS_fchmod, 1, -1}, {SYS_fchmodat, 2, -1}, {452 /* fchmodat2 */, 2, -1}, {SYS_mknodat, 2, -1}, {SYS_openat, 3, 2},
};

struct program {
	struct sock_filter f[RULE_LEN * countof(calls) + 8];
	unsigned short n;
};

static void program_add(struct program *p, unsigned short code, uint32_t k, uint8_t yes, uint8_t no)
{
	p->f[p->n++] = (struct sock_filter){code, yes, no, k};
}

// The low half, on a little-endian machine: these arguments have 32 bits.
static void program_load_arg(struct program *p, int arg)
{
	program_add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, args) + 8u * (unsigned)arg), 0, 0);
}

static void program_rule(struct program *p, int nr, int mode, int flags)
{
	uint8_t skip = flags < 0 ? 4 : 6; // the rest of this rule
	program_add(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
	program_add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, (uint8_t)(skip - 1));
	if (flags >= 0) {
		program_load_arg(p, flags);
		program_add(p, BPF_JMP | BPF_JSET | BPF_K, CREATES, 0, 3);
	}
	program_load_arg(p, mode);
	program_add(p, BPF_JMP | BPF_JSET | BPF_K, S_ISUID | S_ISGID, 0, 1);
	program_add(p, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
}

const struct sock_fprog *setid_commands(void)
{
	static struct sock_filter f[] = {
		{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
		{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_openat2},
		{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS},
		{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
	};
	static const struct sock_fprog commands = {countof(f), f};
	return &commands;
}

int setid_refuse(struct err *e)
{
	struct program p = {.n = 0};
	for (size_t i = 0; i < countof(calls); i++)
		program_rule(&p, calls[i].nr, calls[i].mode, calls[i].flags);
	program_add(&p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
	struct sock_fprog prog = {p.n, p.f};
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0UL, &prog))
		return err_sys(e, "load the filter for set-user-id files");
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
// The client on the other side is the user's own, so this is a second line: a fault in libssh gives whoever finds it
// nothing but the sockets that the user's own `skep` could use as well.
#include "ssh/seal.h"

#include "base/mem.h"
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined __x86_64__ && !defined __ILP32__
#define ARCH AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "only x86_64 and aarch64 have a filter"
#endif

// Every right on files is handled and none is given. O_PATH needs none, and so the way to a socket stays open.
static int landlock(struct err *e)
{
	enum { FS_ABI_1 = (1 << 13) - 1, FS_REFER = 1 << 13, FS_TRUNCATE = 1 << 14, FS_IOCTL_DEV = 1 << 15 };
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (abi < 0 && (errno == ENOSYS || errno == EOPNOTSUPP))
		return 0; // the filter stands alone
	uint64_t fs = FS_ABI_1 | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0) | (abi >= 5 ? FS_IOCTL_DEV : 0);
	auto_fd int fd = (int)syscall(SYS_landlock_create_ruleset, &fs, sizeof fs, 0);
	if (fd < 0 || syscall(SYS_landlock_restrict_self, fd, 0))
		return err_sys(e, "enter the Landlock rules");
	return 0;
}

#define CALL(nr) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(nr), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static int filter(enum seal_reach reach, struct err *e)
{
	static struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1), // x32
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		CALL(SYS_execve),
		CALL(SYS_execveat),
		CALL(SYS_clone3),
		CALL(SYS_clone),
#ifdef SYS_fork
		CALL(SYS_fork),
		CALL(SYS_vfork),
#endif
		CALL(SYS_ptrace),
		CALL(SYS_process_vm_readv),
		CALL(SYS_process_vm_writev),
		CALL(SYS_pidfd_getfd),
		CALL(SYS_unshare),
		CALL(SYS_setns),
		CALL(SYS_mount),
		CALL(SYS_bpf),
		CALL(SYS_io_uring_setup),
		CALL(SYS_userfaultfd),
		CALL(SYS_perf_event_open),
		CALL(SYS_keyctl),
		CALL(SYS_add_key),
		CALL(SYS_listen),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	static struct sock_filter no_sockets[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		CALL(SYS_socket),
		CALL(SYS_connect),
		CALL(SYS_bind),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = countof(f), .filter = f}, more = {.len = countof(no_sockets), .filter = no_sockets};
	if (reach == SEAL_NOTHING && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &more)) // beside the other, which looks at the architecture
		return err_sys(e, "enter the system call filter");
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) ? err_sys(e, "enter the system call filter") : 0;
}

int seal_self(enum seal_reach reach, struct err *e)
{
	static const struct rlimit none = {0, 0};
	if (setrlimit(RLIMIT_CORE, &none))
		return err_sys(e, "forbid cores");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return err_sys(e, "close the process to others");
	return landlock(e) || filter(reach, e) ? -1 : 0;
}

// SPDX-License-Identifier: Apache-2.0
// Order matters: the user is changed while that is still allowed, non-dumpable is set after it (a change of user resets
// it), Landlock before the filter that forbids making its calls.
#include "gate/selfseal.h"

#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY 65534

#if defined __x86_64__ && !defined __ILP32__
#define ARCH AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "only x86_64 and aarch64 have a filter"
#endif

static int limits(struct err *e)
{
	static const struct rlimit none = {0, 0};
	return setrlimit(RLIMIT_CORE, &none) ? err_sys(e, "forbid cores") : 0;
}

static int drop_capabilities(struct err *e)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[2] = {{0}};
	return syscall(SYS_capset, &h, none) ? err_sys(e, "give up capabilities") : 0;
}

// Rootless without subordinate ids there is nobody to become: 0 is the caller, and stays it without any capability.
static int become_nobody(enum seal_end end, struct err *e)
{
	if (geteuid() == 0 && (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)) &&
	    errno != EPERM && errno != EINVAL)
		return err_sys(e, "give up root");
	if (drop_capabilities(e))
		return -1;
	bool bound = end == SEAL_WITH_PARENT;
	return bound && prctl(PR_SET_PDEATHSIG, SIGKILL) ? err_sys(e, "end with the supervisor") : 0; // a change of ids clears it
}

// --- Landlock: every right is handled and none is given ---

// Longer than an old kernel's: it accepts that while the unknown part is zero.
struct ruleset {
	uint64_t fs, net, scoped;
};

static int landlock(struct err *e)
{
	enum { FS_ABI_1 = (1 << 13) - 1, FS_REFER = 1 << 13, FS_TRUNCATE = 1 << 14, FS_IOCTL_DEV = 1 << 15 };
	enum { NET_BIND_TCP = 1 << 0, SCOPE_ABSTRACT_UNIX = 1 << 0, SCOPE_SIGNAL = 1 << 1 };
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (abi < 0 && (errno == ENOSYS || errno == EOPNOTSUPP))
		return 0; // the filter alone forbids opening anything
	struct ruleset attr = {
		.fs = FS_ABI_1 | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0) |
		      (abi >= 5 ? FS_IOCTL_DEV : 0),
		.net = abi >= 4 ? NET_BIND_TCP : 0,
		.scoped = abi >= 6 ? SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL : 0,
	};
	auto_fd int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
	if (fd < 0 || syscall(SYS_landlock_restrict_self, fd, 0))
		return err_sys(e, "enter the Landlock rules");
	return 0;
}

// --- seccomp ---

static const int allowed[] = {
	// bytes and descriptors; the kernel keeps which numbers are always allowed, so their order costs nothing
	SYS_read,
	SYS_write,
	SYS_readv,
	SYS_writev,
	SYS_close,
	SYS_lseek,
	SYS_splice,
	SYS_pipe2,
	SYS_fstat,
	// sockets; socket() itself has its arguments looked at
	SYS_connect,
	SYS_accept4,
	SYS_getsockopt,
	SYS_setsockopt,
	SYS_getsockname,
	SYS_getpeername,
	SYS_sendto,
	SYS_recvfrom,
	SYS_sendmsg,
	SYS_recvmsg,
	SYS_sendmmsg,
	SYS_recvmmsg,
	SYS_shutdown,
	// the loop
	SYS_epoll_ctl,
	SYS_epoll_pwait,
	SYS_ppoll,
	SYS_restart_syscall,
	SYS_clock_gettime,
	SYS_clock_getres,
	SYS_clock_nanosleep,
	SYS_gettimeofday,
#ifdef SYS_epoll_wait
	SYS_epoll_wait,
	SYS_poll,
	SYS_time,
#endif
	// memory, locks, randomness
	SYS_brk,
	SYS_munmap,
	SYS_mremap,
	SYS_madvise,
	SYS_mlock,
	SYS_mlock2,
	SYS_munlock,
	SYS_futex,
	SYS_getrandom,
	SYS_sched_yield,
	// about itself, and its end
	SYS_getpid,
	SYS_gettid,
	SYS_getuid,
	SYS_geteuid,
	SYS_getgid,
	SYS_getegid,
	SYS_rt_sigaction,
	SYS_rt_sigprocmask,
	SYS_rt_sigreturn,
	SYS_sigaltstack,
	SYS_exit,
	SYS_exit_group,
	SYS_tgkill,
};

// What libraries try on the way and live without.
static const int absent[] = {
	SYS_openat,    SYS_newfstatat, SYS_statx,
	SYS_faccessat, SYS_faccessat2, SYS_readlinkat,
	SYS_uname,     SYS_sysinfo,    SYS_sched_getaffinity,
	SYS_prlimit64, SYS_getcwd,     SYS_getdents64,
	SYS_bind,      SYS_membarrier,
#ifdef SYS_open
	SYS_open,      SYS_stat,       SYS_lstat,
	SYS_access,    SYS_readlink,   SYS_getrlimit,
#endif
};

struct program {
	struct sock_filter f[512];
	size_t n;
};

static void put(struct program *p, struct sock_filter f)
{
	if (p->n < countof(p->f))
		p->f[p->n] = f;
	p->n++;
}

static void put_load(struct program *p, size_t offset)
{
	put(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void put_return(struct program *p, uint32_t action)
{
	put(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

// Returns action when the call is nr. The number stays loaded.
static void put_call(struct program *p, int nr, uint32_t action)
{
	put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1));
	put_return(p, action);
}

// Goes past the next n instructions unless the loaded number is nr.
static void put_unless_skip(struct program *p, int nr, uint8_t n)
{
	put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, n));
}

#define ARG(i) (offsetof(struct seccomp_data, args) + 8 * (i))
#define KILL SECCOMP_RET_KILL_PROCESS
#define ALLOW SECCOMP_RET_ALLOW

// mmap and mprotect without PROT_EXEC.
static void put_memory(struct program *p, int nr)
{
	put_unless_skip(p, nr, 4);
	put_load(p, ARG(2));
	put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1));
	put_return(p, KILL);
	put_return(p, ALLOW);
}

// The call with one of these values as argument i; another one gives EPERM.
static void put_values(struct program *p, int nr, int i, const uint32_t *values, uint8_t n)
{
	put_unless_skip(p, nr, (uint8_t)(2 + 2 * n));
	put_load(p, ARG((size_t)i));
	for (uint8_t k = 0; k < n; k++) {
		put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, values[k], 0, 1));
		put_return(p, ALLOW);
	}
	put_return(p, SECCOMP_RET_ERRNO | EPERM);
}

static void build(struct program *p)
{
	static const uint32_t families[] = {AF_INET, AF_INET6};
	static const uint32_t requests[] = {FIONBIO, FIONREAD};
	static const uint32_t commands[] = {F_GETFD,	     F_SETFD,	  F_GETFL,     F_SETFL,
					    F_DUPFD_CLOEXEC, F_GET_SEALS, F_SETPIPE_SZ};
	put_load(p, offsetof(struct seccomp_data, arch));
	put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0));
	put_return(p, KILL);
	put_load(p, offsetof(struct seccomp_data, nr)); // x32 numbers are in no list
	for (size_t i = 0; i < countof(allowed); i++)
		put_call(p, allowed[i], ALLOW);
	for (size_t i = 0; i < countof(absent); i++)
		put_call(p, absent[i], SECCOMP_RET_ERRNO | ENOENT);
	put_memory(p, SYS_mmap);
	put_memory(p, SYS_mprotect);
	put_values(p, SYS_socket, 0, families, countof(families));
	put_values(p, SYS_ioctl, 1, requests, countof(requests));
	put_values(p, SYS_fcntl, 1, commands, countof(commands));
	put_return(p, KILL);
}

static int filter(struct err *e)
{
	static struct program p;
	p.n = 0;
	build(&p);
	if (p.n > countof(p.f))
		return err_set(e, ERR_BUG, "the filter is too long");
	struct sock_fprog prog = {.len = (unsigned short)p.n, .filter = p.f};
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog))
		return err_sys(e, "enter the system call filter");
	return 0;
}

int selfseal(enum seal_end end, struct err *e)
{
	if (limits(e) || become_nobody(end, e))
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return err_sys(e, "close the process to others");
	return landlock(e) || filter(e) ? -1 : 0;
}

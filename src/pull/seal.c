// SPDX-License-Identifier: Apache-2.0
// Order matters: the directory changes hands while this process is root, the user is changed while that is still
// allowed, Landlock comes before the filter that forbids its calls. The filter names what is refused and not what is
// allowed: the C library's resolver and its modules, which differ between systems, run behind it. Threads can be made
// (the resolver has some), processes can not.
#include "pull/seal.h"

#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
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

// --- the user ---

static int seal_give_tree(int dir, int depth, struct err *e)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *ent;
	int rc = d ? fchown(dir, NOBODY, NOBODY) : -1;
	while (d && !rc && (ent = readdir(d))) {
		if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, ".."))
			continue;
		auto_fd int sub = depth ? openat(dir, ent->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
		if (sub >= 0)
			rc = seal_give_tree(sub, depth - 1, e);
		else
			rc = fchownat(dir, ent->d_name, NOBODY, NOBODY, AT_SYMLINK_NOFOLLOW);
	}
	if (d)
		closedir(d);
	return rc;
}

// In a user namespace without further ids there is nobody to become: 0 is the caller, and stays it without capabilities.
static int seal_user(int dir, struct err *e)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[2] = {{0}};
	bool alone = false;
	if (geteuid() == 0 && seal_give_tree(dir, 2, e)) {
		if (errno != EPERM && errno != EINVAL)
			return err_sys(e, "give the pull's directory away");
		alone = true;
	}
	if (geteuid() == 0 && !alone && (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)))
		return err_sys(e, "give up root");
	if (syscall(SYS_capset, &h, none))
		return err_sys(e, "give up capabilities");
	return 0;
}

// --- Landlock ---

struct seal_ruleset {
	uint64_t fs, net, scoped; // an old kernel takes a longer one while the unknown part is zero
};

enum { FS_ABI_1 = (1 << 13) - 1, FS_REFER = 1 << 13, FS_TRUNCATE = 1 << 14, FS_IOCTL_DEV = 1 << 15 };
enum { FS_READ = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR };
enum { NET_BIND_TCP = 1 << 0, SCOPE_ABSTRACT_UNIX = 1 << 0, SCOPE_SIGNAL = 1 << 1 };

static int seal_rule(int ruleset, int fd, uint64_t access, struct err *e)
{
	struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0))
		return err_sys(e, "add a Landlock rule");
	return 0;
}

// What the C library's resolver reads, its modules, and the system's certificate authorities.
static int seal_readable(int ruleset, struct err *e)
{
	static const char *const paths[] = {"/etc", "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share", "/run/systemd/resolve",
					    "/run/resolvconf", "/run/NetworkManager", "/dev/urandom", "/dev/null"};
	for (size_t i = 0; i < countof(paths); i++) {
		struct stat st;
		auto_fd int fd = open(paths[i], O_PATH | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &st))
			continue;
		uint64_t access = S_ISDIR(st.st_mode) ? FS_READ | LANDLOCK_ACCESS_FS_EXECUTE : LANDLOCK_ACCESS_FS_READ_FILE;
		if (seal_rule(ruleset, fd, access, e))
			return -1;
	}
	return 0;
}

static int seal_landlock(int dir, struct err *e)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (abi < 0 && (errno == ENOSYS || errno == EOPNOTSUPP))
		return 0; // the user and the filter stand alone
	uint64_t fs = FS_ABI_1 | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0) | (abi >= 5 ? FS_IOCTL_DEV : 0);
	struct seal_ruleset attr = {
		.fs = fs,
		.net = abi >= 4 ? NET_BIND_TCP : 0,
		.scoped = abi >= 6 ? SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL : 0,
	};
	uint64_t write = FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
			 LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_DIR | (abi >= 3 ? FS_TRUNCATE : 0);
	auto_fd int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
	if (fd < 0)
		return err_sys(e, "make the Landlock rules");
	if (seal_readable(fd, e) || seal_rule(fd, dir, write, e))
		return -1;
	return syscall(SYS_landlock_restrict_self, fd, 0) ? err_sys(e, "enter the Landlock rules") : 0;
}

// --- the filter ---

#define KILLED(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(nr), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static int seal_filter(struct err *e)
{
	static struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1), // x32
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		KILLED(SYS_execve),
		KILLED(SYS_execveat),
#ifdef SYS_fork
		KILLED(SYS_fork),
		KILLED(SYS_vfork),
#endif
		KILLED(SYS_ptrace),
		KILLED(SYS_process_vm_readv),
		KILLED(SYS_process_vm_writev),
		KILLED(SYS_pidfd_open),
		KILLED(SYS_pidfd_getfd),
		KILLED(SYS_unshare),
		KILLED(SYS_setns),
		KILLED(SYS_mount),
		KILLED(SYS_open_tree),
		KILLED(SYS_move_mount),
		KILLED(SYS_fsopen),
		KILLED(SYS_chroot),
		KILLED(SYS_bpf),
		KILLED(SYS_io_uring_setup),
		KILLED(SYS_userfaultfd),
		KILLED(SYS_perf_event_open),
		KILLED(SYS_keyctl),
		KILLED(SYS_add_key),
		KILLED(SYS_request_key),
		KILLED(SYS_listen),
		// its flags lie in memory, where a filter can not see them: the C library then uses clone
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = countof(f), .filter = f};
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) ? err_sys(e, "enter the system call filter") : 0;
}

int pull_seal(int dir, struct err *e)
{
	static const struct rlimit none = {0, 0};
	if (setrlimit(RLIMIT_CORE, &none))
		return err_sys(e, "forbid cores");
	if (seal_user(dir, e))
		return -1;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL)) // after the change of user, which clears it
		return err_sys(e, "end with skepd");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return err_sys(e, "close the process to others");
	return seal_landlock(dir, e) || seal_filter(e) ? -1 : 0;
}

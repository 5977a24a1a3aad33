// SPDX-License-Identifier: Apache-2.0
// The filter twice: interpreted here for every number and many arguments, and loaded for real in a child.
#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "isolate/caps.h"
#include "isolate/seccomp.h"
#include "model/move_pass.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#ifdef __x86_64__
#define NATIVE AUDIT_ARCH_X86_64
#else
#define NATIVE AUDIT_ARCH_AARCH64
#endif
#define REFUSE SECCOMP_RET_USER_NOTIF // by the supervisor; see test_loaded for the errors
#define NOSYS (SECCOMP_RET_ERRNO | ENOSYS)
#define PASS SECCOMP_RET_ALLOW

static const struct seccomp_opts user = {.trace = true}, root = {.root = true, .trace = true},
				 untraced = {.root = false}, nested = {.trace = true, .nested = true};

// Classic BPF, as far as our programs use it.
static uint32_t run_filter(const struct seccomp_opts *o, const struct seccomp_data *d)
{
	struct sock_fprog prog;
	uint32_t a = 0;
	seccomp_program(o, &prog);
	for (unsigned pc = 0; pc < prog.len; pc++) {
		const struct sock_filter *f = &prog.filter[pc];
		switch (f->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&a, (const char *)d + f->k, 4);
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == f->k ? f->jt : f->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= f->k ? f->jt : f->jf;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			pc += a & f->k ? f->jt : f->jf;
			break;
		case BPF_RET | BPF_K:
			return f->k;
		default:
			fail_msg("instruction %u has code %#x", pc, f->code);
		}
	}
	fail_msg("ran off the end");
	return 0;
}

static uint32_t judge(const struct seccomp_opts *o, long nr, uint64_t a0, uint64_t a1, uint64_t a2)
{
	struct seccomp_data d = {.nr = (int)nr, .arch = NATIVE, .args = {a0, a1, a2}};
	return run_filter(o, &d);
}

static bool moves(long nr)
{
	return seccomp_is_rename(&(struct seccomp_event){.nr = (int)nr});
}

// They wait for the supervisor, but for those of pid 1's helper.
static void test_renames(void **state)
{
	(void)state;
	struct seccomp_data d = {.nr = SYS_renameat2, .arch = NATIVE, .args = {0, 0, 0, 0, 0, MOVE_PASS}};
	assert_int_equal(run_filter(&user, &d), PASS);
	d.args[5]++;
	assert_int_equal(run_filter(&user, &d), SECCOMP_RET_USER_NOTIF);
#ifdef SYS_rename
	d = (struct seccomp_data){.nr = SYS_rename, .arch = NATIVE, .args = {0, 0, 0, 0, 0, MOVE_PASS}};
	assert_int_equal(run_filter(&nested, &d), SECCOMP_RET_USER_NOTIF);
	assert_true(moves(SYS_rename));
#endif
	assert_true(moves(SYS_renameat2));
	assert_false(moves(SYS_execve) || moves(SYS_mount) || moves(SYS_linkat));
}

static void test_numbers(void **state)
{
	(void)state;
	unsigned pass = 0;
	for (long nr = 0; nr < 1024; nr++) {
		// socket(0) and socketpair(0) are the only checked calls that refuse zeros; they count as let through
		bool waits = nr == SYS_execve || nr == SYS_execveat || nr == SYS_listen || nr == SYS_socket || nr == SYS_socketpair || moves(nr);
		pass += waits || judge(&user, nr, 0, 0, 0) == PASS;
	}
	assert_int_equal(pass, seccomp_allowed_count(&user));
	assert_int_equal(seccomp_allowed_count(&user) + 2, seccomp_allowed_count(&root));
	assert_int_equal(judge(&user, 700, 0, 0, 0), NOSYS);
	assert_int_equal(judge(&user, 511, 0, 0, 0), NOSYS);
	assert_int_equal(judge(&user, -1, 0, 0, 0), NOSYS);
	assert_int_equal(judge(&user, SYS_execve, 0, 0, 0), SECCOMP_RET_USER_NOTIF);
	assert_int_equal(judge(&user, SYS_execveat, 0, 0, 0), SECCOMP_RET_USER_NOTIF);
	assert_int_equal(judge(&user, SYS_listen, 0, 0, 0), SECCOMP_RET_USER_NOTIF);
}

static void test_architectures(void **state)
{
	(void)state;
	static const uint32_t foreign[] = {AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_RISCV64, 0};
	for (size_t i = 0; i < countof(foreign); i++)
		for (int nr = 0; nr < 600; nr++) {
			struct seccomp_data d = {.nr = nr, .arch = foreign[i]};
			assert_int_equal(run_filter(&nested, &d), SECCOMP_RET_KILL_PROCESS);
		}
#ifdef __x86_64__
	assert_int_equal(judge(&user, 0x40000000, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(judge(&user, 0x40000000 | SYS_read, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(judge(&user, -2, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
#endif
}

// In a namespace of pids inside, 1 is another process: it may call itself 0.
static void test_pid1(void **state)
{
	(void)state;
	static const long by_pid[] = {SYS_prlimit64, SYS_sched_setaffinity, SYS_sched_setattr, SYS_sched_setparam, SYS_sched_setscheduler};
	for (size_t i = 0; i < countof(by_pid); i++) {
		assert_int_equal(judge(&root, by_pid[i], 1, 0, 0), REFUSE);
		assert_int_equal(judge(&nested, by_pid[i], 1ull << 32 | 1, 0, 0), REFUSE);
		assert_int_equal(judge(&user, by_pid[i], 0, 1, 1), PASS);
		assert_int_equal(judge(&user, by_pid[i], 2, 1, 1), PASS);
	}
	static const struct {
		long nr;
		uint64_t process, group, user;
	} whose[] = {{SYS_setpriority, 0, 1, 2}, {SYS_ioprio_set, 1, 2, 3}};
	for (size_t i = 0; i < countof(whose); i++) {
		assert_int_equal(judge(&user, whose[i].nr, whose[i].process, 1, 0), REFUSE);
		assert_int_equal(judge(&user, whose[i].nr, 1ull << 32 | whose[i].process, 1ull << 32 | 1, 0), REFUSE);
		assert_int_equal(judge(&user, whose[i].nr, whose[i].user, 0, 0), REFUSE);
		assert_int_equal(judge(&user, whose[i].nr, whose[i].process, 0, 1), PASS);
		assert_int_equal(judge(&user, whose[i].nr, whose[i].process, 7, 1), PASS);
		assert_int_equal(judge(&user, whose[i].nr, whose[i].group, 1, 1), PASS);
	}
}

static void test_dangerous(void **state)
{
	(void)state;
	static const long mounting[] = {
		SYS_mount, SYS_umount2, SYS_pivot_root, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_open_tree,
		SYS_move_mount, SYS_mount_setattr, SYS_unshare, SYS_setns, SYS_sethostname, SYS_setdomainname,
	};
	static const long always[] = {
		SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_keyctl, SYS_add_key, SYS_request_key,
		SYS_open_by_handle_at, SYS_name_to_handle_at, SYS_pidfd_getfd, SYS_process_madvise, SYS_init_module,
		SYS_finit_module, SYS_kexec_load, SYS_reboot, SYS_swapon, SYS_clock_settime, SYS_settimeofday, SYS_adjtimex,
		SYS_syslog, SYS_acct, SYS_vmsplice, SYS_remap_file_pages, SYS_memfd_secret, SYS_fanotify_init, SYS_quotactl,
		SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register,
	};
	static const struct seccomp_opts widest = {true, true, true, false};
	for (size_t i = 0; i < countof(mounting); i++) {
		assert_int_equal(judge(&user, mounting[i], 0, 0, 0), REFUSE);
		assert_int_equal(judge(&root, mounting[i], 0, 0, 0), REFUSE);
		assert_int_equal(judge(&untraced, mounting[i], 0, 0, 0), REFUSE);
		assert_int_equal(judge(&nested, mounting[i], 0, 0, 0), PASS);
	}
	for (size_t i = 0; i < countof(always); i++)
		assert_int_equal(judge(&widest, always[i], 0, 0, 0), REFUSE);
	assert_int_equal(judge(&widest, SYS_clone3, 0, 0, 0), NOSYS);
}

static void test_options(void **state)
{
	(void)state;
	assert_int_equal(judge(&user, SYS_ptrace, 0, 0, 0), PASS);
	assert_int_equal(judge(&untraced, SYS_ptrace, 0, 0, 0), REFUSE);
	assert_int_equal(judge(&untraced, SYS_process_vm_readv, 0, 0, 0), REFUSE);
	assert_int_equal(judge(&untraced, SYS_kcmp, 0, 0, 0), REFUSE);
	assert_int_equal(judge(&user, SYS_chroot, 0, 0, 0), REFUSE);
	assert_int_equal(judge(&root, SYS_chroot, 0, 0, 0), PASS);
	assert_int_equal(judge(&user, SYS_setgroups, 0, 0, 0), REFUSE);
	assert_int_equal(judge(&root, SYS_setgroups, 0, 0, 0), PASS);
	assert_int_equal(judge(&root, SYS_setuid, 0, 0, 0), PASS);
	assert_int_equal(judge(&user, SYS_setuid, 0, 0, 0), PASS);
	assert_int_equal(judge(&user, SYS_unshare, 0, 0, 0), REFUSE);
	assert_int_equal(judge(&user, SYS_setns, 0, 0, 0), REFUSE);
	assert_int_equal(judge(&nested, SYS_unshare, 0, 0, 0), PASS);
	assert_int_equal(judge(&nested, SYS_setgroups, 0, 0, 0), PASS);
	assert_int_equal(judge(&nested, SYS_chroot, 0, 0, 0), PASS);
}

static void test_arguments(void **state)
{
	(void)state;
	static const uint64_t flags[] = {CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET,
					 CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP};
	for (size_t i = 0; i < countof(flags); i++) {
		assert_int_equal(judge(&user, SYS_clone, flags[i] | SIGCHLD, 0, 0), REFUSE);
		assert_int_equal(judge(&nested, SYS_clone, flags[i] | SIGCHLD, 0, 0), PASS);
	}
	static const uint64_t options[] = {26, 50, 51, 52}; // SO_ATTACH_*
	for (size_t i = 0; i < countof(options); i++) {
		assert_int_equal(judge(&user, SYS_setsockopt, 3, SOL_SOCKET, options[i]), REFUSE);
		assert_int_equal(judge(&user, SYS_setsockopt, 3, SOL_SOCKET | 1ULL << 40, options[i] | 1ULL << 40), REFUSE);
		assert_int_equal(judge(&user, SYS_setsockopt, 3, IPPROTO_TCP, options[i]), PASS);
	}
	assert_int_equal(judge(&user, SYS_setsockopt, 3, IPPROTO_IPV6, 32), REFUSE); // IPV6_FLOWLABEL_MGR
	assert_int_equal(judge(&user, SYS_setsockopt, 3, IPPROTO_IPV6, IPV6_V6ONLY), PASS);
	assert_int_equal(judge(&user, SYS_setsockopt, 3, SOL_SOCKET, SO_REUSEADDR), PASS);
	assert_int_equal(judge(&user, SYS_setsockopt, 3, SOL_SOCKET, 32), PASS); // SO_SNDBUFFORCE: the kernel's own business
	assert_int_equal(judge(&user, SYS_memfd_create, 0, MFD_CLOEXEC, 0), PASS);
	assert_int_equal(judge(&user, SYS_memfd_create, 0, MFD_HUGETLB, 0), REFUSE);
	uint64_t thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
	assert_int_equal(judge(&user, SYS_clone, thread, 0, 0), PASS);
	// the kernel looks at 32 bits of the command; what stands above must not hide it
	static const uint64_t commands[] = {0x5412, 0x541c, 0x5423, 0xc0045877, 0xc0045878};
	for (size_t i = 0; i < countof(commands); i++) {
		assert_int_equal(judge(&user, SYS_ioctl, 0, commands[i], 0), REFUSE);
		assert_int_equal(judge(&user, SYS_ioctl, 0, commands[i] | 1ULL << 40, 0), REFUSE);
	}
	assert_int_equal(judge(&user, SYS_ioctl, 0, 0x5413, 0), PASS);
	for (uint64_t family = 0; family < 64; family++) {
		bool ok = family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
		assert_int_equal(judge(&user, SYS_socket, family, 0, 0) == PASS, ok);
		assert_int_equal(judge(&user, SYS_socket, family | 1ULL << 32, 0, 0) == PASS, ok);
		assert_int_equal(judge(&user, SYS_socketpair, family, 0, 0) == PASS, family == AF_UNIX);
	}
	assert_int_equal(judge(&user, SYS_socket, AF_NETLINK, SOCK_RAW, 9), REFUSE);
	assert_int_equal(judge(&user, SYS_socket, AF_NETLINK, SOCK_RAW, 1ULL << 32), PASS);
	assert_int_equal(judge(&user, SYS_personality, 0xffffffff, 0, 0), PASS);
	assert_int_equal(judge(&user, SYS_personality, PER_LINUX32, 0, 0), PASS);
	assert_int_equal(judge(&user, SYS_personality, ADDR_NO_RANDOMIZE, 0, 0), PASS);
	assert_int_equal(judge(&user, SYS_personality, READ_IMPLIES_EXEC, 0, 0), REFUSE);
}

// The published list is the one in force: the section of this architecture, letter for letter.
static void test_published_list(void **state)
{
	auto_buf struct buf doc = BUF_INIT(1u << 20), list = BUF_INIT(1u << 20);
	char self[4096] = {0}, tool[4200];
	struct err e = {0};
	int status;
	(void)state;
	assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
	*strrchr(self, '/') = 0;
	assert_int_equal(fmt_to(tool, sizeof tool, "%s/../gen/gen-seccomp", self), 0);
	char *argv[] = {tool, (char *)(uintptr_t)"--list", NULL};
	assert_int_equal(proc_run(tool, argv, &list, &status, &e), 0);
	assert_int_equal(status, 0);
	if (fs_read(AT_FDCWD, "docs/syscalls.md", &doc, &e))
		skip(); // not run from the top of the tree
	const char *at = strstr(buf_cstr(&doc), buf_cstr(&list));
	assert_non_null(at);
	char after = at[list.n];
	assert_true(after == 0 || after == '\n');
}

static void test_plan(void **state)
{
	auto_buf struct buf b = BUF_INIT(64u << 10);
	(void)state;
	seccomp_print_plan(&b);
	assert_non_null(strstr(buf_cstr(&b), "seccomp default: "));
	assert_non_null(strstr(buf_cstr(&b), "deny: acct"));
}

// --- for real ---

// Runs fn in a child behind the filter; its result is the child's exit status. The test is the supervisor.
struct guarded {
	const struct seccomp_opts *opts;
	int (*fn)(void);
	int socket;
};

static void send_fd(int sock, int fd)
{
	char room[CMSG_SPACE(sizeof fd)] = {0};
	struct iovec v = {&(char){'x'}, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	*c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	if (sendmsg(sock, &m, 0) != 1)
		_exit(99);
}

static int recv_fd(int sock)
{
	char room[CMSG_SPACE(sizeof(int))], byte;
	struct iovec v = {&byte, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
	int fd;
	assert_int_equal(recvmsg(sock, &m, MSG_CMSG_CLOEXEC), 1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
	return fd;
}

static void child_main(const struct guarded *g)
{
	struct err e = {0};
	int listener;
	if (caps_no_new_privs(&e) || seccomp_load(g->opts, &listener, &e))
		_exit(98);
	if (fcntl(listener, F_GETFD) != FD_CLOEXEC)
		_exit(97);
	send_fd(g->socket, listener);
	close(listener);
	_exit(g->fn());
}

static pid_t start_guarded(struct guarded *g, int *out_listener)
{
	int sv[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	g->socket = sv[1];
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		child_main(g);
	close(sv[1]);
	*out_listener = recv_fd(sv[0]);
	close(sv[0]);
	return pid;
}

static int wait_for(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

// Answers what the child asks until it is gone; what was refused stays in asked.
static struct {
	const char *name;
	int error;
} asked[64];
static size_t n_asked;

static void answer_one(int listener)
{
	struct seccomp_event ev;
	struct err e = {0};
	if (seccomp_recv(listener, &ev, &e))
		return;
	assert_true(ev.error || ev.nr == SYS_execve || ev.nr == SYS_execveat || seccomp_is_rename(&ev) || seccomp_is_listen(&ev));
	if (ev.error && n_asked < countof(asked)) {
		asked[n_asked].name = ev.name;
		asked[n_asked++].error = ev.error;
	}
	assert_int_equal(seccomp_answer(listener, &ev, &e), 0);
	assert_false(seccomp_is_waiting(listener, &ev));
}

static int run_guarded(const struct seccomp_opts *o, int (*fn)(void))
{
	struct guarded g = {.opts = o, .fn = fn};
	auto_fd int listener = -1;
	int status;
	pid_t pid = start_guarded(&g, &listener), gone;
	n_asked = 0;
	while (!(gone = waitpid(pid, &status, WNOHANG))) {
		struct pollfd p = {.fd = listener, .events = POLLIN};
		if (poll(&p, 1, 20) == 1 && p.revents & POLLIN)
			answer_one(listener);
	}
	assert_int_equal(gone, pid);
	return status;
}

#define REFUSED(call, err) (syscall call == -1 && errno == (err))

static int try_calls(void)
{
	int n = 1;
	bool results[] = {
		REFUSED((SYS_unshare, CLONE_NEWUSER), EPERM),
		REFUSED((SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), EPERM),
		REFUSED((SYS_clone3, NULL, 0), ENOSYS),
		REFUSED((SYS_io_uring_setup, 1, NULL), ENOSYS),
		REFUSED((SYS_socket, 38, SOCK_SEQPACKET, 0), EAFNOSUPPORT),
		REFUSED((SYS_socket, AF_NETLINK, SOCK_RAW, 9), EPROTONOSUPPORT),
		REFUSED((SYS_socketpair, AF_INET, SOCK_STREAM, 0, NULL), EAFNOSUPPORT),
		REFUSED((SYS_ioctl, 0, 0x5412UL | 1UL << 33, "x"), EPERM),
		REFUSED((SYS_mount, "a", "b", "c", 0, NULL), EPERM),
		REFUSED((600), ENOSYS),
		syscall(SYS_socket, AF_INET, SOCK_STREAM, 0) >= 0,
		syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 0) >= 0,
	};
	for (size_t i = 0; i < countof(results); i++, n++)
		if (!results[i])
			return n;
	pid_t pid = fork();
	if (!pid)
		_exit(7);
	int status;
	return waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7 ? 0 : 50;
}

static void test_loaded(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		int error;
	} want[] = {
		{"unshare", EPERM},	  {"clone", EPERM},	      {"io_uring_setup", ENOSYS}, {"socket", EAFNOSUPPORT},
		{"socket", EPROTONOSUPPORT}, {"socketpair", EAFNOSUPPORT}, {"ioctl", EPERM},	  {"mount", EPERM},
	};
	int status = run_guarded(&user, try_calls);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(n_asked, countof(want)); // what is merely absent (clone3, 600) was not asked about
	for (size_t i = 0; i < countof(want); i++) {
		assert_string_equal(asked[i].name, want[i].name);
		assert_int_equal(asked[i].error, want[i].error);
	}
}

// Every number the filter hands over but execve, listen and the renames is refused, with the published error, and has a name.
static bool is_old_aio(long nr)
{
	static const long numbers[] = {SYS_io_setup, SYS_io_destroy, SYS_io_submit, SYS_io_cancel, SYS_io_getevents, SYS_io_pgetevents};
	for (size_t i = 0; i < countof(numbers); i++)
		if (numbers[i] == nr)
			return true;
	return false;
}

static int try_all(void)
{
	for (long nr = 0; nr < 512; nr++) {
		if (judge(&untraced, nr, 0, 0, 0) != REFUSE || nr == SYS_execve || nr == SYS_execveat || nr == SYS_listen || moves(nr))
			continue;
		bool closed = nr == SYS_io_uring_setup || nr == SYS_io_uring_enter || nr == SYS_io_uring_register || is_old_aio(nr);
		int want = EPERM;
		if (closed)
			want = ENOSYS;
		if (nr == SYS_socket || nr == SYS_socketpair)
			want = EAFNOSUPPORT;
		if (syscall(nr, 0, 0, 0, 0, 0, 0) != -1 || errno != want)
			return 1;
	}
	return 0;
}

static void test_all_refused(void **state)
{
	(void)state;
	int status = run_guarded(&untraced, try_all);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_true(n_asked > 40);
	for (size_t i = 0; i < n_asked; i++)
		assert_string_not_equal(asked[i].name, "unknown");
}

// A supervisor that is gone lets nothing through, and one that is slow neither.
static int try_alone(void)
{
	bool ok = REFUSED((SYS_unshare, CLONE_NEWUSER), ENOSYS) && REFUSED((SYS_mount, "a", "b", "c", 0, NULL), ENOSYS) &&
		  REFUSED((SYS_execve, "/bin/true", NULL, NULL), ENOSYS);
	return ok ? 0 : 1;
}

static void test_supervisor_gone(void **state)
{
	(void)state;
	struct guarded g = {.opts = &user, .fn = try_alone};
	int listener;
	pid_t pid = start_guarded(&g, &listener);
	close(listener);
	assert_int_equal(wait_for(pid), 0);
}

static int one_mount(void)
{
	return REFUSED((SYS_mount, "a", "b", "c", 0, NULL), EPERM) ? 0 : 1;
}

static void test_supervisor_slow(void **state)
{
	(void)state;
	struct guarded g = {.opts = &user, .fn = one_mount};
	auto_fd int listener = -1, second = -1;
	struct seccomp_event ev;
	struct err e = {0};
	int status;
	pid_t pid = start_guarded(&g, &listener);
	assert_int_equal(seccomp_recv(listener, &ev, &e), 0);
	assert_int_equal(poll(NULL, 0, 50), 0);
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0); // it waits
	assert_true(seccomp_is_waiting(listener, &ev));
	ev.error = 0; // whoever forgets the error has still not let it through
	assert_int_equal(seccomp_answer(listener, &ev, &e), 0);
	assert_int_equal(wait_for(pid), 0);
	pid = start_guarded(&g, &second);
	assert_int_equal(seccomp_recv(second, &ev, &e), 0);
	kill(pid, SIGKILL); // and it can be killed all the while
	assert_int_equal(WTERMSIG(wait_for(pid)), SIGKILL);
	assert_false(seccomp_is_waiting(second, &ev));
	assert_int_equal(seccomp_answer(second, &ev, &e), 0);
}

static void test_strings_of_a_refused_call(void **state)
{
	(void)state;
	struct guarded g = {.opts = &user, .fn = one_mount};
	auto_fd int listener = -1;
	auto_buf struct buf b = BUF_INIT(64), cut = BUF_INIT(64);
	struct seccomp_event ev;
	struct err e = {0};
	pid_t pid = start_guarded(&g, &listener);
	assert_int_equal(seccomp_recv(listener, &ev, &e), 0);
	assert_int_equal(seccomp_read_str(&ev, 1, 32, &b), 0);
	assert_string_equal(buf_cstr(&b), "b");
	assert_int_equal(seccomp_read_str(&ev, 1, 1, &cut), 1);
	assert_int_equal(seccomp_read_str(&ev, 4, 32, &b), -1); // NULL
	assert_int_equal(seccomp_answer(listener, &ev, &e), 0);
	assert_int_equal(wait_for(pid), 0);
}

#ifdef __x86_64__
static int call_32bit(void)
{
	long r;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
	return (int)(r & 1);
}

static int call_x32(void)
{
	return (int)syscall(0x40000000 | SYS_getpid) & 1;
}

static void test_foreign_is_killed(void **state)
{
	(void)state;
	int (*const calls[])(void) = {call_32bit, call_x32};
	for (size_t i = 0; i < countof(calls); i++) {
		int status = run_guarded(&nested, calls[i]);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGSYS);
	}
}
#endif

static int exec_true(void)
{
	char big[3000];
	memset(big, 'y', sizeof big - 1);
	big[sizeof big - 1] = 0;
	execv("/bin/true", (char *[]){(char *)(uintptr_t)"true", (char *)(uintptr_t)"", big, (char *)(uintptr_t)"last", NULL});
	return 99;
}

static void supervise(int listener, size_t max, int want_rc, size_t want_args)
{
	auto_buf struct buf path = BUF_INIT(8192);
	struct seccomp_event ev;
	struct err e = {0};
	char **argv = NULL;
	struct pollfd p = {.fd = listener, .events = POLLIN};
	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_int_equal(seccomp_recv(listener, &ev, &e), 0);
	assert_int_equal(ev.nr, SYS_execve);
	assert_int_equal(ev.error, 0);
	assert_int_equal(seccomp_read_argv(listener, &ev, max, &path, &argv, &e), want_rc);
	assert_string_equal(buf_cstr(&path), "/bin/true");
	assert_int_equal(strv_len(argv), want_args);
	assert_string_equal(argv[0], "true");
	assert_string_equal(argv[1], "");
	if (want_args == 4) {
		assert_int_equal(strlen(argv[2]), 2999);
		assert_string_equal(argv[3], "last");
	} else {
		assert_int_equal(strlen(argv[2]), max - 4);
	}
	strv_free(argv);
	assert_int_equal(seccomp_answer(listener, &ev, &e), 0);
}

static void test_exec_is_reported(void **state)
{
	(void)state;
	static const struct {
		size_t max;
		int rc;
		size_t args;
	} rows[] = {{4096, 0, 4}, {100, 1, 3}, {1000, 1, 3}};
	for (size_t i = 0; i < countof(rows); i++) {
		struct guarded g = {.opts = &user, .fn = exec_true};
		auto_fd int listener = -1;
		pid_t pid = start_guarded(&g, &listener);
		supervise(listener, rows[i].max, rows[i].rc, rows[i].args);
		assert_int_equal(wait_for(pid), 0);
	}
}

static int exec_bad_pointer(void)
{
	return syscall(SYS_execve, "/bin/true", (char **)8, NULL) == -1 && errno == EFAULT ? 0 : 1;
}

static void test_bad_pointer(void **state)
{
	(void)state;
	struct guarded g = {.opts = &user, .fn = exec_bad_pointer};
	auto_fd int listener = -1;
	auto_buf struct buf path = BUF_INIT(8192);
	struct seccomp_event ev;
	struct err e = {0};
	char **argv = NULL;
	pid_t pid = start_guarded(&g, &listener);
	assert_int_equal(seccomp_recv(listener, &ev, &e), 0);
	assert_int_equal(seccomp_read_argv(listener, &ev, 4096, &path, &argv, &e), -1);
	assert_int_equal(e.sys, EFAULT);
	assert_int_equal(seccomp_answer(listener, &ev, &e), 0);
	assert_int_equal(wait_for(pid), 0);
}

static void test_caller_gone(void **state)
{
	(void)state;
	struct guarded g = {.opts = &user, .fn = exec_true};
	auto_fd int listener = -1;
	auto_buf struct buf path = BUF_INIT(8192);
	struct seccomp_event ev;
	struct err e = {0};
	char **argv = NULL;
	pid_t pid = start_guarded(&g, &listener);
	assert_int_equal(seccomp_recv(listener, &ev, &e), 0);
	kill(pid, SIGKILL);
	wait_for(pid);
	assert_int_equal(seccomp_read_argv(listener, &ev, 4096, &path, &argv, &e), -1);
	assert_null(argv);
	assert_int_equal(seccomp_answer(listener, &ev, &e), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_renames),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_architectures),
		cmocka_unit_test(test_pid1),
		cmocka_unit_test(test_dangerous),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_published_list),
		cmocka_unit_test(test_plan),
		cmocka_unit_test(test_loaded),
		cmocka_unit_test(test_all_refused),
		cmocka_unit_test(test_supervisor_gone),
		cmocka_unit_test(test_supervisor_slow),
		cmocka_unit_test(test_strings_of_a_refused_call),
#ifdef __x86_64__
		cmocka_unit_test(test_foreign_is_killed),
#endif
		cmocka_unit_test(test_exec_is_reported),
		cmocka_unit_test(test_bad_pointer),
		cmocka_unit_test(test_caller_gone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

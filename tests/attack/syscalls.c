// SPDX-License-Identifier: Apache-2.0
// T-020, T-021, T-022, T-023, T-024, T-102: the kernel's surface, one number at a time.
#include "attack.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define NR_IO_URING_SETUP 425
#define NR_IO_URING_ENTER 426
#define NR_IO_URING_REGISTER 427
#define NR_PIDFD_OPEN 434
#define NR_PIDFD_GETFD 438
#define NR_PROCESS_MADVISE 440
#define NR_MEMFD_SECRET 447

void t020_uring(struct probe *p)
{
	static unsigned char params[120];

	must_refuse(p, "io_uring_setup", TRY(NR_IO_URING_SETUP, 8, (long)params));
	must_refuse(p, "io_uring_setup (bad)", TRY(NR_IO_URING_SETUP, -1, -1));
	must_refuse(p, "io_uring_enter", TRY(NR_IO_URING_ENTER, -1, 1, 1, 0, 0, 0));
	must_refuse(p, "io_uring_register", TRY(NR_IO_URING_REGISTER, -1, 0, 0, 0));
	must_refuse(p, "io_uring_register on no ring", TRY(NR_IO_URING_REGISTER, -1, 31, 0, 0));
}

#define KEYCTL_GET_KEYRING_ID 0
#define KEYCTL_JOIN_SESSION 1
#define KEYCTL_DESCRIBE 6
#define KEYCTL_SEARCH 10
#define KEY_SESSION -3
#define KEY_USER -4
#define KEY_USER_SESSION -5

void t021_keys(struct probe *p)
{
	const char *canary = env_or("SKEP_ATTACK_KEY", "skep-attack-no-key");
	char buf[256];

	for (int ring = KEY_USER_SESSION; ring <= -1; ring++) {
		must_refuse(p, "keyctl get_keyring_id", TRY(SYS_keyctl, KEYCTL_GET_KEYRING_ID, ring, 0));
		must_refuse(p, "keyctl describe", TRY(SYS_keyctl, KEYCTL_DESCRIBE, ring, (long)buf, sizeof(buf)));
		must_refuse(p, "keyctl search", TRY(SYS_keyctl, KEYCTL_SEARCH, ring, (long)"user", (long)canary, 0));
	}
	must_refuse(p, "keyctl join_session", TRY(SYS_keyctl, KEYCTL_JOIN_SESSION, 0));
	must_refuse(p, "request_key", TRY(SYS_request_key, (long)"user", (long)canary, 0, KEY_SESSION));
	if (!p->outside)
		must_refuse(p, "add_key",
			    TRY(SYS_add_key, (long)"user", (long)"skep-attack-own", (long)"x", 1, KEY_SESSION));
}

// A host process with known bytes at a known address; its number may be anybody's in here, the bytes may not.
static void read_canary_process(struct probe *p)
{
	pid_t pid = (pid_t)env_long("SKEP_ATTACK_PID", 0);
	void *at = (void *)env_long("SKEP_ATTACK_PIDADDR", 0);
	char buf[MARKER_SIZE] = "", path[64];
	struct iovec local = {buf, sizeof(buf)}, remote = {at, sizeof(buf)};

	if (!pid) {
		note(p, "no canary process given");
		return;
	}
	judge(p, process_vm_readv(pid, &local, 1, &remote, 1, 0) != MARKER_SIZE || !has_marker(p, buf, sizeof(buf)),
	      "read the memory of host process %d", pid);
	int fd = open(fmt(path, sizeof(path), "/proc/%d/mem", pid), O_RDONLY | O_CLOEXEC);
	judge(p,
	      fd < 0 || pread(fd, buf, sizeof(buf), (off_t)(long)at) != MARKER_SIZE || !has_marker(p, buf, sizeof(buf)),
	      "read /proc/%d/mem", pid);
	close(fd);
}

static void trace_pid1(struct probe *p)
{
	char buf[64];
	struct iovec local = {buf, sizeof(buf)}, remote = {(void *)0x400000, sizeof(buf)};
	int pidfd = (int)syscall(NR_PIDFD_OPEN, 1, 0);

	judge(p, ptrace(PTRACE_SEIZE, 1, 0, 0) != 0, "ptrace seize of pid 1");
	judge(p, ptrace(PTRACE_ATTACH, 1, 0, 0) != 0, "ptrace attach to pid 1");
	struct answer a = TRY(SYS_process_vm_readv, 1, (long)&local, 1, (long)&remote, 1, 0);
	judge(p, a.err == EPERM || a.err == ENOSYS || a.err == ESRCH, "process_vm_readv of pid 1: %s", err_name(a.err));
	a = TRY(SYS_process_vm_writev, 1, (long)&local, 1, (long)&remote, 1, 0);
	judge(p, a.err == EPERM || a.err == ENOSYS || a.err == ESRCH, "process_vm_writev of pid 1: %s",
	      err_name(a.err));
	for (int fd = 0; fd < 32; fd++)
		must_refuse(p, "pidfd_getfd of pid 1", TRY(NR_PIDFD_GETFD, pidfd, fd, 0));
	must_refuse(p, "process_madvise", TRY(NR_PROCESS_MADVISE, pidfd, (long)&remote, 1, 4, 0));
	must_refuse(p, "kcmp with pid 1", TRY(SYS_kcmp, 1, getpid(), 0, 0, 0));
	close(pidfd);
}

// It has the cell's own id, and keeps limits: without descriptors or processor time it could not. What is asked for is
// what it has already, or a value that is none, so that nothing is hurt where it works.
static void steer_pid1(struct probe *p)
{
	struct rlimit now;
	cpu_set_t all;
	struct sched_param none = {0};

	memset(&all, 0xff, sizeof(all));
	for (int what = 0; what < 16; what++)
		if (!syscall(SYS_prlimit64, 0, what, 0, &now))
			must_refuse(p, "prlimit of pid 1", TRY(SYS_prlimit64, 1, what, (long)&now, 0));
	must_refuse(p, "sched_setaffinity of pid 1", TRY(SYS_sched_setaffinity, 1, sizeof(all), (long)&all));
	must_refuse(p, "sched_setscheduler of pid 1", TRY(SYS_sched_setscheduler, 1, SCHED_OTHER, (long)&none));
	must_refuse(p, "sched_setparam of pid 1", TRY(SYS_sched_setparam, 1, (long)&none));
	must_refuse(p, "sched_setattr of pid 1", TRY(SYS_sched_setattr, 1, 0, 0));
	must_refuse(p, "setpriority of pid 1", TRY(SYS_setpriority, 0, 1, 0));
	must_refuse(p, "setpriority of the user", TRY(SYS_setpriority, 2, 0, 0));
	must_refuse(p, "ioprio_set of pid 1", TRY(SYS_ioprio_set, 1, 1, 0));
	must_refuse(p, "ioprio_set of the user", TRY(SYS_ioprio_set, 3, 0, 0));
}

void t022_cross(struct probe *p)
{
	read_canary_process(p);
	if (!p->outside) {
		trace_pid1(p);
		steer_pid1(p);
	} else if (!p->broke)
		nocontrol(p, "no canary process, or tracing is restricted on this host");
}

struct surface {
	const char *name;
	long nr, a, b, c, d, e;
};

void t023_surface(struct probe *p)
{
	static const struct surface calls[] = {
		{"bpf", SYS_bpf, -1, -1, -1, 0, 0},
		{"bpf map_create", SYS_bpf, 0, -1, 0, 0, 0},
		{"perf_event_open", SYS_perf_event_open, -1, 0, -1, -1, 0},
		{"userfaultfd", SYS_userfaultfd, 0, 0, 0, 0, 0},
		{"userfaultfd user mode", SYS_userfaultfd, 1, 0, 0, 0, 0},
		{"kexec_load", SYS_kexec_load, -1, 99999, -1, -1, 0},
		{"kexec_file_load", SYS_kexec_file_load, -1, -1, 0, 0, -1},
		{"init_module", SYS_init_module, -1, 0, -1, 0, 0},
		{"finit_module", SYS_finit_module, -1, -1, -1, 0, 0},
		{"delete_module", SYS_delete_module, -1, -1, 0, 0, 0},
		{"clock_settime", SYS_clock_settime, 0, -1, 0, 0, 0},
		{"clock_adjtime", SYS_clock_adjtime, 0, -1, 0, 0, 0},
		{"adjtimex", SYS_adjtimex, -1, 0, 0, 0, 0},
		{"settimeofday", SYS_settimeofday, -1, -1, 0, 0, 0},
		{"swapon", SYS_swapon, -1, 0, 0, 0, 0},
		{"swapoff", SYS_swapoff, -1, 0, 0, 0, 0},
		{"reboot", SYS_reboot, 1, 2, 3, 0, 0},
		{"acct", SYS_acct, -1, 0, 0, 0, 0},
		{"syslog", SYS_syslog, -1, 0, 0, 0, 0},
		{"fanotify_init", SYS_fanotify_init, -1, -1, 0, 0, 0},
		{"fanotify_mark", SYS_fanotify_mark, -1, -1, -1, -1, -1},
		{"quotactl", SYS_quotactl, -1, -1, -1, -1, 0},
		{"quotactl_fd", 443, -1, -1, -1, -1, 0},
		{"name_to_handle_at", SYS_name_to_handle_at, -1, -1, -1, -1, 0},
		{"open_by_handle_at", SYS_open_by_handle_at, -1, -1, 0, 0, 0},
		{"memfd_secret", NR_MEMFD_SECRET, 0, 0, 0, 0, 0},
		{"vmsplice", SYS_vmsplice, -1, -1, 0, 0, 0},
		{"remap_file_pages", SYS_remap_file_pages, -1, 0, 0, 0, 0},
#ifdef SYS_iopl
		{"iopl", SYS_iopl, 99, 0, 0, 0, 0},
		{"ioperm", SYS_ioperm, -1, -1, 1, 0, 0},
		{"modify_ldt", SYS_modify_ldt, 0, -1, 0, 0, 0},
		{"ustat", SYS_ustat, -1, -1, 0, 0, 0},
		{"sysfs", SYS_sysfs, 3, 0, 0, 0, 0},
		{"uselib", SYS_uselib, -1, 0, 0, 0, 0},
#endif
	};

	for (size_t i = 0; i < LEN(calls); i++) {
		const struct surface *s = &calls[i];
		must_refuse(p, s->name, TRY(s->nr, s->a, s->b, s->c, s->d, s->e));
	}
}

// Numbers that must not be called blindly: they end, stop or fork us, or (outside) touch the whole machine.
static bool leave_out(const struct probe *p, long nr)
{
	static const long never[] = {
		SYS_exit,  SYS_exit_group, SYS_rt_sigreturn, SYS_sync,
#ifdef SYS_vfork
		SYS_vfork, SYS_pause,
#endif
	};
	static const long host[] = {SYS_vhangup, SYS_reboot, SYS_acct, SYS_setgroups, SYS_umount2, SYS_swapoff};

	for (size_t i = 0; i < LEN(never); i++)
		if (never[i] == nr)
			return true;
	for (size_t i = 0; p->outside && i < LEN(host); i++)
		if (host[i] == nr)
			return true;
	return false;
}

// 0..NR_MAX with arguments no call can accept. The detail carries a map, four numbers to a hex digit, bit 0 first:
// set = the kernel was reached. The harness compares it with the published list.
#define NR_MAX 512
void t024_count(struct probe *p)
{
	char map[NR_MAX / 4 + 1] = "";
	unsigned reached = 0, nibble = 0;
	bool had_queue = msgget(-1, 0) >= 0; // the one call of all that leaves something behind
	static const long denied[] = {SYS_mount,
				      SYS_umount2,
				      SYS_pivot_root,
				      SYS_setns,
				      SYS_unshare,
				      SYS_bpf,
				      SYS_keyctl,
				      SYS_add_key,
				      SYS_request_key,
				      SYS_init_module,
				      SYS_kexec_load,
				      SYS_userfaultfd,
				      SYS_perf_event_open,
				      SYS_open_by_handle_at,
				      NR_IO_URING_SETUP,
				      NR_PIDFD_GETFD,
				      428,
				      429,
				      430,
				      431,
				      432,
				      433,
				      435,
				      442,
				      443,
				      447,
				      467};

	for (long nr = 0; nr < NR_MAX; nr++) {
		struct answer a = leave_out(p, nr) ? (struct answer){0} : TRY(nr, -1, -1, -1, -1, -1, -1);
		bool in = !(a.sig == SIGSYS || a.err == ENOSYS || a.err == EPERM);
		reached += in;
		nibble |= (unsigned)in << (nr % 4);
		if (nr % 4 == 3) {
			map[nr / 4] = "0123456789abcdef"[nibble];
			nibble = 0;
		}
		for (size_t i = 0; i < LEN(denied); i++)
			if (denied[i] == nr)
				judge(p, !in, "system call %ld is reachable", nr);
		if (nr >= 480)
			judge(p, a.err == ENOSYS || a.sig == SIGSYS, "unknown system call %ld: %s", nr,
			      err_name(a.err));
	}
	if (!had_queue)
		msgctl(msgget(-1, 0), IPC_RMID, NULL);
	note(p, "reached=%u map=%s", reached, map);
}

#ifdef __x86_64__
static void int80(struct probe *p)
{
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L /* getpid of i386 */) : "memory", "r8", "r9", "r10", "r11");
	judge(p, r < 0, "i386 getpid answered %ld", r);
}

static void x32(struct probe *p)
{
	static const long numbers[] = {39 /* getpid */, 521, 520, 59, 2, 512};

	for (size_t i = 0; i < LEN(numbers); i++) {
		struct answer a = TRY(0x40000000 | numbers[i], -1, -1, -1);
		judge(p, a.sig || a.err == ENOSYS || a.err == EPERM, "x32 call %ld: %s", numbers[i], err_name(a.err));
	}
}

void t102_foreign_abi(struct probe *p)
{
	int status = in_child(p, int80);

	if (WIFSIGNALED(status))
		held(p);
	x32(p);
	if (!p->broke)
		nocontrol(p, "this kernel has no i386 and no x32 calls");
}
#else
void t102_foreign_abi(struct probe *p)
{
	skip(p, "this machine has one ABI");
	nocontrol(p, "this machine has one ABI");
}
#endif

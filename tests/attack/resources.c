// SPDX-License-Identifier: Apache-2.0
// T-082, T-083, T-085, T-086, T-115: how much of the machine a cell can take. Every probe has a hard bound of its own, a
// little above the limit it tests, so that a missing limit costs the host no more than that.
#include "attack.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1L << 20)

// Children that only wait: they cost a number, no time.
static void many_children(struct probe *p, long limit)
{
	long cap = limit + limit / 4 + 64, n = 0;
	int gate[2], err = 0;
	char c;

	if (pipe2(gate, O_CLOEXEC))
		return;
	for (; n < cap; n++) {
		pid_t pid = fork();
		if (pid == 0) {
			close(gate[1]);
			_exit(read(gate[0], &c, 1) < 0);
		}
		if (pid < 0) {
			err = errno;
			break;
		}
	}
	close(gate[1]);
	close(gate[0]);
	while (wait(NULL) > 0)
		;
	judge(p, err != 0, "%ld processes, and the limit should be %ld", n, limit);
	note(p, "%ld processes, then %s", n, err_name(err));
}

static void bomb(const struct timespec *end, long *forks)
{
	struct timespec now;

	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec >= end->tv_sec || __atomic_add_fetch(forks, 1, __ATOMIC_RELAXED) > 100000)
			return;
		pid_t pid = fork();
		if (pid < 0)
			usleep(2000);
	}
}

static void exponential(struct probe *p)
{
	struct timespec end;
	long *forks = mmap(NULL, sizeof(*forks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;

	if (forks == MAP_FAILED)
		return;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += 3;
	pid_t pid = fork();
	if (pid == 0) {
		signal(SIGCHLD, SIG_IGN);
		put_file("/proc/self/oom_score_adj", "1000"); // what the dead leave behind counts too: let it be these
		bomb(&end, forks);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	for (int i = 0; i < 100; i++) { // the last ones end by themselves; afterwards life goes on
		pid = fork();
		if (pid == 0)
			_exit(9);
		if (pid > 0)
			break;
		usleep(50000);
	}
	judge(p, pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 9,
	      "no fork any more after the bomb");
	note(p, "%ld forks tried in 3 s", *forks);
}

void t082_forks(struct probe *p)
{
	struct rlimit r;
	long limit = env_long("SKEP_ATTACK_PIDS", 512);

	if (p->outside && !getrlimit(RLIMIT_NPROC, &r) && r.rlim_cur < (rlim_t)(2 * limit)) {
		nocontrol(p, "this user may have %lu processes only", (unsigned long)r.rlim_cur);
		return;
	}
	many_children(p, limit);
	if (!p->outside && !p->broke) // never where nothing would stop it
		exponential(p);
}

static void hog(long bytes)
{
	for (long done = 0; done < bytes; done += MIB) {
		char *m = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (m == MAP_FAILED)
			_exit(1);
		memset(m, (int)done | 1, MIB);
		if (done % (16 * MIB) == 0)
			usleep(5000); // a supervisor that samples gets a chance
	}
	usleep(500000); // taken and kept: on a busy machine a supervisor has to wait for a processor
}

// Several processes, each below a limit that only counts one.
static void hog_together(long bytes)
{
	int gate[2];
	char c;

	if (pipe2(gate, O_CLOEXEC))
		_exit(1);
	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			close(gate[1]);
			hog(bytes / 4);
			_exit(read(gate[0], &c, 1) < 0);
		}
	sleep(3);
	int status, alive = 4;
	while (waitpid(-1, &status, WNOHANG) > 0)
		alive--;
	close(gate[1]);
	_exit(alive == 4 ? 0 : 1);
}

static int run_hog(void (*fn)(long), long bytes)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		put_file("/proc/self/oom_score_adj", "1000"); // let it be this one
		fn(bytes);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status;
}

static void hog_tmpfs(struct probe *p, const char *dir, long bytes)
{
	static char block[1 << 20];
	char path[PATH_SIZE];
	long done = 0;
	int fd = open(fmt(path, sizeof(path), "%s/skep-attack-fill", dir), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return;
	while (done < bytes && write(fd, block, sizeof(block)) == (ssize_t)sizeof(block))
		done += MIB;
	judge(p, done < bytes, "%s took %ld MiB of memory", dir, done / MIB);
	close(fd);
	unlink(path);
}

void t083_memory(struct probe *p)
{
	long limit = env_long("SKEP_ATTACK_MEM", 0);

	if (!limit) {
		skip(p, "no SKEP_ATTACK_MEM: the limit is not known");
		return;
	}
	long bytes = limit + limit / 4 + 64 * MIB;
	judge(p, run_hog(hog, bytes) != 0, "%ld MiB touched, limit %ld MiB", bytes / MIB, limit / MIB);
	if (p->outside)
		return;
	judge(p, run_hog(hog_together, bytes) != 0, "four processes hold %ld MiB, limit %ld MiB", bytes / MIB,
	      limit / MIB);
	hog_tmpfs(p, "/tmp", limit);
	hog_tmpfs(p, "/dev/shm", limit);
	note(p, "limit %ld MiB", limit / MIB);
}

static int make_file(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}
static int make_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}
static int make_epoll(void)
{
	return epoll_create1(EPOLL_CLOEXEC);
}
static int make_event(void)
{
	return eventfd(0, EFD_CLOEXEC);
}
static int make_watch(void)
{
	return inotify_init1(IN_CLOEXEC);
}
static int make_timer(void)
{
	return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
}
static int make_memfd(void)
{
	return (int)syscall(SYS_memfd_create, "x", 1);
}
static int make_pty(void)
{
	return open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
}

static void exhaust(struct probe *p, const char *what, int (*make)(void), long limit)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		long n = 0;
		while (n <= limit && make() >= 0)
			n++;
		note(p, "%ld %s, then %s", n, what, n > limit ? "no limit" : err_name(errno));
		_exit(n > limit);
	}
	waitpid(pid, &status, 0);
	judge(p, status == 0, "more than %ld %s", limit, what);
}

void t085_descriptors(struct probe *p)
{
	static const struct {
		const char *what;
		int (*make)(void);
	} kinds[] = {{"files", make_file},     {"sockets", make_socket},  {"epolls", make_epoll},
		     {"eventfds", make_event}, {"inotifies", make_watch}, {"timers", make_timer},
		     {"memfds", make_memfd},   {"terminals", make_pty}};
	long limit = env_long("SKEP_ATTACK_NOFILE", 4096);
	struct rlimit r;

	getrlimit(RLIMIT_NOFILE, &r);
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
	if (p->outside && r.rlim_max <= (rlim_t)limit)
		nocontrol(p, "this user may open %lu files only", (unsigned long)r.rlim_max);
	for (size_t i = 0; i < (p->outside ? 1 : LEN(kinds)); i++)
		exhaust(p, kinds[i].what, kinds[i].make, limit);
	r.rlim_max = r.rlim_cur = (rlim_t)limit * 1024;
	judge(p, p->outside || setrlimit(RLIMIT_NOFILE, &r) != 0, "raised the limit of open files");
}

static void attach_to_socket(struct probe *p, int option, const char *name)
{
	struct sock_filter take_all = BPF_STMT(BPF_RET | BPF_K, 0xffff);
	struct sock_fprog prog = {1, &take_all};
	int one = 1, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	judge(p, setsockopt(fd, SOL_SOCKET, option, &prog, sizeof(prog)) != 0, "%s", name);
	close(fd);
}

// For six seconds after the socket, and of 4096 for the whole host.
static void take_flow_label(struct probe *p)
{
	struct {
		unsigned char dst[16];
		unsigned label;
		unsigned char action, share;
		unsigned short flags, expires, linger;
		unsigned pad;
	} request = {{0x20, 1, 0x0d, 0xb8}, htonl(0x12345), 0, 255, 1, 0, 0, 0};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	judge(p, setsockopt(fd, IPPROTO_IPV6, 32, &request, sizeof(request)) != 0, "a flow label");
	close(fd);
}

// T-115: what no limit of a cell counts and the host has a fixed amount of. One of each is tried: all or nothing.
void t115_pools(struct probe *p)
{
	unsigned long context = 0;
	void *huge;
	int fd;

	judge(p, syscall(SYS_io_setup, 64, &context) != 0, "io_setup: fs.aio-max-nr");
	attach_to_socket(p, SO_ATTACH_FILTER, "SO_ATTACH_FILTER: net.core.bpf_jit_limit");
	attach_to_socket(p, SO_ATTACH_REUSEPORT_CBPF, "SO_ATTACH_REUSEPORT_CBPF: net.core.bpf_jit_limit");
	take_flow_label(p);
	huge = mmap(NULL, 2 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	judge(p, huge == MAP_FAILED, "a huge page");
	fd = (int)syscall(SYS_memfd_create, "x", 4);
	judge(p, fd < 0, "a file of huge pages");
}

// The flood goes to stderr, the verdict to stdout. What was kept of it is the harness's question.
void t086_output(struct probe *p)
{
	static char line[65536];
	long want = env_long("SKEP_ATTACK_OUTPUT", 64 * MIB), done = 0;
	ssize_t n = 1;

	nocontrol(p, "the output of a plain process is nobody's to cap");
	if (p->outside)
		return;
	for (size_t i = 0; i < sizeof(line); i++)
		line[i] = i % 80 == 79 ? '\n' : (char)('!' + i % 90);
	while (done < want && (n = write(2, line, sizeof(line))) > 0)
		done += n;
	held(p);
	note(p, "%ld MiB written%s%s", done / MIB, n < 0 ? ", then " : "", n < 0 ? err_name(errno) : "");
}

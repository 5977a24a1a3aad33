// SPDX-License-Identifier: Apache-2.0
// Ways to move the bytes of one connection to another, memory to memory over loopback: a process that sends, one that relays
// and one that receives, as with the gate. Prints for each way the best rate and, of that round, the processor time of the relay
// and of all three for a gigabyte (work that the kernel does for nobody in particular is not in it). "direct": nobody relays. docs/gate.md has the table and what follows from it.
//
//   gate_ways [SECONDS [ROUNDS]]      sockmap needs root
#include "gate_io.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_MAX (1u << 20)

struct result { // in memory that all share
	uint64_t bytes;
	double cpu, all; // seconds: the relay's, and those of all three
	bool works;
};

struct way {
	const char *name;
	size_t load;
	bool (*relay)(int from, int to, size_t load); // false: it can not be had here
};

static double now(void)
{
	return (double)now_ns() / 1e9;
}

// --- ways ---

static bool relay_copy(int from, int to, size_t load)
{
	char *b = malloc(load);
	ssize_t n, k;
	while ((n = recv(from, b, load, 0)) > 0)
		for (char *p = b; n > 0; p += k, n -= k)
			if ((k = send(to, p, (size_t)n, MSG_NOSIGNAL)) <= 0)
				return true;
	return true;
}

static bool relay_splice(int from, int to, size_t load)
{
	int p[2];
	ssize_t n, k = 1;
	if (pipe2(p, O_CLOEXEC) || fcntl(p[1], F_SETPIPE_SZ, (int)load) < 0)
		return false;
	while (k > 0 && (n = splice(from, NULL, p[1], NULL, load, SPLICE_F_MOVE)) > 0)
		for (; n > 0 && k > 0; n -= k)
			k = splice(p[0], NULL, to, NULL, (size_t)n, SPLICE_F_MOVE);
	return true;
}

// The kernel tells by the error queue when it no longer needs a buffer; eight take turns.
static bool relay_zerocopy(int from, int to, size_t load)
{
	enum { TURNS = 8 };
	char *b = malloc(load * TURNS), control[128];
	uint32_t sent = 0, done = 0, last[TURNS] = {0};
	int on = 1;
	ssize_t n, k;
	if (setsockopt(to, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on))
		return false;
	for (unsigned turn = 0;; turn = (turn + 1) % TURNS) {
		while ((int32_t)(last[turn] - done) > 0) {
			struct msghdr m = {.msg_control = control, .msg_controllen = sizeof control};
			struct pollfd p = {.fd = to};
			if (recvmsg(to, &m, MSG_ERRQUEUE) < 0) {
				if (errno != EAGAIN || poll(&p, 1, 1000) <= 0)
					return true;
				continue;
			}
			struct cmsghdr *c = CMSG_FIRSTHDR(&m);
			if (c)
				done = ((struct sock_extended_err *)CMSG_DATA(c))->ee_data + 1;
		}
		if ((n = recv(from, b + turn * load, load, 0)) <= 0)
			return true;
		for (char *p = b + turn * load; n > 0; p += k, n -= k, sent++)
			if ((k = send(to, p, (size_t)n, MSG_NOSIGNAL | MSG_ZEROCOPY)) <= 0)
				return true;
		last[turn] = sent;
	}
}

static int bpf(int cmd, union bpf_attr *a)
{
	return (int)syscall(SYS_bpf, cmd, a, sizeof *a);
}

// One connection in one direction: every byte that comes goes to the socket with number 1.
static bool relay_sockmap(int from, int to, size_t load)
{
	uint32_t key[2] = {0, 1};
	int fd[2] = {from, to};
	char b[16];
	(void)load;
	union bpf_attr map = {.map_type = BPF_MAP_TYPE_SOCKMAP, .key_size = 4, .value_size = 4, .max_entries = 2};
	int m = bpf(BPF_MAP_CREATE, &map);
	if (m < 0)
		return false;
	struct bpf_insn prog[] = {
		{.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = BPF_REG_2, .src_reg = BPF_PSEUDO_MAP_FD, .imm = m},
		{0},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3, .imm = 1},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_4, .imm = 0},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_sk_redirect_map},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr load_it = {.prog_type = BPF_PROG_TYPE_SK_SKB, .insn_cnt = sizeof prog / sizeof *prog, .insns = (uintptr_t)prog, .license = (uintptr_t) "GPL"};
	int p = bpf(BPF_PROG_LOAD, &load_it);
	union bpf_attr attach = {.target_fd = (uint32_t)m, .attach_bpf_fd = (uint32_t)p, .attach_type = BPF_SK_SKB_STREAM_VERDICT};
	if (p < 0 || bpf(BPF_PROG_ATTACH, &attach))
		return false;
	for (int i = 1; i >= 0; i--) {
		union bpf_attr set = {.map_fd = (uint32_t)m, .key = (uintptr_t)&key[i], .value = (uintptr_t)&fd[i]};
		if (bpf(BPF_MAP_UPDATE_ELEM, &set))
			return false;
	}
	// what came before the program was in place
	for (ssize_t n; (n = recv(from, b, sizeof b, MSG_DONTWAIT)) > 0;)
		if (send(to, b, (size_t)n, MSG_NOSIGNAL) < 0)
			return true;
	struct pollfd w = {.fd = from, .events = POLLRDHUP};
	while (poll(&w, 1, -1) < 0 && errno == EINTR)
		;
	return true;
}

// --- a round ---

static int listening(struct sockaddr_in *a)
{
	socklen_t n = sizeof *a;
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	*a = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (l < 0 || bind(l, (struct sockaddr *)a, n) || listen(l, 4) || getsockname(l, (struct sockaddr *)a, &n))
		die("listen");
	return l;
}

static int dialled(const struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)a, sizeof *a))
		die("connect");
	return fd;
}

static void receive(int l, struct result *r)
{
	char *b = malloc(READ_MAX);
	int fd = accept(l, NULL, NULL);
	for (ssize_t n; (n = recv(fd, b, READ_MAX, 0)) > 0;)
		r->bytes += (uint64_t)n;
}

static double cpu_of(int who)
{
	struct rusage u;
	getrusage(who, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void relay(int l, const struct sockaddr_in *to, const struct way *w, struct result *r)
{
	int from = accept(l, NULL, NULL), out = dialled(to);
	r->works = w->relay(from, out, w->load);
	r->cpu = cpu_of(RUSAGE_SELF);
}

static void run_round(const struct way *w, double seconds, struct result *r)
{
	struct sockaddr_in host, middle;
	int l = listening(&host), m = w->relay ? listening(&middle) : -1;
	char *b = calloc(1, CHUNK);
	*r = (struct result){.works = true};
	double before = cpu_of(RUSAGE_SELF) + cpu_of(RUSAGE_CHILDREN);
	pid_t receiver = fork();
	if (!receiver) {
		receive(l, r);
		_exit(0);
	}
	pid_t relayer = w->relay ? fork() : 0;
	if (w->relay && !relayer) {
		close(l);
		relay(m, &host, w, r);
		_exit(0);
	}
	int fd = dialled(w->relay ? &middle : &host);
	for (double end = now() + seconds; now() < end;)
		if (send(fd, b, CHUNK, MSG_NOSIGNAL) < 0)
			break;
	close(fd);
	if (relayer > 0)
		waitpid(relayer, NULL, 0);
	waitpid(receiver, NULL, 0);
	r->all = cpu_of(RUSAGE_SELF) + cpu_of(RUSAGE_CHILDREN) - before;
	close(l);
	if (m >= 0)
		close(m);
	free(b);
}

int main(int argc, char **argv)
{
	static const struct way ways[] = {
		{"direct", 0, NULL},
		{"copy, 64 KiB", 64 << 10, relay_copy},
		{"copy, 256 KiB", 256 << 10, relay_copy},
		{"splice, 64 KiB pipe", 64 << 10, relay_splice},
		{"splice, 256 KiB pipe", 256 << 10, relay_splice},
		{"splice, 1 MiB pipe", 1 << 20, relay_splice},
		{"splice, 4 MiB pipe", 4 << 20, relay_splice},
		{"zerocopy, 256 KiB", 256 << 10, relay_zerocopy},
		{"sockmap", 0, relay_sockmap},
	};
	enum { WAYS = sizeof ways / sizeof *ways, ROUNDS_MAX = 100 };
	double seconds = argc > 1 ? atof(argv[1]) : 0.5, best[WAYS] = {0}, cpu[WAYS] = {0}, all[WAYS] = {0};
	int rounds = argc > 2 ? atoi(argv[2]) : 5;
	struct result *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < rounds && i < ROUNDS_MAX; i++)
		for (int w = 0; w < WAYS; w++) {
			double start = now();
			run_round(&ways[w], seconds, r);
			double rate = r->works ? (double)r->bytes / (now() - start) / 1e9 : 0;
			if (rate > best[w]) {
				best[w] = rate;
				cpu[w] = r->cpu / ((double)r->bytes / 1e9);
				all[w] = r->all / ((double)r->bytes / 1e9);
			}
		}
	printf("%-22s %8s %8s %10s %10s\n", "way", "GB/s", "x direct", "relay s/GB", "all s/GB");
	for (int w = 0; w < WAYS; w++)
		printf("%-22s %8.2f %8.2f %10.3f %10.3f\n", ways[w].name, best[w], best[w] / best[0], cpu[w], all[w]);
	return 0;
}

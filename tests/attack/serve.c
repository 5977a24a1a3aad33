// SPDX-License-Identifier: Apache-2.0
// host-serve: holds one canary of every kind open until stdin ends, then removes them and what host-prepare made.
#include "attack.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEYCTL_UNLINK 9
#define KEY_USER (-4)

struct canaries {
	unsigned char marker[MARKER_SIZE];
	int shm, msg, sem, mq, tcp, udp, abstract, named;
	long key;
	pid_t target;
	char socket_path[PATH_SIZE], mq_name[64];
};

static volatile sig_atomic_t over;

static void on_signal(int sig)
{
	(void)sig;
	over = 1;
}

static void read_canary(struct canaries *c, const char *dir)
{
	char path[PATH_SIZE], buf[MARKER_SIZE + 1];

	if (slurp(fmt(path, sizeof(path), "%s/canary-dir/canary", dir), buf, sizeof(buf)) == MARKER_SIZE)
		memcpy(c->marker, buf, MARKER_SIZE);
}

static void open_sysv(struct canaries *c)
{
	key_t key = (key_t)(0x5ce90000 | (getpid() & 0xffff));

	c->shm = shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0600);
	void *at = c->shm < 0 ? (void *)-1 : shmat(c->shm, NULL, 0);
	if (at != (void *)-1) {
		memcpy(at, c->marker, MARKER_SIZE);
		shmdt(at);
	}
	c->msg = msgget(key, IPC_CREAT | IPC_EXCL | 0600);
	c->sem = semget(key, 1, IPC_CREAT | IPC_EXCL | 0600);
	printf("SKEP_ATTACK_SHM=%d\nSKEP_ATTACK_IPCKEY=%d\n", c->shm, (int)key);
	fmt(c->mq_name, sizeof(c->mq_name), "skep-attack-%d", getpid());
	c->mq = (int)syscall(SYS_mq_open, c->mq_name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600, NULL);
	if (c->mq >= 0)
		printf("SKEP_ATTACK_MQ=%s\n", c->mq_name);
}

static int listen_unix(const char *path, bool abstract)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = strlen(path);
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (n + 1 >= sizeof(a.sun_path))
		return -1;
	memcpy(a.sun_path + abstract, path, n);
	if (bind(s, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1)) ||
	    listen(s, 64))
		return -1;
	return s;
}

static int bind_inet(int type, const char *key)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t n = sizeof(a);
	int s = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (bind(s, (struct sockaddr *)&a, sizeof(a)) || (type == SOCK_STREAM && listen(s, 64)) ||
	    getsockname(s, (struct sockaddr *)&a, &n))
		return -1;
	printf("%s=%d\n", key, ntohs(a.sin_port));
	return s;
}

static void open_sockets(struct canaries *c)
{
	char name[64];

	fmt(name, sizeof(name), "skep-attack-%d", getpid());
	c->abstract = listen_unix(name, true);
	fmt(c->socket_path, sizeof(c->socket_path), "/tmp/skep-attack-%d.sock", getpid());
	c->named = listen_unix(c->socket_path, false);
	printf("SKEP_ATTACK_ABSTRACT=%s\nSKEP_ATTACK_SOCKET=%s\n", name, c->socket_path);
	c->tcp = bind_inet(SOCK_STREAM, "SKEP_ATTACK_TCP");
	c->udp = bind_inet(SOCK_DGRAM, "SKEP_ATTACK_UDP");
}

// A process to be traced, with known bytes at a known address.
static void start_target(struct canaries *c)
{
	static unsigned char bytes[MARKER_SIZE];

	memcpy(bytes, c->marker, MARKER_SIZE);
	c->target = fork();
	if (c->target == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(0x59616d61 /* PR_SET_PTRACER */, -1L, 0, 0, 0);
		prctl(PR_SET_NAME, "skep-attack-tgt");
		signal(SIGINT, SIG_IGN);
		for (;;)
			pause();
	}
	printf("SKEP_ATTACK_PID=%d\nSKEP_ATTACK_PIDADDR=%#lx\n", c->target, (unsigned long)bytes);
	printf("SKEP_ATTACK_PIDNAME=host-serve\n");
}

static void add_key(struct canaries *c)
{
	char name[64];

	fmt(name, sizeof(name), "skep-attack-%d", getpid());
	c->key = syscall(SYS_add_key, "user", name, c->marker, MARKER_SIZE, KEY_USER);
	if (c->key > 0)
		printf("SKEP_ATTACK_KEY=%s\n", name);
}

// Whatever it was sent, it says who it is: as an answer of HTTP, which leads back here.
static void answer_tcp(const struct canaries *c)
{
	struct sockaddr_in a = {0};
	socklen_t n = sizeof(a);
	char b[4096], text[256];
	int s = accept4(c->tcp, NULL, NULL, SOCK_CLOEXEC);
	struct pollfd f = {.fd = s, .events = POLLIN};

	getsockname(c->tcp, (struct sockaddr *)&a, &n);
	fmt(text, sizeof(text),
	    "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
	    ntohs(a.sin_port), MARKER_SIZE);
	if (poll(&f, 1, 100) == 1 && recv(s, b, sizeof(b), 0) > 0 && send(s, text, strlen(text), 0) > 0 &&
	    send(s, c->marker, MARKER_SIZE, 0) > 0)
		shutdown(s, SHUT_WR);
	close(s);
}

static void answer(struct canaries *c, struct pollfd *f, int n)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char b[16];

	for (int i = 1; i < n; i++) {
		if (!(f[i].revents & POLLIN))
			continue;
		if (f[i].fd == c->udp) {
			if (recvfrom(c->udp, b, sizeof(b), 0, (struct sockaddr *)&from, &len) > 0)
				sendto(c->udp, c->marker, MARKER_SIZE, 0, (struct sockaddr *)&from, len);
			continue;
		}
		if (f[i].fd == c->tcp) {
			answer_tcp(c);
			continue;
		}
		close(accept4(f[i].fd, NULL, NULL, SOCK_CLOEXEC));
	}
}

static void serve(struct canaries *c)
{
	char b[256];

	while (!over) {
		struct pollfd f[] = {{.fd = 0, .events = POLLIN},
				     {.fd = c->tcp, .events = POLLIN},
				     {.fd = c->udp, .events = POLLIN},
				     {.fd = c->abstract, .events = POLLIN},
				     {.fd = c->named, .events = POLLIN}};
		if (poll(f, LEN(f), -1) < 0)
			continue;
		answer(c, f, (int)LEN(f));
		if (f[0].revents && read(0, b, sizeof(b)) <= 0)
			return;
	}
}

static void close_all(struct canaries *c, const char *dir)
{
	kill(c->target, SIGKILL);
	waitpid(c->target, NULL, 0);
	if (c->shm >= 0)
		shmctl(c->shm, IPC_RMID, NULL);
	if (c->msg >= 0)
		msgctl(c->msg, IPC_RMID, NULL);
	if (c->sem >= 0)
		semctl(c->sem, 0, IPC_RMID);
	if (c->mq >= 0)
		syscall(SYS_mq_unlink, c->mq_name);
	if (c->key > 0)
		syscall(SYS_keyctl, KEYCTL_UNLINK, c->key, KEY_USER);
	unlink(c->socket_path);
	host_clean(dir);
}

int host_serve(const char *dir)
{
	struct canaries c = {.shm = -1, .msg = -1, .sem = -1, .mq = -1};
	struct sigaction a = {.sa_handler = on_signal}; // no SA_RESTART: poll must return

	sigaction(SIGTERM, &a, NULL);
	sigaction(SIGINT, &a, NULL);
	sigaction(SIGHUP, &a, NULL);
	signal(SIGPIPE, SIG_IGN);
	read_canary(&c, dir);
	open_sysv(&c);
	open_sockets(&c);
	add_key(&c);
	fflush(stdout);
	start_target(&c);
	printf("SKEP_ATTACK_READY=1\n");
	fflush(stdout);
	serve(&c);
	close_all(&c, dir);
	return 0;
}

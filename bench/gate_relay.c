// SPDX-License-Identifier: Apache-2.0
// The least that any relay does: takes connections, dials the host, moves bytes by splice. It looks at nothing, judges
// nothing and has a thread for each direction; what it reaches on a machine is what can be reached there.
//
//   gate_relay PORT       prints its own port and serves until its stdin ends
#include "gate_io.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOAD (1u << 20)

struct way {
	int from, to;
};

static void *move(void *arg)
{
	struct way w = *(struct way *)arg;
	int p[2];
	ssize_t n, k = 1;
	free(arg);
	if (pipe2(p, O_CLOEXEC))
		die("pipe");
	fcntl(p[1], F_SETPIPE_SZ, LOAD);
	while (k > 0 && (n = splice(w.from, NULL, p[1], NULL, LOAD, SPLICE_F_MOVE)) > 0)
		for (; n > 0 && k > 0; n -= k)
			k = splice(p[0], NULL, w.to, NULL, (size_t)n, SPLICE_F_MOVE);
	shutdown(w.to, SHUT_WR);
	close(p[0]);
	close(p[1]);
	return NULL;
}

static pthread_t start(int from, int to)
{
	struct way *w = malloc(sizeof *w);
	pthread_t t;
	*w = (struct way){from, to};
	if (pthread_create(&t, NULL, move, w))
		die("thread");
	return t;
}

static void *serve(void *arg)
{
	struct way w = *(struct way *)arg;
	pthread_t up = start(w.from, w.to), down = start(w.to, w.from);
	free(arg);
	pthread_join(up, NULL);
	pthread_join(down, NULL);
	close(w.from);
	close(w.to);
	return NULL;
}

static void *accept_all(void *arg)
{
	const struct sockaddr_in *host = arg;
	int fd, l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof a;
	pthread_t t;
	if (l < 0 || bind(l, (struct sockaddr *)&a, n) || listen(l, 512) || getsockname(l, (struct sockaddr *)&a, &n))
		die("listen");
	printf("%u\n", ntohs(a.sin_port));
	fflush(stdout);
	while ((fd = accept4(l, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		struct way *w = malloc(sizeof *w);
		*w = (struct way){fd, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
		if (connect(w->to, (const struct sockaddr *)host, sizeof *host))
			die("connect");
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		setsockopt(w->to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		if (pthread_create(&t, NULL, serve, w))
			die("thread");
		pthread_detach(t);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct sockaddr_in host = {.sin_family = AF_INET};
	pthread_t t;
	char c;
	if (argc != 2) {
		fprintf(stderr, "usage: gate_relay PORT\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	host.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	host.sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10));
	if (pthread_create(&t, NULL, accept_all, &host))
		die("thread");
	while (read(0, &c, 1) > 0)
		;
	return 0;
}

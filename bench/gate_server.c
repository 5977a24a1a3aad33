// SPDX-License-Identifier: Apache-2.0
// The host behind the gate, on loopback: one plain port and one with TLS, a thread for each connection.
//
//   gate_server CERT KEY       prints "PLAIN-PORT TLS-PORT" and serves until its stdin ends
#include "gate_io.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct listener {
	int fd;
	SSL_CTX *tls; // NULL = plain
};

struct guest {
	struct stream s;
	SSL_CTX *tls;
};

static int raw(struct stream *s, const struct ask *a)
{
	if (a->kind == ASK_DOWN)
		stream_pace(s, a->pace);
	if (a->kind == ASK_DOWN)
		return stream_send(s, a->bytes);
	return stream_discard(s, a->bytes) || stream_write(s, "", 1) ? -1 : 0;
}

static int answer(struct stream *s, const char *head)
{
	unsigned long long n;
	char text[256];
	if (sscanf(head, "GET /%llu ", &n) != 1)
		return -1;
	int len = snprintf(text, sizeof text,
			   "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
			   "Cache-Control: no-store\r\nContent-Length: %llu\r\n\r\n",
			   n);
	// a small answer in one piece, as servers do
	if (n > CHUNK)
		return stream_write(s, text, (size_t)len) || stream_send(s, n) ? -1 : 0;
	char *whole = calloc(1, (size_t)len + n);
	memcpy(whole, text, (size_t)len);
	int rc = stream_write(s, whole, (size_t)len + n);
	free(whole);
	return rc;
}

// Requests one after the other; none sends the next before it has its answer.
static int http(struct stream *s, char *head, size_t n, size_t room)
{
	for (;;) {
		head[n] = 0;
		if (strstr(head, "\r\n\r\n")) {
			if (answer(s, head))
				return -1;
			n = 0;
		}
		if (n + 1 >= room)
			return -1;
		ssize_t k = stream_read(s, head + n, room - 1 - n);
		if (k <= 0)
			return -1;
		n += (size_t)k;
	}
}

static void talk(struct stream *s)
{
	char head[16 << 10] = "";
	struct ask a;
	while (!stream_read_all(s, &a, sizeof a)) {
		if (a.kind != ASK_DOWN && a.kind != ASK_UP) {
			memcpy(head, &a, sizeof a);
			http(s, head, sizeof a, sizeof head);
			return;
		}
		if (raw(s, &a))
			return;
	}
}

static void *serve(void *arg)
{
	struct guest *g = arg;
	if (g->tls) {
		g->s.ssl = SSL_new(g->tls);
		SSL_set_fd(g->s.ssl, g->s.fd);
	}
	if (!g->tls || SSL_accept(g->s.ssl) == 1)
		talk(&g->s);
	stream_close(&g->s);
	free(g);
	return NULL;
}

static void *accept_all(void *arg)
{
	const struct listener *l = arg;
	int on = 1, fd;
	while ((fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		struct guest *g = malloc(sizeof *g);
		pthread_t t;
		*g = (struct guest){{fd, NULL}, l->tls};
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		if (pthread_create(&t, NULL, serve, g))
			die("thread");
		pthread_detach(t);
	}
	return NULL;
}

static unsigned start(struct listener *l)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof a;
	pthread_t t;
	l->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (l->fd < 0 || bind(l->fd, (struct sockaddr *)&a, n) || listen(l->fd, 512) ||
	    getsockname(l->fd, (struct sockaddr *)&a, &n))
		die("listen");
	if (pthread_create(&t, NULL, accept_all, l))
		die("thread");
	return ntohs(a.sin_port);
}

int main(int argc, char **argv)
{
	static struct listener plain, tls;
	char c;
	if (argc != 3) {
		fprintf(stderr, "usage: gate_server CERT KEY\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	tls.tls = SSL_CTX_new(TLS_server_method());
	if (!tls.tls || SSL_CTX_use_certificate_chain_file(tls.tls, argv[1]) != 1 ||
	    SSL_CTX_use_PrivateKey_file(tls.tls, argv[2], SSL_FILETYPE_PEM) != 1)
		die("certificate");
	printf("%u %u\n", start(&plain), start(&tls));
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	return 0;
}

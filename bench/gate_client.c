// SPDX-License-Identifier: Apache-2.0
// Times connections from where it runs: on the host, or inside a cell. Only what happens after its own start counts.
//
//   gate_client [-t [-c CA]] [-x PROXY-PORT] [-n NAME] [-w THREADS] [-i IDLE_US] [-p PACE] HOST PORT WORK COUNT [BYTES]
//
// WORK, one line of nanoseconds for each measurement; before them "name NANOSECONDS" for finding HOST's address:
//   first      COUNT connections one after the other, each until the first byte of an answer
//   down, up   COUNT times BYTES on one connection
//   get        COUNT requests for BYTES on kept connections, shared by the threads: one line for all together
//   get-new    the same, with a new connection for each request
// -t TLS for NAME (HOST when not given), checked against the system's authorities or CA. -x: CONNECT through that proxy
// on loopback first. -i: pause before each connection. -p: whoever
// sends many bytes sends so many megabytes a second, as a link of that speed would carry.
#include "gate_io.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

struct client {
	const char *host, *port, *name, *ca;
	unsigned proxy, threads;
	unsigned long count, idle_us;
	uint64_t bytes;
	uint32_t pace;
	bool wants_tls, new_each;
	SSL_CTX *tls;
	struct sockaddr_in to;
};

static void find(struct client *c)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
	uint64_t start = now_ns();
	if (getaddrinfo(c->proxy ? "127.0.0.1" : c->host, c->port, &hints, &found))
		die("no such name");
	memcpy(&c->to, found->ai_addr, sizeof c->to);
	freeaddrinfo(found);
	if (c->proxy)
		c->to.sin_port = htons((uint16_t)c->proxy);
	printf("name %llu\n", (unsigned long long)(now_ns() - start));
}

static void tls_setup(struct client *c)
{
	c->tls = SSL_CTX_new(TLS_client_method());
	if (!c->tls || (c->ca ? SSL_CTX_load_verify_locations(c->tls, c->ca, NULL)
			      : SSL_CTX_set_default_verify_paths(c->tls)) != 1)
		die("authorities");
	SSL_CTX_set_verify(c->tls, SSL_VERIFY_PEER, NULL);
}

// Reads the head of an answer, and not one byte more when exact. Gives the bytes of the body that came with it.
static uint64_t read_head(struct stream *s, bool exact, uint64_t *length)
{
	char head[16 << 10];
	size_t n = 0;
	const char *end = NULL;
	while (!end && n < sizeof head - 1) {
		ssize_t k = stream_read(s, head + n, exact ? 1 : sizeof head - 1 - n);
		if (k <= 0)
			die("no answer");
		n += (size_t)k;
		head[n] = 0;
		end = strstr(head, "\r\n\r\n");
	}
	const char *field = strcasestr(head, "\r\nContent-Length:");
	if (!end || !strstr(head, " 200 ") || (!exact && !field)) {
		fprintf(stderr, "gate_client: unexpected answer: %.80s\n", head);
		exit(1);
	}
	*length = field ? strtoull(field + 17, NULL, 10) : 0;
	return n - (size_t)(end + 4 - head);
}

static void tunnel(const struct client *c, struct stream *s)
{
	char text[512];
	uint64_t none;
	int n = snprintf(text, sizeof text, "CONNECT %s:%s HTTP/1.1\r\nHost: %s:%s\r\n\r\n", c->host, c->port, c->host,
			 c->port);
	if (stream_write(s, text, (size_t)n))
		die("CONNECT");
	read_head(s, true, &none);
}

static struct stream dial(const struct client *c)
{
	struct stream s = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	int on = 1;
	if (s.fd < 0 || connect(s.fd, (const struct sockaddr *)&c->to, sizeof c->to))
		die("connect");
	setsockopt(s.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (c->proxy)
		tunnel(c, &s);
	if (!c->tls)
		return s;
	s.ssl = SSL_new(c->tls);
	SSL_set_fd(s.ssl, s.fd);
	if (SSL_set1_host(s.ssl, c->name) != 1 || SSL_set_tlsext_host_name(s.ssl, c->name) != 1 ||
	    SSL_connect(s.ssl) != 1)
		die("TLS");
	return s;
}

static void ask(struct stream *s, enum ask_kind kind, uint64_t bytes, uint32_t pace)
{
	struct ask a = {.kind = (uint8_t)kind, .pace = pace, .bytes = bytes};
	if (kind == ASK_UP)
		stream_pace(s, pace);
	if (stream_write(s, &a, sizeof a) || (kind == ASK_UP && stream_send(s, bytes)) ||
	    stream_discard(s, kind == ASK_UP ? 1 : bytes))
		die(kind == ASK_UP ? "up" : "down");
}

static void first(const struct client *c)
{
	for (unsigned long i = 0; i < c->count; i++) {
		if (c->idle_us)
			usleep((useconds_t)c->idle_us);
		uint64_t start = now_ns();
		struct stream s = dial(c);
		ask(&s, ASK_DOWN, 1, 0);
		printf("%llu\n", (unsigned long long)(now_ns() - start));
		stream_close(&s);
	}
}

static void flow(const struct client *c, enum ask_kind kind)
{
	struct stream s = dial(c);
	for (unsigned long i = 0; i < c->count; i++) {
		uint64_t start = now_ns();
		ask(&s, kind, c->bytes, c->pace);
		printf("%llu\n", (unsigned long long)(now_ns() - start));
	}
	stream_close(&s);
}

static void get(const struct client *c, struct stream *s)
{
	char text[512];
	uint64_t length;
	int n = snprintf(text, sizeof text,
			 "GET /%llu HTTP/1.1\r\nHost: %s:%s\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n",
			 (unsigned long long)c->bytes, c->name, c->port);
	if (stream_write(s, text, (size_t)n))
		die("request");
	uint64_t have = read_head(s, false, &length);
	if (length != c->bytes || have > length || stream_discard(s, length - have))
		die("body");
}

static void *get_share(void *arg)
{
	const struct client *c = arg;
	struct stream s = {.fd = -1};
	for (unsigned long i = 0; i < c->count / c->threads; i++) {
		if (s.fd < 0)
			s = dial(c);
		get(c, &s);
		if (c->new_each)
			stream_close(&s);
	}
	if (s.fd >= 0)
		stream_close(&s);
	return NULL;
}

static void get_all(struct client *c)
{
	pthread_t t[64];
	uint64_t start = now_ns();
	for (unsigned i = 0; i < c->threads; i++)
		if (pthread_create(&t[i], NULL, get_share, c))
			die("thread");
	for (unsigned i = 0; i < c->threads; i++)
		pthread_join(t[i], NULL);
	printf("%llu\n", (unsigned long long)(now_ns() - start));
}

static int work(struct client *c, const char *what)
{
	if (!strcmp(what, "first"))
		first(c);
	else if (!strcmp(what, "down") || !strcmp(what, "up"))
		flow(c, *what == 'd' ? ASK_DOWN : ASK_UP);
	else if (!strcmp(what, "get") || !strcmp(what, "get-new"))
		get_all(c);
	else
		return 2;
	return 0;
}

int main(int argc, char **argv)
{
	struct client c = {.threads = 1};
	int o;
	while ((o = getopt(argc, argv, "+tc:x:n:w:i:p:")) != -1) {
		if (o == 't')
			c.wants_tls = true;
		else if (o == 'c')
			c.ca = optarg;
		else if (o == 'x')
			c.proxy = (unsigned)strtoul(optarg, NULL, 10);
		else if (o == 'n')
			c.name = optarg;
		else if (o == 'w')
			c.threads = (unsigned)strtoul(optarg, NULL, 10);
		else if (o == 'i')
			c.idle_us = strtoul(optarg, NULL, 10);
		else if (o == 'p')
			c.pace = (uint32_t)strtoul(optarg, NULL, 10);
		else
			return 2;
	}
	argv += optind;
	if (argc - optind < 4 || !c.threads || c.threads > 64) {
		fprintf(stderr,
			"usage: gate_client [-t [-c CA]] [-x PORT] [-n NAME] [-w THREADS] [-i US] [-p PACE] HOST PORT WORK COUNT [BYTES]\n");
		return 2;
	}
	c.host = argv[0];
	c.port = argv[1];
	c.name = c.name ? c.name : c.host;
	c.new_each = !strcmp(argv[2], "get-new");
	c.count = strtoul(argv[3], NULL, 10);
	c.bytes = argv[4] ? strtoull(argv[4], NULL, 10) : 0;
	signal(SIGPIPE, SIG_IGN);
	if (c.wants_tls)
		tls_setup(&c);
	find(&c);
	return work(&c, argv[2]);
}

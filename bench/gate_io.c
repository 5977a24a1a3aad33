// SPDX-License-Identifier: Apache-2.0
#include "gate_io.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void die(const char *what)
{
	unsigned long code = ERR_get_error();
	const char *why = code ? ERR_reason_error_string(code) : errno ? strerror(errno) : "the other side ended it";
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
	exit(1);
}

uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

ssize_t stream_read(struct stream *s, void *p, size_t n)
{
	size_t got;
	if (!s->ssl)
		return recv(s->fd, p, n, 0);
	if (SSL_read_ex(s->ssl, p, n, &got) == 1)
		return (ssize_t)got;
	return SSL_get_error(s->ssl, 0) == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

int stream_write(struct stream *s, const void *p, size_t n)
{
	const char *at = p;
	size_t put;
	if (s->ssl)
		return SSL_write_ex(s->ssl, p, n, &put) == 1 ? 0 : -1; // blocking: all of it
	while (n) {
		ssize_t k = send(s->fd, at, n, MSG_NOSIGNAL);
		if (k < 0)
			return -1;
		at += k;
		n -= (size_t)k;
	}
	return 0;
}

int stream_read_all(struct stream *s, void *p, size_t n)
{
	char *at = p;
	while (n) {
		ssize_t k = stream_read(s, at, n);
		if (k <= 0)
			return -1;
		at += k;
		n -= (size_t)k;
	}
	return 0;
}

int stream_send(struct stream *s, uint64_t n)
{
	static char zeroes[CHUNK];
	while (n) {
		size_t k = n < sizeof zeroes ? (size_t)n : sizeof zeroes;
		if (stream_write(s, zeroes, k))
			return -1;
		n -= k;
	}
	return 0;
}

int stream_discard(struct stream *s, uint64_t n)
{
	char scratch[CHUNK];
	while (n) {
		ssize_t k = stream_read(s, scratch, n < sizeof scratch ? (size_t)n : sizeof scratch);
		if (k <= 0)
			return -1;
		n -= (uint64_t)k;
	}
	return 0;
}

void stream_pace(struct stream *s, uint32_t megabytes)
{
	uint64_t rate = megabytes ? megabytes * 1000000ull : ~0ull;
	setsockopt(s->fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
}

void stream_close(struct stream *s)
{
	if (s->ssl)
		SSL_shutdown(s->ssl);
	SSL_free(s->ssl);
	close(s->fd);
	*s = (struct stream){.fd = -1};
}

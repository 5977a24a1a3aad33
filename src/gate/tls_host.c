// SPDX-License-Identifier: Apache-2.0
// One connection after the other, each with a few seconds: its only client is a gate.
#include "gate/tls_host.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "gate/ca.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define PATIENCE_S 3
#define HEAD_MAX 16384

struct host {
	int dir, fd;
	SSL_CTX *ctx;
};

static void note(struct host *h, const char *head)
{
	const char *path = strchr(head, ' '), *end = path ? strpbrk(path + 1, " \r\n") : NULL;
	if (!end)
		return;
	auto_free char *line = xasprintf("%.*s\n", (int)(end - path - 1), path + 1);
	struct err e;
	auto_fd int fd = fs_open(h->dir, "log", O_WRONLY | O_APPEND | O_CREAT, 0600, &e);
	if (fd >= 0 && fs_write_all(fd, line, strlen(line), &e))
		return; // what is not written down counts as not seen
}

static void answer(struct host *h, SSL *ssl)
{
	static const char ok[] =
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nConnection: close\r\n\r\nskep\n";
	char head[HEAD_MAX];
	size_t n = 0;
	int got;
	while (n < sizeof head - 1 && (got = SSL_read(ssl, head + n, (int)(sizeof head - 1 - n))) > 0) {
		n += (size_t)got;
		head[n] = 0;
		if (!strstr(head, "\r\n\r\n"))
			continue;
		note(h, head);
		SSL_write(ssl, ok, sizeof ok - 1);
		SSL_shutdown(ssl);
		return;
	}
}

static void serve(struct host *h)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	auto_fd int fd = accept4(h->fd, NULL, NULL, SOCK_CLOEXEC);
	SSL *ssl = fd >= 0 ? SSL_new(h->ctx) : NULL;
	if (!ssl)
		return;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	if (SSL_set_fd(ssl, fd) == 1 && SSL_accept(ssl) == 1)
		answer(h, ssl);
	SSL_free(ssl);
}

static int listen_on_loopback(uint16_t *port, struct err *e)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof at;
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 64) ||
	    getsockname(fd, (struct sockaddr *)&at, &n))
		return err_sys(e, "listen on the loopback");
	*port = ntohs(at.sin_port);
	return take_fd(&fd);
}

// The context with a leaf of a new authority, whose certificate goes to ca.pem.
static SSL_CTX *make_context(int dir, const char *name, struct err *e)
{
	auto_buf struct buf cert = BUF_INIT(64u << 10), key = BUF_INIT(64u << 10);
	struct host_name host;
	if (host_parse(name, strlen(name), &host, e) || ca_make("doctor", &cert, &key, e) ||
	    fs_write(dir, "ca.pem", cert.p, cert.n, 0600, e))
		return NULL;
	struct ca *ca = ca_new(buf_cstr(&cert), buf_cstr(&key), e);
	OPENSSL_cleanse(key.p, key.cap);
	X509 *leaf = ca ? ca_leaf(ca, &host, e) : NULL;
	SSL_CTX *ctx = leaf ? SSL_CTX_new(TLS_server_method()) : NULL;
	if (ctx && (SSL_CTX_use_certificate(ctx, leaf) != 1 || SSL_CTX_use_PrivateKey(ctx, ca_leaf_key(ca)) != 1)) {
		SSL_CTX_free(ctx);
		ctx = NULL;
		err_set(e, ERR_SYSTEM, "OpenSSL does not take the certificate");
	}
	ca_free(ca);
	return ctx;
}

int tls_host_run(const char *dir, const char *name, struct err *e)
{
	uint16_t port = 0;
	auto_fd int dirfd = fs_open(AT_FDCWD, dir, O_PATH | O_DIRECTORY, 0, e);
	auto_fd int fd = dirfd < 0 ? -1 : listen_on_loopback(&port, e);
	SSL_CTX *ctx = fd < 0 ? NULL : make_context(dirfd, name, e);
	if (!ctx)
		return -1;
	struct host h = {.dir = dirfd, .fd = fd, .ctx = ctx};
	auto_free char *text = xasprintf("%u\n", port);
	int rc = fs_write_all(STDOUT_FILENO, text, strlen(text), e);
	struct pollfd p[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
	while (!rc && poll(p, countof(p), -1) >= 0 && !p[0].revents)
		if (p[1].revents)
			serve(&h);
	SSL_CTX_free(ctx);
	return rc;
}

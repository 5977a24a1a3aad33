// SPDX-License-Identifier: Apache-2.0
#include "cli/host.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/home.h"
#include "cli/word.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECT_MS 10000
#define SHAKE_MS 20000 // TLS; the process itself gives up before
#define LINE_NET 3     // of skep-gate --tls-line
#define LINE_LOCAL 4

// --- TCP ---

// A line that is dead without a word, as after a sleep of this machine, is noticed in a minute.
static void set_options(int fd)
{
	static const struct {
		int level, name, value;
	} all[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},   {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 15},
		{IPPROTO_TCP, TCP_KEEPINTVL, 5}, {IPPROTO_TCP, TCP_KEEPCNT, 3}, {IPPROTO_TCP, TCP_USER_TIMEOUT, 60000},
	};
	for (size_t i = 0; i < countof(all); i++)
		setsockopt(fd, all[i].level, all[i].name, &all[i].value, sizeof all[i].value);
}

// Each address of the name in turn; a dead one costs CONNECT_MS.
static int dial(const struct addrinfo *list, struct err *e)
{
	err_set(e, ERR_UNAVAILABLE, "no address");
	for (const struct addrinfo *a = list; a; a = a->ai_next) {
		auto_fd int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		struct pollfd p = {.fd = fd, .events = POLLOUT};
		int why = 0;
		socklen_t n = sizeof why;
		if (fd < 0)
			continue;
		if (connect(fd, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS)
			why = errno;
		else if (poll(&p, 1, CONNECT_MS) != 1)
			why = ETIMEDOUT;
		else
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &n);
		if (!why && !fcntl(fd, F_SETFL, 0)) {
			set_options(fd);
			return take_fd(&fd);
		}
		errno = why;
		err_sys(e, "connect");
	}
	e->kind = ERR_UNAVAILABLE;
	return -1;
}

struct authority {
	char *name; // owned; an address without brackets
	char port[8];
};

static int parse(const char *text, const char *otherwise, struct authority *out, struct err *e)
{
	const char *colon = strrchr(text, ':');
	bool v6 = text[0] == '[';
	if (colon && v6 && colon[-1] != ']')
		colon = NULL;
	size_t n = colon ? (size_t)(colon - text) : strlen(text);
	uint64_t port = 0;
	if (colon && str_to_u64(str_of(colon + 1), 1, UINT16_MAX, &port))
		return err_set(e, ERR_INVALID, "SKEP_HOST: %.20s is no port: give a number from 1 to 65535", colon + 1);
	if (n <= (v6 ? 2u : 0u) || (v6 && text[n - 1] != ']') || fmt_to(out->port, sizeof out->port, "%s", colon ? colon + 1 : otherwise))
		return err_set(e, ERR_INVALID, "SKEP_HOST is http://HOST[:PORT] or https://HOST[:PORT]");
	out->name = v6 ? xstrndup(text + 1, n - 2) : xstrndup(text, n);
	return 0;
}

static int connect_tcp(const struct authority *a, struct err *e)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
	int rc = getaddrinfo(a->name, a->port, &hints, &list);
	if (rc)
		return err_set(e, ERR_UNAVAILABLE, "%s: %s", a->name, gai_strerror(rc));
	int fd = dial(list, e);
	freeaddrinfo(list);
	return fd;
}

// --- TLS ---

// Those of earlier connections end with them; a bridge that lives for days must not collect their remains.
static void reap(pid_t started)
{
	static pid_t *lines;
	static size_t n;
	size_t kept = 0;
	for (size_t i = 0; i < n; i++)
		if (!waitpid(lines[i], NULL, WNOHANG))
			lines[kept++] = lines[i];
	n = kept;
	lines = xrealloc(lines, (n + 1) * sizeof *lines);
	lines[n++] = started;
}

// In a session of its own: ^C at the terminal is for the command, and goes through this very line.
static int spawn_line(const char *name, int net, int local, struct err *e)
{
	const char *own = getenv("SKEP_CA"), *file = getenv("SSL_CERT_FILE");
	auto_free char *program = home_program("skep-gate", e), *copy = xstrdup(name), *ca = own && *own ? xstrdup(own) : NULL,
		       *bundle = file ? xasprintf("SSL_CERT_FILE=%s", file) : NULL;
	char arg0[] = "skep-gate", opt[] = "--tls-line";
	char *argv[] = {arg0, opt, copy, ca, NULL}, *env[] = {bundle, NULL};
	struct proc_fd fds[] = {{net, LINE_NET}, {local, LINE_LOCAL}};
	if (!program)
		return -1;
	pid_t pid = proc_spawn(&(struct proc_spec){.path = program, .argv = argv, .env = env, .fds = fds, .n_fds = 2, .new_session = true}, e);
	if (pid < 0)
		return -1;
	reap(pid);
	return 0;
}

// R, D and why the certificate is not accepted, or E and what else went wrong (gate/tls_line.h).
static int wait_shaken(int fd, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(sizeof e->msg);
	if (!word_wait(fd, SHAKE_MS, &b))
		return err_set(e, ERR_UNAVAILABLE, "no TLS connection in %d s", SHAKE_MS / 1000);
	if (!b.n)
		return err_set(e, ERR_UNAVAILABLE, "skep-gate, which speaks TLS for skep, ended without a word");
	if (b.p[0] == 'R')
		return 0;
	if (b.p[0] != 'D')
		return err_set(e, ERR_UNAVAILABLE, "%s", buf_cstr(&b) + 1);
	return err_set(e, ERR_DENIED, "its certificate is not accepted: %s (SKEP_CA=FILE names a private authority)", buf_cstr(&b) + 1);
}

static int connect_tls(const struct authority *a, struct err *e)
{
	int pair[2];
	auto_fd int net = connect_tcp(a, e);
	if (net < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return err_sys(e, "socket pair");
	auto_fd int ours = pair[0], theirs = pair[1];
	if (spawn_line(a->name, net, theirs, e))
		return -1;
	close_fd(&net);
	close_fd(&theirs);
	return wait_shaken(ours, e) ? -1 : take_fd(&ours);
}

// --- SKEP_HOST ---

static int connect_remote(const char *host, bool tls, struct err *e)
{
	const char *path = strchr(host + strlen(tls ? "https://" : "http://"), '/'), *remote = home_remote();
	struct authority a = {0};
	if (path && strcmp(path, "/"))
		return err_set(e, ERR_INVALID, "SKEP_HOST is http://HOST[:PORT] or https://HOST[:PORT], and no path");
	if (parse(remote, tls ? "443" : "80", &a, e))
		return -1;
	int fd = tls ? connect_tls(&a, e) : connect_tcp(&a, e);
	free(a.name);
	if (fd < 0 && e->kind == ERR_DENIED)
		return err_wrap(e, "SKEP_HOST https://%s", remote);
	return fd < 0 ? err_wrap(e, "SKEP_HOST http%s://%s (is skep serve running there?)", tls ? "s" : "", remote) : fd;
}

int host_connect(const char *host, struct err *e)
{
	bool tls = str_has_prefix(host, "https://");
	if (tls || str_has_prefix(host, "http://"))
		return connect_remote(host, tls, e);
	if (!str_has_prefix(host, "unix:///"))
		return err_set(e, ERR_UNSUPPORTED, "SKEP_HOST %s: only unix:///path, http://HOST[:PORT] and https://HOST[:PORT] are known", host);
	int fd = home_connect(host + strlen("unix://"), e);
	if (fd < 0)
		e->kind = ERR_UNAVAILABLE;
	return fd < 0 ? err_wrap(e, "SKEP_HOST") : fd;
}

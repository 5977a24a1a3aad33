// SPDX-License-Identifier: Apache-2.0
// A cell's network with a gate: what is reached, what is refused and how, what is told. In a child with fresh user and
// network namespaces.
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "isolate/caps.h"
#include "isolate/net.h"
#include "isolate/net_state.h"
#include "isolate/nft.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define WANT(cond)                                                         \
	do {                                                               \
		if (!(cond)) {                                             \
			fprintf(stderr, "line %d: %s\n", __LINE__, #cond); \
			_exit(1);                                          \
		}                                                          \
	} while (0)
#define NO_NAMESPACE 255

static struct net_sockets sockets;

static void enter_namespace(void)
{
	char uid[32], gid[32];
	struct err e;
	WANT(!fmt_to(uid, sizeof uid, "0 %u 1", getuid()) && !fmt_to(gid, sizeof gid, "0 %u 1", getgid()));
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
		_exit(NO_NAMESPACE);
	WANT(!fs_put(AT_FDCWD, "/proc/self/setgroups", "deny", &e));
	WANT(!fs_put(AT_FDCWD, "/proc/self/uid_map", uid, &e) && !fs_put(AT_FDCWD, "/proc/self/gid_map", gid, &e));
}

static void set_up(void)
{
	struct err e;
	enter_namespace();
	if (net_setup(&sockets, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		_exit(e.kind == ERR_UNSUPPORTED ? NO_NAMESPACE : 1);
	}
}

static void run_child(void (*fn)(void))
{
	int status;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_NAMESPACE)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

// A socket connected to there within a second; or -1 and errno.
static int dial(int type, const char *address, uint16_t port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	bool six = strchr(address, ':');
	WANT(inet_pton(six ? AF_INET6 : AF_INET, address, six ? (void *)&v6.sin6_addr : (void *)&v4.sin_addr) == 1);
	int fd = socket(six ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0), rc;
	struct timeval second = {.tv_sec = 1};
	WANT(fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second) &&
	     !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second));
	rc = six ? connect(fd, (struct sockaddr *)&v6, sizeof v6) : connect(fd, (struct sockaddr *)&v4, sizeof v4);
	char byte = 0;
	if (!rc && type == SOCK_DGRAM)
		rc = send(fd, &byte, 1, 0) == 1 && recv(fd, &byte, 1, 0) == 1 ? 0 : -1;
	if (!rc)
		return fd;
	int why = errno;
	close(fd);
	errno = why;
	return -1;
}

static bool refused(int type, const char *address, uint16_t port)
{
	return dial(type, address, port) < 0 && errno == ECONNREFUSED;
}

static int wait_accept(struct sockaddr_in *out_dialled)
{
	struct pollfd p = {.fd = sockets.tcp, .events = POLLIN};
	socklen_t n = sizeof *out_dialled;
	WANT(poll(&p, 1, 1000) == 1);
	int fd = accept4(sockets.tcp, NULL, NULL, SOCK_CLOEXEC);
	WANT(fd >= 0 && !getsockname(fd, (struct sockaddr *)out_dialled, &n));
	return fd;
}

static void gate_child(void)
{
	static const struct {
		const char *address;
		uint16_t port;
	} to[] = {{"198.18.0.1", 443},
		  {"198.18.0.1", 53},
		  {"198.19.255.255", 65535},
		  {"198.18.7.7", 1},
		  {"::ffff:198.18.3.4", 80}};
	set_up();
	for (size_t i = 0; i < countof(to); i++) {
		struct sockaddr_in got;
		char text[INET_ADDRSTRLEN], byte = 'x';
		int fd = dial(SOCK_STREAM, to[i].address, to[i].port);
		WANT(fd >= 0);
		int served = wait_accept(&got);
		WANT(inet_ntop(AF_INET, &got.sin_addr, text, sizeof text) && str_has_suffix(to[i].address, text));
		WANT(ntohs(got.sin_port) == to[i].port);
		WANT(write(fd, &byte, 1) == 1 && read(served, &byte, 1) == 1 && write(served, &byte, 1) == 1 &&
		     read(fd, &byte, 1) == 1);
		close(fd);
		close(served);
	}
}

static void test_gate(void **state)
{
	(void)state;
	run_child(gate_child);
}

static void refused_child(void)
{
	static const char *const far[] = {"192.0.2.1",	 "8.8.8.8",	   "169.254.169.254", "10.0.0.1",
					  "172.17.0.1",	 "198.17.255.255", "198.20.0.0",      "100.100.100.200",
					  "2001:db8::1", "fd00:ec2::254",  "::ffff:8.8.8.8",  "64:ff9b::1"};
	set_up();
	for (size_t i = 0; i < countof(far); i++)
		for (uint16_t port = 53; port < 500; port += 390) {
			WANT(refused(SOCK_STREAM, far[i], port));
			WANT(refused(SOCK_DGRAM, far[i], port));
		}
	WANT(refused(SOCK_DGRAM, "198.18.0.1", 443)); // only TCP has a gate
	WANT(dial(SOCK_DGRAM, "224.0.0.251", 5353) < 0 && dial(SOCK_DGRAM, "255.255.255.255", 67) < 0);
	WANT(refused(SOCK_STREAM, "127.0.0.1", NFT_LISTEN_PORT)); // the listener is nowhere on our own loopback
	net_sockets_close(&sockets);
	WANT(refused(SOCK_STREAM, "198.18.0.1", 443)); // nobody serves: closed, not hanging
}

static void test_refused(void **state)
{
	(void)state;
	run_child(refused_child);
}

// The wide listeners: closed until they listen, every address while they do, closed again after.
static void wide_child(void)
{
	static const char *const far[] = {"8.8.8.8", "10.0.0.1", "169.254.169.254", "2600:1234::5", "fd00:ec2::254"};
	struct err e;
	set_up();
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < countof(far); i++)
			WANT(refused(SOCK_STREAM, far[i], 443));
		WANT(!net_wide(sockets.wide4, true, &e) && (sockets.wide6 < 0 || !net_wide(sockets.wide6, true, &e)));
		for (size_t i = 0; i < countof(far); i++) {
			bool six = strchr(far[i], ':');
			char text[INET6_ADDRSTRLEN];
			union {
				struct sockaddr sa;
				struct sockaddr_in v4;
				struct sockaddr_in6 v6;
			} got;
			socklen_t n = sizeof got;
			if (six && sockets.wide6 < 0)
				continue;
			int fd = dial(SOCK_STREAM, far[i], 443);
			WANT(fd >= 0);
			int served = accept4(six ? sockets.wide6 : sockets.wide4, NULL, NULL, SOCK_CLOEXEC);
			WANT(served >= 0 && !getsockname(served, &got.sa, &n));
			WANT(inet_ntop(got.sa.sa_family, six ? (void *)&got.v6.sin6_addr : (void *)&got.v4.sin_addr, text, sizeof text));
			WANT(!strcmp(text, far[i]) && ntohs(six ? got.v6.sin6_port : got.v4.sin_port) == 443);
			close(fd);
			close(served);
		}
		WANT(refused(SOCK_DGRAM, "8.8.8.8", 443)); // only TCP
		WANT(!net_wide(sockets.wide4, false, &e) && (sockets.wide6 < 0 || !net_wide(sockets.wide6, false, &e)));
	}
	WANT(refused(SOCK_STREAM, "8.8.8.8", 443));
	WANT(!net_wide(sockets.wide4, false, &e)); // twice is fine
}

static void test_wide(void **state)
{
	(void)state;
	run_child(wide_child);
}

static void own_child(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(8000)};
	struct sockaddr_in6 a6 = {
		.sin6_family = AF_INET6, .sin6_port = htons(8001), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	set_up();
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd6 = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	WANT(!bind(fd, (struct sockaddr *)&a, sizeof a) && !listen(fd, 5));
	WANT(!bind(fd6, (struct sockaddr *)&a6, sizeof a6) && !listen(fd6, 5));
	WANT(dial(SOCK_STREAM, "127.0.0.1", 8000) >= 0 && dial(SOCK_STREAM, "127.9.9.9", 8000) >= 0);
	WANT(dial(SOCK_STREAM, "::1", 8001) >= 0);
	WANT(refused(SOCK_STREAM, "1.2.3.4", 8000)); // it listens on every address, but only loopback is ours
	WANT(refused(SOCK_STREAM, "127.0.0.1", 8002) && refused(SOCK_DGRAM, "127.0.0.1", 8002));
}

static void test_own_loopback(void **state)
{
	(void)state;
	run_child(own_child);
}

static int logged(void)
{
	char in[4096];
	int n = 0;
	while (recv(sockets.nflog, in, sizeof in, MSG_DONTWAIT) > 0)
		n++;
	return n;
}

static void log_child(void)
{
	set_up();
	WANT(logged() == 0);
	WANT(refused(SOCK_STREAM, "192.0.2.1", 80));
	WANT(logged() == 1);
	dial(SOCK_STREAM, "127.0.0.1", 81);
	WANT(logged() == 0); // that is the cell's own business
	for (int i = 0; i < 3 * NFT_LOG_RATE; i++)
		WANT(refused(SOCK_STREAM, "192.0.2.1", 80));
	WANT(logged() < 2 * NFT_LOG_RATE);
}

static void test_log(void **state)
{
	(void)state;
	run_child(log_child);
}

static void looks_child(void)
{
	struct err e;
	enter_namespace();
	WANT(!net_self_test(false, &e));
	if (net_setup(&sockets, &e))
		_exit(NO_NAMESPACE);
	struct net_state before;
	WANT(!net_self_test(true, &e));
	WANT(net_self_test(false, &e) && e.kind == ERR_BUG); // routes that should not be there are found
	WANT(!net_state_open(&before, &e) && net_state_same(&before));
	WANT(net_state_same(&before));			     // looking moved nothing
	WANT(refused(SOCK_STREAM, "192.0.2.1", 80));
	WANT(!net_state_same(&before));
	net_state_done(&before);
}

static void test_looks(void **state)
{
	(void)state;
	run_child(looks_child);
}

// What a cell's process is: in the namespace, without any capability over it.
static void sealed_child(void)
{
	struct err e;
	struct net_sockets more;
	set_up();
	WANT(!caps_drop_all(CAPS_ROOT_PROFILE, &e)); // the stronger of the two profiles
	WANT(net_setup(&more, &e) && more.tcp == -1);
	WANT(net_lo_up(&e) && e.sys == EPERM);
	WANT(refused(SOCK_STREAM, "192.0.2.1", 80));
}

static void test_sealed(void **state)
{
	(void)state;
	run_child(sealed_child);
}

static void twice_child(void)
{
	struct err e;
	struct net_sockets more;
	set_up();
	WANT(net_setup(&more, &e) && more.tcp == -1 && more.nflog == -1);
	WANT(refused(SOCK_STREAM, "192.0.2.1", 80)); // still
}

static void test_twice(void **state)
{
	(void)state;
	run_child(twice_child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gate),  cmocka_unit_test(test_refused), cmocka_unit_test(test_own_loopback),
		cmocka_unit_test(test_log),   cmocka_unit_test(test_looks),   cmocka_unit_test(test_sealed),
		cmocka_unit_test(test_twice), cmocka_unit_test(test_wide),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Who has a connection. The one who has it is this program, started again with the mark of an exec.
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "init/who.h"
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define EXEC "xabcdefghijk0123"

static int hold(const char *port_text, int type)
{
	uint64_t port;
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (str_to_u64(str_of(port_text), 1, 65535, &port))
		return 1;
	a.sin_port = htons((uint16_t)port);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	if (connect(fd, (struct sockaddr *)&a, sizeof a) || send(fd, "x", 1, MSG_NOSIGNAL) != 1)
		return 1;
	for (;;)
		pause();
}

static int listener(struct sockaddr_in *a)
{
	socklen_t n = sizeof *a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	*a = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_false(bind(fd, (struct sockaddr *)a, sizeof *a) || listen(fd, 5) ||
		     getsockname(fd, (struct sockaddr *)a, &n));
	return fd;
}

static pid_t start_holder(const struct sockaddr_in *at, char *kind)
{
	struct err e;
	char self[4096] = {0}, port[8], name[] = "holder", mark[] = "SKEP_EXEC=" EXEC, other[] = "A=b";
	char *argv[] = {name, port, kind, NULL}, *env[] = {other, mark, NULL};
	assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
	assert_false(fmt_to(port, sizeof port, "%u", ntohs(at->sin_port)));
	pid_t pid = proc_spawn(&(struct proc_spec){.path = self, .argv = argv, .env = env}, &e);
	assert_true(pid > 0);
	return pid;
}

// Whoever is at the other end of what came from there is the holder.
static void find_holder(enum who_socket socket, const struct sockaddr_in *from, pid_t pid)
{
	struct port_owner o;
	for (int i = 0; i < 1000; i++) { // it may be resting, and this machine has more processes than a cell
		who_has_port(socket, ntohs(from->sin_port), 0, &o);
		if (o.pid)
			break;
		poll(NULL, 0, 30);
	}
	assert_int_equal(o.pid, pid);
	assert_string_equal(o.exec, EXEC);
	assert_true(*o.name);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_found(void **state)
{
	struct sockaddr_in at, from;
	socklen_t n = sizeof from;
	char kind[] = "tcp";
	(void)state;
	auto_fd int l = listener(&at);
	pid_t pid = start_holder(&at, kind);
	auto_fd int c = accept4(l, (struct sockaddr *)&from, &n, SOCK_CLOEXEC);
	assert_true(c >= 0);
	find_holder(WHO_TCP, &from, pid);
}

static void test_found_by_a_datagram(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from;
	socklen_t n = sizeof at, m = sizeof from;
	char kind[] = "udp", byte;
	(void)state;
	auto_fd int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_false(bind(s, (struct sockaddr *)&at, sizeof at) || getsockname(s, (struct sockaddr *)&at, &n));
	pid_t pid = start_holder(&at, kind);
	assert_int_equal(recvfrom(s, &byte, 1, 0, (struct sockaddr *)&from, &m), 1);
	find_holder(WHO_UDP, &from, pid);
}

static void test_not_found(void **state)
{
	struct sockaddr_in at;
	struct port_owner o;
	(void)state;
	auto_fd int l = listener(&at);
	assert_true(l >= 0);
	who_has_port(WHO_TCP, ntohs(at.sin_port), 0, &o); // a listener is no connection
	assert_int_equal(o.pid, 0);
	assert_string_equal(o.exec, "");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_not_found), cmocka_unit_test(test_found), cmocka_unit_test(test_found_by_a_datagram)};
	if (argc == 3)
		return hold(argv[1], strcmp(argv[2], "udp") ? SOCK_STREAM : SOCK_DGRAM);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

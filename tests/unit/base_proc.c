// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "base/proc.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
// cmocka wants the four above it
#include <cmocka.h>

static int sh(const char *script, struct buf *out, int *status)
{
	struct err e = {0};
	char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char *)script, NULL};
	return proc_run("/bin/sh", argv, out, status, &e);
}

static void output_and_status(void **state)
{
	(void)state;
	int status;
	auto_buf struct buf b = BUF_INIT(1000);
	assert_int_equal(sh("echo out; exit 7", &b, &status), 0);
	assert_string_equal(b.p, "out\n");
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	buf_clear(&b);
	assert_int_equal(sh("kill -9 $$", &b, &status), 0);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == 9);
}

static void too_much_output_ends_it(void **state)
{
	(void)state;
	int status;
	auto_buf struct buf b = BUF_INIT(1000);
	assert_int_equal(sh("while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done", &b, &status), -1);
	assert_true(WIFSIGNALED(status));
}

static void nothing_else_is_inherited(void **state)
{
	(void)state;
	int status;
	auto_buf struct buf b = BUF_INIT(1000);
	auto_fd int leak = open("/dev/null", O_RDONLY); // as a careless starter would leave it in us
	assert_true(leak > 2);
	assert_int_equal(sh("ls /proc/self/fd", &b, &status), 0);
	assert_string_equal(buf_cstr(&b), "0\n1\n2\n3\n"); // 3: the directory ls reads
}

static void signals_are_as_new(void **state)
{
	(void)state;
	int status;
	auto_buf struct buf b = BUF_INIT(1000);
	sigset_t block;
	sigemptyset(&block);
	sigaddset(&block, SIGTERM);
	sigprocmask(SIG_BLOCK, &block, NULL);
	signal(SIGUSR1, SIG_IGN);
	assert_int_equal(sh("kill -TERM $$", &b, &status), 0);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	assert_int_equal(sh("kill -USR1 $$", &b, &status), 0);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
	sigprocmask(SIG_UNBLOCK, &block, NULL);
	signal(SIGUSR1, SIG_DFL);
}

static void listed_descriptors_are_placed(void **state)
{
	(void)state;
	struct err e;
	int p[2], q[2], status;
	char c, d;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_int_equal(pipe2(q, O_CLOEXEC), 0);
	char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char[]){"printf a >&3; printf b >&4"}, NULL};
	char *env[] = {(char[]){"X=1"}, NULL};
	struct proc_fd fds[] = {{p[1], 3}, {q[1], 4}};
	struct proc_spec spec = {.path = "/bin/sh", .argv = argv, .env = env, .fds = fds, .n_fds = 2};
	pid_t pid = proc_spawn(&spec, &e);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read(p[0], &c, 1), 1);
	assert_int_equal(read(q[0], &d, 1), 1);
	assert_true(c == 'a' && d == 'b');
	for (int i = 0; i < 2; i++) {
		close(p[i]);
		close(q[i]);
	}
}

static void what_is_not_there(void **state)
{
	(void)state;
	struct err e;
	char *argv[] = {(char[]){"x"}, NULL};
	assert_int_equal(proc_spawn(&(struct proc_spec){.path = "/nonexistent/x", .argv = argv}, &e), -1);
	assert_int_equal(e.sys, ENOENT);
}

static void start_times_identify(void **state)
{
	(void)state;
	uint64_t mine = proc_start_time(getpid());
	assert_true(mine > 0);
	assert_true(proc_start_time(getpid()) == mine);
	assert_true(proc_start_time(1 << 30) == 0);
}

static void programs_are_found(void **state)
{
	(void)state;
	auto_free char *sh = proc_find("relative::/nonexistent:/bin", "sh");
	assert_string_equal(sh, "/bin/sh");
	assert_null(proc_find("/bin", "no such program"));
	assert_null(proc_find("bin:", "sh"));
	assert_null(proc_find(NULL, "sh"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(output_and_status), cmocka_unit_test(too_much_output_ends_it),
		cmocka_unit_test(nothing_else_is_inherited), cmocka_unit_test(signals_are_as_new),
		cmocka_unit_test(listed_descriptors_are_placed),
		cmocka_unit_test(what_is_not_there), cmocka_unit_test(start_times_identify), cmocka_unit_test(programs_are_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// What a sealed skep-pull can and can not do.
#include "base/fs.h"
#include "base/mem.h"
#include "pull/seal.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char top[64];
static char own[80], other[80];

static int setup(void **state)
{
	struct err e;
	(void)state;
	strcpy(top, "/tmp/skep-seal-XXXXXX");
	if (!mkdtemp(top))
		return -1;
	snprintf(own, sizeof own, "%s/own", top);
	snprintf(other, sizeof other, "%s/secret", top);
	return mkdir(own, 0700) || fs_write(AT_FDCWD, other, "secret", 6, 0600, &e) ? -1 : 0;
}

static int teardown(void **state)
{
	struct err e;
	(void)state;
	return fs_remove_tree(AT_FDCWD, top, &e);
}

// Runs fn in a sealed child. Its exit status; 128 and the signal when it was killed; 99 when it
// could not be sealed.
static int sealed(int (*fn)(int dir))
{
	int status;
	pid_t pid = fork();
	if (!pid) {
		struct err e;
		int dir = open(own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		_exit(pull_seal(dir, &e) ? 99 : fn(dir));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static bool is_closed(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);
	return fd < 0 && (errno == EACCES || errno == EPERM);
}

static int work_in_own(int dir)
{
	int fd = openat(dir, "x.part", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, "x", 1) != 1 || ftruncate(fd, 0) || renameat(dir, "x.part", dir, "x") || mkdirat(dir, "d", 0700))
		return 1;
	return unlinkat(dir, "x", 0) || unlinkat(dir, "d", AT_REMOVEDIR) ? 2 : 0;
}

static int read_what_names_need(int dir)
{
	(void)dir;
	return access("/etc/passwd", R_OK) || open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0;
}

static int reach_elsewhere(int dir)
{
	char up[100];
	snprintf(up, sizeof up, "%s/new", top);
	if (!is_closed(other, O_RDONLY))
		return 1;
	if (!is_closed(other, O_WRONLY))
		return 2;
	if (!is_closed(up, O_WRONLY | O_CREAT))
		return 3;
	return openat(dir, "../secret", O_RDONLY | O_CLOEXEC) >= 0 ? 4 : 0;
}

static int start_a_program(int dir)
{
	char *argv[] = {(char *)"/bin/true", NULL}, *env[] = {NULL};
	(void)dir;
	execve(argv[0], argv, env);
	return 0;
}

static int start_a_process(int dir)
{
	(void)dir;
	syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	return 0;
}

static int listen_for_others(int dir)
{
	(void)dir;
	listen(socket(AF_INET, SOCK_STREAM, 0), 1);
	return 0;
}

static void *thread_runs(void *arg)
{
	*(int *)arg = 7;
	return NULL;
}

static int start_a_thread(int dir)
{
	pthread_t t;
	int got = 0;
	(void)dir;
	return pthread_create(&t, NULL, thread_runs, &got) || pthread_join(t, NULL) || got != 7;
}

static void what_a_pull_needs_works(void **state)
{
	(void)state;
	assert_int_equal(sealed(work_in_own), 0);
	assert_int_equal(sealed(read_what_names_need), 0);
	assert_int_equal(sealed(start_a_thread), 0);
}

static void everything_else_is_closed(void **state)
{
	(void)state;
	bool confined = geteuid() == 0 || syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0;
	if (confined)
		assert_int_equal(sealed(reach_elsewhere), 0);
	assert_int_equal(sealed(start_a_program), 128 + SIGSYS);
	assert_int_equal(sealed(start_a_process), 128 + SIGSYS);
	assert_int_equal(sealed(listen_for_others), 128 + SIGSYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_a_pull_needs_works, setup, teardown),
		cmocka_unit_test_setup_teardown(everything_else_is_closed, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Each case confines a child for real and tries what must work and what must not.
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "isolate/caps.h"
#include "isolate/landlock.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static char top[64];

static int setup(void **state)
{
	struct err e;
	(void)state;
	if (fmt_to(top, sizeof top, "/tmp/skep-landlock-XXXXXX") || !mkdtemp(top))
		return -1;
	auto_fd int dir = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fs_mkdirs(dir, "ro/sub", 0755, &e) || fs_mkdirs(dir, "rw/a", 0755, &e) || fs_mkdirs(dir, "rw/b", 0755, &e) ||
	       fs_mkdirs(dir, "hidden", 0755, &e) || fs_write(dir, "ro/file", "x", 1, 0644, &e) ||
	       fs_write(dir, "hidden/file", "x", 1, 0644, &e) || fs_write(dir, "single", "x", 1, 0644, &e);
}

static int teardown(void **state)
{
	struct err e;
	(void)state;
	return fs_remove_tree(AT_FDCWD, top, &e);
}

static int rule_fd(const char *path)
{
	return open(path, O_PATH | O_CLOEXEC);
}

// 0, or the errno of opening it.
static int try_open(const char *path, int flags)
{
	auto_fd int fd = open(path, flags | O_CLOEXEC, 0600);
	return fd < 0 ? errno : 0;
}

static void enter(void)
{
	struct err e;
	if (chdir(top) || caps_no_new_privs(&e))
		_exit(98);
	struct landlock_rule rules[] = {
		{.fd = rule_fd("ro")},
		{.fd = rule_fd("rw"), .write = true},
		{.fd = rule_fd("single"), .write = true},
		{.fd = rule_fd("/dev"), .write = true, .device = true},
	};
	if (landlock_enter(rules, countof(rules), landlock_abi(), &e))
		_exit(97);
}

#define WANT(cond)                     \
	do {                           \
		if (!(cond))           \
			_exit(__LINE__ % 250 + 1); \
	} while (0)

static void files_child(void)
{
	enter();
	WANT(!try_open("ro/file", O_RDONLY));
	WANT(try_open("ro/file", O_WRONLY) == EACCES);
	WANT(try_open("ro/new", O_WRONLY | O_CREAT) == EACCES);
	WANT(try_open("hidden/file", O_RDONLY) == EACCES);
	WANT(try_open("hidden", O_RDONLY | O_DIRECTORY) == EACCES);
	WANT(try_open("/etc/passwd", O_RDONLY) == EACCES);
	WANT(!try_open("rw/a/new", O_RDWR | O_CREAT));
	WANT(!rename("rw/a/new", "rw/b/new"));
	WANT(rename("rw/b/new", "ro/new") && (errno == EACCES || errno == EXDEV));
	WANT(!truncate("rw/b/new", 5));
	WANT(!mkdir("rw/dir", 0700) && !rmdir("rw/dir") && !symlink("x", "rw/l") && !unlink("rw/l"));
	WANT(!try_open("single", O_RDWR | O_TRUNC));
	WANT(unlink("single") && errno == EACCES);
	WANT(!try_open("/dev/null", O_RDWR));
	_exit(0);
}

static void scope_child(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "\0skep-unit-landlock"};
	enter();
	auto_fd int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	WANT(connect(s, (struct sockaddr *)&a, sizeof a.sun_family + 19) && errno == EPERM);
	WANT(kill(getppid(), 0) && errno == EPERM);
	WANT(!kill(getpid(), 0));
	_exit(0);
}

static void device_child(void)
{
	int n;
	auto_fd int before = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	enter();
	auto_fd int pt = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	WANT(before >= 0 && pt >= 0 && !ioctl(pt, TIOCGPTN, &n));
	_exit(0);
}

static void run_child(void (*fn)(void))
{
	int status;
	if (landlock_abi() < LANDLOCK_MIN)
		skip();
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		fn();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_files(void **state)
{
	(void)state;
	run_child(files_child);
}

static void test_scopes(void **state)
{
	(void)state;
	if (landlock_abi() < 6)
		skip();
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "\0skep-unit-landlock"};
	auto_fd int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s, (struct sockaddr *)&a, sizeof a.sun_family + 19), 0);
	assert_int_equal(listen(s, 1), 0);
	run_child(scope_child);
}

// The scopes alone leave files and mounts as they were.
static void scopes_only_child(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "\0skep-unit-landlock"};
	struct err e;
	if (chdir(top) || caps_no_new_privs(&e) || landlock_enter_scopes(landlock_abi(), &e))
		_exit(98);
	auto_fd int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	WANT(connect(s, (struct sockaddr *)&a, sizeof a.sun_family + 19) && errno == EPERM);
	WANT(kill(getppid(), 0) && errno == EPERM);
	WANT(!try_open("hidden/file", O_RDWR));
	WANT(unshare(CLONE_NEWUSER | CLONE_NEWNS) || !mount("skep", "ro", "tmpfs", 0, NULL));
	_exit(0);
}

static void test_scopes_only(void **state)
{
	struct err e = {0};
	(void)state;
	assert_int_equal(landlock_enter_scopes(LANDLOCK_SCOPES - 1, &e), -1);
	assert_int_equal(e.kind, ERR_UNSUPPORTED);
	if (landlock_abi() < LANDLOCK_SCOPES)
		skip();
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "\0skep-unit-landlock"};
	auto_fd int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s, (struct sockaddr *)&a, sizeof a.sun_family + 19), 0);
	assert_int_equal(listen(s, 1), 0);
	run_child(scopes_only_child);
}

static void test_devices(void **state)
{
	(void)state;
	run_child(device_child);
}

// What is handed in as the ABI decides what is asked for: an old one must load on a new kernel.
static void old_abi_child(void)
{
	struct err e;
	if (caps_no_new_privs(&e) || chdir(top))
		_exit(98);
	struct landlock_rule r = {.fd = rule_fd("rw"), .write = true};
	WANT(!landlock_enter(&r, 1, 2, &e));
	WANT(try_open("hidden/file", O_RDONLY) == EACCES);
	WANT(!kill(getppid(), 0));
	_exit(0);
}

static void test_old_abi(void **state)
{
	struct err e = {0};
	(void)state;
	assert_int_equal(landlock_enter(NULL, 0, 1, &e), -1);
	assert_int_equal(e.kind, ERR_UNSUPPORTED);
	run_child(old_abi_child);
}

static void bad_rule_child(void)
{
	struct err e = {0};
	struct landlock_rule r = {.fd = -1};
	WANT(landlock_enter(&r, 1, landlock_abi(), &e) == -1 && e.sys == EBADF);
	_exit(0);
}

static void test_bad_rule(void **state)
{
	(void)state;
	run_child(bad_rule_child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),	cmocka_unit_test(test_scopes),	 cmocka_unit_test(test_scopes_only),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_old_abi), cmocka_unit_test(test_bad_rule),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

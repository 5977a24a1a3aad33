// SPDX-License-Identifier: Apache-2.0
// Capabilities, no_new_privs and rlimits: given up in a child that holds all of them over a fresh user namespace.
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "isolate/caps.h"
#include "isolate/net.h"
#include "isolate/rlimits.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define WANT(cond)                     \
	do {                           \
		if (!(cond))           \
			_exit(__LINE__ % 250 + 1); \
	} while (0)
#define NO_NAMESPACE 255

static void enter_namespace(int more)
{
	char uid[32], gid[32];
	struct err e;
	WANT(!fmt_to(uid, sizeof uid, "0 %u 1", getuid()) && !fmt_to(gid, sizeof gid, "0 %u 1", getgid()));
	if (unshare(CLONE_NEWUSER | more))
		_exit(NO_NAMESPACE);
	WANT(!fs_put(AT_FDCWD, "/proc/self/setgroups", "deny", &e));
	WANT(!fs_put(AT_FDCWD, "/proc/self/uid_map", uid, &e) && !fs_put(AT_FDCWD, "/proc/self/gid_map", gid, &e));
}

static void run_child(void (*fn)(void))
{
	int status;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		fn();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_NAMESPACE)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

// A line of /proc/self/status as a hexadecimal number.
static uint64_t status_hex(const char *key)
{
	auto_buf struct buf b = BUF_INIT(64u << 10);
	struct err e;
	WANT(!fs_read(AT_FDCWD, "/proc/self/status", &b, &e));
	const char *at = strstr(buf_cstr(&b), key);
	WANT(at);
	return strtoull(at + strlen(key), NULL, 16);
}

static void none_child(void)
{
	struct err e = {0};
	enter_namespace(0);
	WANT(caps_verify(0, &e) && e.kind == ERR_DENIED);
	WANT(!caps_drop_all(0, &e) && !caps_no_new_privs(&e) && !caps_verify(0, &e));
	WANT(!status_hex("CapEff:\t") && !status_hex("CapPrm:\t") && !status_hex("CapInh:\t"));
	WANT(!status_hex("CapBnd:\t") && !status_hex("CapAmb:\t") && status_hex("NoNewPrivs:\t") == 1);
	WANT(prctl(PR_SET_SECUREBITS, 0, 0, 0, 0) && errno == EPERM);
	WANT(!caps_drop_all(0, &e)); // again: nothing left to drop
	_exit(0);
}

static void test_none(void **state)
{
	(void)state;
	run_child(none_child);
}

static void root_child(void)
{
	struct err e = {0};
	enter_namespace(0);
	WANT(!caps_drop_all(CAPS_ROOT_PROFILE, &e) && !caps_no_new_privs(&e) && !caps_verify(CAPS_ROOT_PROFILE, &e));
	WANT(caps_verify(0, &e));
	WANT(status_hex("CapEff:\t") == CAPS_ROOT_PROFILE && status_hex("CapBnd:\t") == CAPS_ROOT_PROFILE);
	// uid 0 must still hold them after an exec
	auto_free char *want = xasprintf("CapEff:.*%016llx", (unsigned long long)CAPS_ROOT_PROFILE);
	execl("/bin/grep", "grep", "-q", want, "/proc/self/status", NULL);
	_exit(99);
}

static void test_root(void **state)
{
	(void)state;
	run_child(root_child);
}

static void nobody_child(void)
{
	struct err e = {0};
	enter_namespace(0);
	WANT(!caps_drop_all(0, &e) && !caps_no_new_privs(&e));
	execl("/bin/grep", "grep", "-q", "CapEff:.*0000000000000000", "/proc/self/status", NULL);
	_exit(99);
}

static void test_uid_0_means_nothing(void **state)
{
	(void)state;
	run_child(nobody_child);
}

static rlim_t hard(int what)
{
	struct rlimit r;
	WANT(!getrlimit(what, &r));
	return r.rlim_max;
}

static void rlimits_child(void)
{
	struct err e = {0};
	struct limits l = LIMITS_DEFAULT;
	struct rlimit r = {100, 100};
	WANT(!rlimits_apply(&l, true, &e));
	WANT(hard(RLIMIT_CORE) <= 1 && hard(RLIMIT_NOFILE) <= 4096 && hard(RLIMIT_FSIZE) == l.disk);
	WANT(hard(RLIMIT_NPROC) <= 512 && hard(RLIMIT_MEMLOCK) <= 8 << 20);
	// never upwards, and no failure for wanting it
	WANT(!setrlimit(RLIMIT_NOFILE, &r) && !setrlimit(RLIMIT_NPROC, &r));
	WANT(!rlimits_apply(&l, false, &e));
	WANT(hard(RLIMIT_NOFILE) == 100 && hard(RLIMIT_NPROC) == 100);
	l = (struct limits){0};
	WANT(!rlimits_apply(&l, true, &e) && hard(RLIMIT_NOFILE) == 100);
	_exit(0);
}

static void test_rlimits(void **state)
{
	(void)state;
	run_child(rlimits_child);
}

static void lo_child(void)
{
	auto_buf struct buf b = BUF_INIT(64u << 10);
	struct err e = {0};
	enter_namespace(CLONE_NEWNET);
	WANT(!net_lo_up(&e));
	WANT(!fs_read(AT_FDCWD, "/proc/self/net/route", &b, &e));
	WANT(!fs_read(AT_FDCWD, "/proc/self/net/if_inet6", &b, &e));
	WANT(strstr(buf_cstr(&b), "lo"));
	_exit(0);
}

static void test_lo(void **state)
{
	(void)state;
	run_child(lo_child);
}

static void test_lo_refused(void **state)
{
	struct err e = {0};
	(void)state;
	if (!geteuid())
		skip();
	assert_int_equal(net_lo_up(&e), -1);
	assert_int_equal(e.sys, EPERM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),	cmocka_unit_test(test_root), cmocka_unit_test(test_uid_0_means_nothing),
		cmocka_unit_test(test_rlimits), cmocka_unit_test(test_lo),   cmocka_unit_test(test_lo_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

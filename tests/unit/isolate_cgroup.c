// SPDX-License-Identifier: Apache-2.0
// Detection and limits on made-up trees (any host, no root); freezing, killing, counting on the host's own, as root.
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "isolate/cgroup_int.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static char top[64];
static int tree = -1;

static int setup(void **state)
{
	(void)state;
	if (fmt_to(top, sizeof top, "/tmp/skep-cgroup-XXXXXX") || !mkdtemp(top))
		return -1;
	tree = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return tree < 0;
}

static int teardown(void **state)
{
	struct err e;
	(void)state;
	close_fd(&tree);
	return fs_remove_tree(AT_FDCWD, top, &e);
}

static void put(const char *path, const char *text)
{
	struct err e;
	auto_free char *dir = xstrdup(path);
	char *slash = strrchr(dir, '/');
	if (slash) {
		*slash = 0;
		assert_int_equal(fs_mkdirs(tree, dir, 0755, &e), 0);
	}
	assert_int_equal(fs_write(tree, path, text, strlen(text), 0644, &e), 0);
}

static void assert_file(const char *path, const char *want)
{
	auto_buf struct buf b = BUF_INIT(4096);
	struct err e;
	assert_int_equal(fs_read(tree, path, &b, &e), 0);
	assert_string_equal(buf_cstr(&b), want);
}

static char *v2_mounts(const char *root)
{
	return xasprintf("25 1 0:5 / /proc rw - proc proc rw\n"
			 "31 23 0:28 %s %s/v2 rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
			 root, top);
}

static void make_v2_group(const char *path, const char *enabled, const char *procs)
{
	auto_free char *a = xasprintf("v2%s/cgroup.controllers", path), *b = xasprintf("v2%s/cgroup.subtree_control", path),
		       *c = xasprintf("v2%s/cgroup.procs", path);
	put(a, "cpuset cpu io memory pids\n");
	put(b, enabled);
	put(c, procs);
}

static void test_v1_detect(void **state)
{
	struct cgroup_host h;
	struct err e;
	(void)state;
	assert_int_equal(fs_mkdirs(tree, "v1/cpu,cpuacct", 0755, &e), 0);
	assert_int_equal(fs_mkdirs(tree, "v1/with space", 0755, &e), 0);
	assert_int_equal(fs_mkdirs(tree, "v1/pids", 0755, &e), 0);
	auto_free char *part = xasprintf("32 31 0:29 / %s/v1/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
					 "35 31 0:32 /docker/x %s/v1/with\\040space rw shared:9 - cgroup cgroup rw,memory\n"
					 "36 31 0:32 / %s/v1/none rw - cgroup cgroup rw,freezer\n"
					 "40 31 0:38 / %s/v1/pids rw - cgroup2 cgroup2 rw\n",
					 top, top, top, top);
	cgroup_detect_from(&h, part, "0::/\n1:cpu:/\n");
	assert_int_equal(h.mode, CGROUP_V1);
	assert_int_equal(h.n_dirs, 2);
	assert_int_equal(h.at[CG_CPU], h.at[CG_CPUACCT]);
	assert_true(h.at[CG_MEMORY] >= 0 && h.at[CG_PIDS] < 0);
	assert_false(cgroup_can_freeze(&h));
	assert_string_equal(cgroup_describe(&h), "supervised"); // pids is missing: said, not hidden
	cgroup_host_done(&h);

	auto_free char *whole = xasprintf("%s41 31 0:39 / %s/v1/pids rw - cgroup cgroup rw,pids\n", part, top);
	cgroup_detect_from(&h, whole, "");
	assert_string_equal(cgroup_describe(&h), "cgroup-v1");
	assert_true(fs_exists(tree, "v1/with space/skep"));
	cgroup_host_done(&h);
}

static void test_none(void **state)
{
	struct cgroup_host h;
	struct cgroup c;
	struct err e = {0};
	(void)state;
	cgroup_detect_from(&h, "25 1 0:5 / /proc rw - proc proc rw\n1 2 - cgroup\n", "0::/\n");
	assert_int_equal(h.mode, CGROUP_NONE);
	assert_string_equal(cgroup_describe(&h), "supervised");
	assert_int_equal(cgroup_open(&h, "x", &c, &e), -1);
	assert_int_equal(e.kind, ERR_UNSUPPORTED);
	cgroup_host_done(&h);
}

static void test_v1_limits(void **state)
{
	static const char *const files[] = {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "cpu.cfs_quota_us",
					    "pids.max"};
	struct cgroup_host h;
	struct cgroup c;
	struct err e = {0};
	(void)state;
	assert_int_equal(fs_mkdirs(tree, "one", 0755, &e), 0);
	auto_free char *m = xasprintf("32 31 0:29 / %s/one rw - cgroup cgroup rw,cpu,memory,pids,freezer\n", top);
	cgroup_detect_from(&h, m, "");
	assert_int_equal(h.n_dirs, 1);
	assert_int_equal(cgroup_open(&h, "../x", &c, &e), -1);
	assert_int_equal(e.kind, ERR_INVALID);
	assert_int_equal(cgroup_open(&h, "cell", &c, &e), 0);
	for (size_t i = 0; i < countof(files); i++) {
		auto_free char *p = xasprintf("one/skep/cell/%s", files[i]);
		put(p, "");
	}
	struct limits l = {.cpus_milli = 1500, .memory = 1u << 30, .pids = 77};
	assert_int_equal(cgroup_set_limits(&c, &l, &e), 0);
	assert_file("one/skep/cell/memory.limit_in_bytes", "1073741824");
	assert_file("one/skep/cell/memory.memsw.limit_in_bytes", "1073741824");
	assert_file("one/skep/cell/cpu.cfs_quota_us", "150000");
	assert_file("one/skep/cell/pids.max", "77");
	cgroup_close(&c);
	cgroup_host_done(&h);
}

static void test_v2_moved_before(void **state)
{
	static const char *const files[] = {"memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max",
					    "cgroup.max.descendants"};
	struct cgroup_host h;
	struct cgroup c;
	struct err e = {0};
	(void)state;
	make_v2_group("/app", "cpu memory pids\n", "");
	make_v2_group("/app/skep", "cpu memory pids\n", "");
	auto_free char *m = v2_mounts("/outer");
	cgroup_detect_from(&h, m, "0::/outer/app/skep-main\n");
	assert_int_equal(h.mode, CGROUP_V2);
	assert_string_equal(cgroup_describe(&h), "cgroup-v2");
	assert_true(str_has_suffix(h.path, "/v2/app/skep"));
	assert_int_equal(cgroup_open(&h, "cell", &c, &e), 0);
	for (size_t i = 0; i < countof(files); i++) {
		auto_free char *p = xasprintf("v2/app/skep/cell/%s", files[i]);
		put(p, "");
	}
	struct limits l = {.cpus_milli = 500, .memory = 1u << 20};
	assert_int_equal(cgroup_set_limits(&c, &l, &e), 0);
	assert_file("v2/app/skep/cell/memory.max", "1048576");
	assert_file("v2/app/skep/cell/memory.swap.max", "0");
	assert_file("v2/app/skep/cell/memory.oom.group", "0");
	assert_file("v2/app/skep/cell/pids.max", "max");
	assert_file("v2/app/skep/cell/cgroup.max.descendants", "0");
	assert_file("v2/app/skep/cell/cpu.max", "50000 100000");
	put("v2/app/skep/cell/memory.current", "4096\n");
	put("v2/app/skep/cell/pids.current", "3\n");
	put("v2/app/skep/cell/cpu.stat", "usage_usec 1234\nuser_usec 1000\n");
	put("v2/app/skep/cell/memory.events", "low 0\noom 5\noom_kill 2\noom_group_kill 1\n");
	put("v2/app/skep/cell/pids.events", "max 9\n");
	struct cgroup_usage u;
	assert_int_equal(cgroup_usage(&c, &u, &e), 0);
	assert_true(u.memory == 4096 && u.pids == 3 && u.cpu_us == 1234 && u.oom_kills == 2 && u.pids_hits == 9);
	cgroup_close(&c);
	cgroup_host_done(&h);
}

// A group with someone else's process in it is left alone.
static void test_v2_foreign_process(void **state)
{
	struct cgroup_host h;
	(void)state;
	auto_free char *procs = xasprintf("%d\n%d\n", (int)getpid(), (int)getppid());
	make_v2_group("/session", "", procs);
	auto_free char *m = v2_mounts("/not-the-top");
	cgroup_detect_from(&h, m, "0::/not-the-top/session\n");
	assert_int_equal(h.mode, CGROUP_NONE);
	assert_false(fs_exists(tree, "v2/session/skep-main") || fs_exists(tree, "v2/session/skep"));
	cgroup_host_done(&h);
	cgroup_detect_from(&h, m, "0::/elsewhere\n");
	assert_int_equal(h.mode, CGROUP_NONE);
	cgroup_detect_from(&h, m, "0::/../up\n");
	assert_int_equal(h.mode, CGROUP_NONE);
}

// In a leaf beside others' processes, below a group that was handed to us: the cells go beside the leaf.
static void test_v2_climb(void **state)
{
	struct cgroup_host h;
	(void)state;
	if (!geteuid())
		skip(); // root goes to the top
	auto_free char *procs = xasprintf("%d\n", (int)getppid());
	make_v2_group("/app.slice", "cpu memory pids\n", "");
	make_v2_group("/app.slice/mine", "cpu memory pids\n", "");
	make_v2_group("/app.slice/mine/skep", "cpu memory pids\n", "");
	make_v2_group("/app.slice/mine/shell", "", procs);
	make_v2_group("/app.slice/other.scope", "", procs);
	auto_free char *m = v2_mounts("/outer");
	cgroup_detect_from(&h, m, "0::/outer/app.slice/mine/shell\n");
	assert_string_equal(cgroup_describe(&h), "cgroup-v2");
	assert_true(str_has_suffix(h.path, "/v2/app.slice/mine/skep"));
	cgroup_host_done(&h);
	cgroup_detect_from(&h, m, "0::/outer/app.slice/other.scope\n"); // what lies above is the service manager's
	assert_int_equal(h.mode, CGROUP_NONE);
	assert_false(fs_exists(tree, "v2/app.slice/skep"));
	put("v2/app.slice/mine/cgroup.procs", "");
	assert_int_equal(fchmodat(tree, "v2/app.slice/mine/cgroup.procs", 0444, 0), 0);
	cgroup_detect_from(&h, m, "0::/outer/app.slice/mine/shell\n"); // no process could be moved there
	assert_int_equal(h.mode, CGROUP_NONE);
}

static void test_words(void **state)
{
	(void)state;
	assert_true(cgroup_has_word("rw,cpu,cpuacct", "cpu", ","));
	assert_false(cgroup_has_word("rw,cpuset,cpuacct", "cpu", ","));
	assert_true(cgroup_has_word("cpu memory\n", "memory", " \n"));
	assert_false(cgroup_has_word("", "memory", " \n"));
	assert_int_equal(cgroup_keyed("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "oom_kill"), 3);
	assert_int_equal(cgroup_keyed("oom_kill x\n", "oom_kill"), 0);
	assert_int_equal(cgroup_keyed("", "max"), 0);
}

// --- the host's own ---

// A child that runs fn once it is in the group.
static pid_t start_in(struct cgroup *c, void (*fn)(void))
{
	struct err e = {0};
	int go[2];
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		char byte;
		close(go[1]);
		(void)!read(go[0], &byte, 1); // end of file: attached
		fn();
		_exit(0);
	}
	close(go[0]);
	int rc = cgroup_attach(c, pid, &e);
	if (rc)
		kill(pid, SIGKILL);
	close(go[1]);
	assert_int_equal(rc, 0);
	return pid;
}

static void spin_forks(void)
{
	for (int i = 0; i < 6; i++)
		fork();
	for (;;)
		pause();
}

static void grab_memory(void)
{
	size_t n = 64u << 20;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; p != MAP_FAILED && i < n; i += 4096)
		p[i] = 1;
}

static void count_up(void)
{
	for (volatile unsigned long i = 0; i < 20000000; i++)
		;
}

static void real_name(char name[48])
{
	assert_int_equal(fmt_to(name, 48, "unit%d", (int)getpid()), 0);
}

static void open_real(struct cgroup_host *h, struct cgroup *c)
{
	struct err e = {0};
	char name[48];
	real_name(name);
	assert_int_equal(cgroup_detect(h, &e), 0);
	if (!strcmp(cgroup_describe(h), "supervised") || !cgroup_can_freeze(h)) {
		cgroup_host_done(h);
		skip();
	}
	assert_int_equal(cgroup_open(h, name, c, &e), 0);
}

static void test_real_freeze_and_kill(void **state)
{
	struct cgroup_host h;
	struct cgroup c;
	struct cgroup_usage u;
	struct err e = {0};
	struct limits l = {.cpus_milli = 1000, .memory = 256u << 20, .pids = 20};
	(void)state;
	open_real(&h, &c);
	assert_int_equal(cgroup_set_limits(&c, &l, &e), 0);
	l.memory = 512u << 20; // raised again while it is in force
	assert_int_equal(cgroup_set_limits(&c, &l, &e), 0);
	pid_t pid = start_in(&c, spin_forks);
	do
		assert_int_equal(cgroup_usage(&c, &u, &e), 0);
	while (!u.pids_hits);
	assert_int_equal(cgroup_freeze(&c, true, &e), 0);
	assert_int_equal(cgroup_usage(&c, &u, &e), 0); // a fork that is about to be refused is counted for a moment
	assert_true(u.pids <= 20 && u.memory > 0);
	assert_int_equal(cgroup_freeze(&c, false, &e), 0);
	assert_int_equal(cgroup_kill(&c, &e), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(cgroup_close_remove(&c, &e), 0);
	cgroup_host_done(&h);
}

static void test_real_memory(void **state)
{
	struct cgroup_host h;
	struct cgroup c;
	struct cgroup_usage u;
	struct err e = {0};
	struct limits l = {.memory = 16u << 20, .pids = 20};
	int status;
	(void)state;
	open_real(&h, &c);
	assert_int_equal(cgroup_set_limits(&c, &l, &e), 0);
	pid_t pid = start_in(&c, grab_memory);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(cgroup_usage(&c, &u, &e), 0);
	assert_true(u.oom_kills >= 1);
	assert_int_equal(cgroup_close_remove(&c, &e), 0);
	cgroup_host_done(&h);
}

static void test_real_cpu(void **state)
{
	struct cgroup_host h;
	struct cgroup c;
	struct cgroup_usage u;
	struct err e = {0};
	(void)state;
	open_real(&h, &c);
	pid_t pid = start_in(&c, count_up);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(cgroup_usage(&c, &u, &e), 0);
	assert_true(h.at[CG_CPUACCT] < 0 || (u.cpu_us > 1000 && u.cpu_us < 10000000));
	assert_int_equal(cgroup_close_remove(&c, &e), 0);
	cgroup_host_done(&h);
}

static bool is_not_mine(const char *name, void *arg)
{
	return strcmp(name, arg) != 0;
}

static void test_real_sweep(void **state)
{
	struct cgroup_host h;
	struct cgroup c;
	char name[48];
	(void)state;
	real_name(name);
	open_real(&h, &c);
	pid_t pid = start_in(&c, spin_forks);
	cgroup_close(&c);
	cgroup_sweep(&h, is_not_mine, name);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	for (int i = 0; i < h.n_dirs; i++)
		assert_false(fs_exists(h.dirs[i], name));
	cgroup_host_done(&h);
}

// The parts of version 2 that need no controller, on whatever version 2 tree root may write to.
static void test_real_v2_core(void **state)
{
	struct cgroup_host h = {.mode = CGROUP_V2, .n_dirs = 1};
	struct cgroup c;
	struct err e = {0};
	char name[48];
	(void)state;
	bool hybrid = fs_exists(AT_FDCWD, "/sys/fs/cgroup/unified/cgroup.procs");
	h.dirs[0] = open(hybrid ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (h.dirs[0] < 0 || geteuid() || !fs_exists(h.dirs[0], "cgroup.controllers")) {
		close_fd(&h.dirs[0]);
		skip();
	}
	real_name(name);
	assert_int_equal(cgroup_open(&h, name, &c, &e), 0);
	pid_t pid = start_in(&c, spin_forks);
	assert_int_equal(cgroup_freeze(&c, true, &e), 0);
	assert_int_equal(cgroup_freeze(&c, false, &e), 0);
	assert_int_equal(cgroup_kill(&c, &e), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(cgroup_close_remove(&c, &e), 0);
	cgroup_host_done(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_v1_detect),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_v1_limits),
		cmocka_unit_test(test_v2_moved_before),
		cmocka_unit_test(test_v2_foreign_process),
		cmocka_unit_test(test_v2_climb),
		cmocka_unit_test(test_real_freeze_and_kill),
		cmocka_unit_test(test_real_memory),
		cmocka_unit_test(test_real_cpu),
		cmocka_unit_test(test_real_sweep),
		cmocka_unit_test(test_real_v2_core),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

// SPDX-License-Identifier: Apache-2.0
#include "isolate/userns.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/securebits.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANGE 65536u
#define RANGE_FIRST 0x40000000u // far above any login user, service or subordinate range
#define USER_INSIDE 1000u

static int write_map(pid_t pid, const char *file, const struct id_range *r, int n, struct err *e)
{
	char path[64];
	auto_buf struct buf text = BUF_INIT(4096);
	for (int i = 0; i < n; i++)
		if (r[i].count)
			buf_fmt(&text, "%u %u %u\n", r[i].inside, r[i].outside, r[i].count);
	if (fmt_to(path, sizeof path, "/proc/%d/%s", (int)pid, file))
		return err_set(e, ERR_BUG, "path");
	return fs_put(AT_FDCWD, path, buf_cstr(&text), e);
}

// The first range of the user in /etc/subuid or /etc/subgid: "name:first:count".
static bool sub_range(const char *file, const char *name, uint32_t id, uint64_t *out_first, uint64_t *out_count)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(1 << 20);
	if (fs_read(AT_FDCWD, file, &b, &e))
		return false;
	struct str rest = str_of(buf_cstr(&b)), line;
	while (str_next(&rest, '\n', &line)) {
		struct str who, first, count;
		uint64_t as_id;
		if (!str_next(&line, ':', &who) || !str_next(&line, ':', &first) || !str_next(&line, ':', &count))
			continue;
		bool mine = (name && str_is(who, name)) || (!str_to_u64(who, 0, UINT32_MAX, &as_id) && as_id == id);
		if (mine && !str_to_u64(first, 1, UINT32_MAX, out_first) && !str_to_u64(count, 1, UINT32_MAX, out_count))
			return true;
	}
	return false;
}

// newuidmap and newgidmap must be run from outside: by a child made before the namespace.
static void run_map_helper(int go, pid_t target, const char *prog, uint32_t id, uint64_t first, uint64_t count)
{
	auto_buf struct buf pid = BUF_INIT(32), own = BUF_INIT(32), sub = BUF_INIT(32), len = BUF_INIT(32);
	char byte;
	if (read(go, &byte, 1) != 1)
		_exit(1);
	buf_fmt(&pid, "%d", (int)target);
	buf_fmt(&own, "%u", id);
	buf_fmt(&sub, "%llu", (unsigned long long)first);
	buf_fmt(&len, "%llu", (unsigned long long)count);
	execlp(prog, prog, pid.p, "0", own.p, "1", "1", sub.p, len.p, (char *)NULL);
	_exit(127);
}

static pid_t spawn_map_helper(int go[2], const char *prog, uint32_t id, uint64_t first, uint64_t count)
{
	pid_t target = getpid(), pid = fork();
	if (!pid) {
		close(go[1]);
		run_map_helper(go[0], target, prog, id, first, count);
	}
	return pid;
}

static bool helper_ok(pid_t pid)
{
	int status = -1;
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) && !WEXITSTATUS(status);
}

static int map_with_subids(struct userns_host *h, uint64_t ufirst, uint64_t gfirst, uint64_t count, struct err *e)
{
	int go[2];
	if (pipe2(go, O_CLOEXEC))
		return err_sys(e, "pipe");
	pid_t u = spawn_map_helper(go, "newuidmap", h->uid, ufirst, count);
	pid_t g = spawn_map_helper(go, "newgidmap", h->gid, gfirst, count);
	int rc = unshare(CLONE_NEWUSER) ? err_sys(e, "new user namespace") : 0;
	if (!rc && write(go[1], "gg", 2) != 2)
		rc = err_sys(e, "start newuidmap");
	close(go[0]);
	close(go[1]);
	bool ok = helper_ok(u);
	ok &= helper_ok(g);
	if (!rc && !ok)
		rc = err_set(e, ERR_SYSTEM, "newuidmap or newgidmap failed; check /etc/subuid and /etc/subgid");
	if (!rc && setgroups(0, NULL))
		rc = err_sys(e, "drop supplementary groups");
	if (rc)
		return -1;
	h->subids = h->groups_dropped = true;
	h->count = (uint32_t)count;
	return 0;
}

static int map_self(struct userns_host *h, struct err *e)
{
	struct id_range u = {0, h->uid, 1}, g = {0, h->gid, 1};
	if (unshare(CLONE_NEWUSER))
		return err_sys(e, "new user namespace (see: skep doctor)");
	if (fs_put(AT_FDCWD, "/proc/self/setgroups", "deny", e))
		return -1;
	h->groups_dropped = getgroups(0, NULL) == 0;
	return write_map(getpid(), "uid_map", &u, 1, e) || write_map(getpid(), "gid_map", &g, 1, e) ? -1 : 0;
}

// --- what is counted for users ---

int userns_limit_watches(unsigned eighths, struct err *e)
{
	static const char *const names[] = {"instances", "watches"};
	for (size_t i = 0; i < countof(names); i++) {
		auto_buf struct buf b = BUF_INIT(64);
		auto_free char *host = xasprintf("/proc/sys/fs/inotify/max_user_%s", names[i]);
		auto_free char *ours = xasprintf("/proc/sys/user/max_inotify_%s", names[i]);
		uint64_t most;
		if (fs_read(AT_FDCWD, host, &b, e))
			return -1;
		if (str_to_u64((struct str){b.p, strcspn(buf_cstr(&b), "\n")}, 0, INT32_MAX, &most))
			return err_set(e, ERR_SYSTEM, "%s is not a number", host);
		buf_clear(&b);
		buf_fmt(&b, "%llu", (unsigned long long)(most * eighths / 8));
		if (fs_put(AT_FDCWD, ours, buf_cstr(&b), e))
			return -1;
	}
	return 0;
}

// A namespace takes over, for all that is in it together, the limits of the process that makes it.
static const int shared_limits[] = {RLIMIT_MSGQUEUE, RLIMIT_SIGPENDING};

static int share_limits(struct rlimit was[countof(shared_limits)], struct err *e)
{
	for (size_t i = 0; i < countof(shared_limits); i++) {
		if (getrlimit(shared_limits[i], &was[i]))
			return err_sys(e, "read a limit");
		struct rlimit r = was[i];
		if (r.rlim_cur != RLIM_INFINITY)
			r.rlim_cur = r.rlim_cur / 8 * USERNS_ALL_CELLS;
		if (setrlimit(shared_limits[i], &r))
			return err_sys(e, "lower a limit");
	}
	return 0;
}

static int restore_limits(const struct rlimit was[countof(shared_limits)], struct err *e)
{
	for (size_t i = 0; i < countof(shared_limits); i++)
		if (setrlimit(shared_limits[i], &was[i]))
			return err_sys(e, "raise a limit again");
	return 0;
}

pid_t userns_clone(const struct userns_host *h, int flags, uint32_t first, struct err *e)
{
	int bits = h->root ? prctl(PR_GET_SECUREBITS) : 0;
	// without the fixup a change of ids leaves the capabilities, which some hosts want for a new user namespace
	if (h->root && (bits < 0 || prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP) || setresuid((uid_t)-1, first, (uid_t)-1)))
		return err_sys(e, "become the cell's own id");
	pid_t pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
	if (!pid) // in a namespace of its own, where it takes its ids when they are mapped
		return 0;
	if (pid < 0)
		err_sys(e, "new namespaces (see: skep doctor)");
	if (h->root && (setresuid((uid_t)-1, 0, (uid_t)-1) || prctl(PR_SET_SECUREBITS, bits)))
		return err_sys(e, "become root again");
	return pid;
}

// --- base ---

// Project ids mean nothing in here, but their map is open to everybody in the namespace until it is written once.
static int close_projects(pid_t pid, struct err *e)
{
	struct id_range none = {0, 0, 1};
	return write_map(pid, "projid_map", &none, 1, e);
}

int userns_enter_base(struct userns_host *out, struct err *e)
{
	struct userns_host h = {.root = geteuid() == 0, .uid = geteuid(), .gid = getegid()};
	uint64_t ufirst, ucount, gfirst, gcount;
	struct rlimit was[countof(shared_limits)];
	if (h.root) {
		if (setgroups(0, NULL))
			return err_sys(e, "drop supplementary groups");
		h.groups_dropped = true;
		*out = h;
		return 0;
	}
	struct passwd *pw = getpwuid(h.uid);
	const char *name = pw ? pw->pw_name : NULL;
	bool subids = sub_range("/etc/subuid", name, h.uid, &ufirst, &ucount) &&
		      sub_range("/etc/subgid", name, h.uid, &gfirst, &gcount) && !access("/usr/bin/newuidmap", X_OK);
	uint64_t count = subids ? (ucount < gcount ? ucount : gcount) : 0;
	if (count > RANGE - 1)
		count = RANGE - 1;
	if (share_limits(was, e) || (subids ? map_with_subids(&h, ufirst, gfirst, count, e) : map_self(&h, e)) || close_projects(getpid(), e))
		return -1;
	if (restore_limits(was, e) || userns_limit_watches(USERNS_ALL_CELLS, e))
		return -1;
	*out = h;
	return 0;
}

uint32_t userns_range(uint32_t n)
{
	return RANGE_FIRST + n % USERNS_RANGES * RANGE;
}

void userns_inside_ids(const struct userns_host *h, enum profile p, uint32_t *out_uid, uint32_t *out_gid)
{
	*out_uid = p == PROFILE_ROOT ? 0 : h->root ? USER_INSIDE : h->uid;
	*out_gid = p == PROFILE_ROOT ? 0 : h->root ? USER_INSIDE : h->gid;
}

int userns_map(pid_t pid, const struct userns_host *h, enum profile p, uint32_t first, struct err *e)
{
	struct id_range u[2] = {{0, first, RANGE}}, g[2] = {{0, first, RANGE}};
	if (!h->root) {
		uint32_t uid, gid;
		userns_inside_ids(h, p, &uid, &gid);
		u[0] = (struct id_range){uid, 0, 1};
		g[0] = (struct id_range){gid, 0, 1};
		if (p == PROFILE_ROOT)
			u[1] = g[1] = (struct id_range){1, 1, h->count};
	}
	return write_map(pid, "uid_map", u, 2, e) || write_map(pid, "gid_map", g, 2, e) || close_projects(pid, e) ? -1 : 0;
}

int userns_inside(const struct userns_host *h, uint32_t first, uint32_t *id)
{
	uint32_t base = h->root ? first : 0, count = h->root ? RANGE : h->count + 1;
	if (*id < base || *id - base >= count)
		return -1;
	*id -= base;
	return 0;
}

// f(owner) = first+user, f(user) = first+owner, f(x) = first+x.
static int swapped(uint32_t first, uint32_t owner, uint32_t user, struct id_range out[5])
{
	uint32_t a = owner < user ? owner : user, b = owner < user ? user : owner;
	int n = 0;
	if (b >= RANGE || a == b) { // an owner beyond the range stands in for the user's own id
		uint32_t skip = b >= RANGE ? user : RANGE;
		if (b >= RANGE)
			out[n++] = (struct id_range){owner, first + user, 1};
		out[n++] = (struct id_range){0, first, skip};
		if (skip < RANGE)
			out[n++] = (struct id_range){skip + 1, first + skip + 1, RANGE - skip - 1};
		return n;
	}
	out[n++] = (struct id_range){0, first, a};
	out[n++] = (struct id_range){a, first + b, 1};
	out[n++] = (struct id_range){a + 1, first + a + 1, b - a - 1};
	out[n++] = (struct id_range){b, first + a, 1};
	out[n++] = (struct id_range){b + 1, first + b + 1, RANGE - b - 1};
	return n;
}

int userns_for_mount(uint32_t first, uint32_t owner_uid, uint32_t owner_gid, uint32_t user, struct err *e)
{
	struct id_range u[5], g[5];
	char path[64];
	int nu = swapped(first, owner_uid, user, u), ng = swapped(first, owner_gid, user, g);
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	if (pid < 0)
		return err_sys(e, "new user namespace");
	if (!pid)
		for (;;)
			pause(); // killed below
	int fd = -1;
	if (!write_map(pid, "uid_map", u, nu, e) && !write_map(pid, "gid_map", g, ng, e) &&
	    !fmt_to(path, sizeof path, "/proc/%d/ns/user", (int)pid))
		fd = fs_open(AT_FDCWD, path, O_RDONLY, 0, e);
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return fd;
}

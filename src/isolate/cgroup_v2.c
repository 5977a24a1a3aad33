// SPDX-License-Identifier: Apache-2.0
// Version 2: one tree. We use the part of it that is delegated to us, and never move a process that is not ours.
#include "isolate/cgroup_int.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MAIN "skep-main" // where our own processes go
#define TEXT_MAX 4096u

static bool lists(int dir, const char *file, const char *controller)
{
	auto_buf struct buf text = BUF_INIT(TEXT_MAX);
	struct err e;
	return !fs_read(dir, file, &text, &e) && cgroup_has_word(buf_cstr(&text), controller, " \n");
}

// Asks for the controllers one by one; what the kernel refuses shows when the file is read back.
static bool enable(int dir)
{
	static const char *const want[] = {"+memory", "+pids", "+cpu"};
	struct err e;
	for (size_t i = 0; i < countof(want); i++)
		if (!lists(dir, "cgroup.subtree_control", want[i] + 1) &&
		    fs_put(dir, "cgroup.subtree_control", want[i], &e) && i < 2)
			return false;
	return true;
}

// Marked by the service manager as handed over with everything in it.
static bool is_delegated(int dir)
{
	char v[2];
	return (fgetxattr(dir, "user.delegate", v, sizeof v) == 1 || fgetxattr(dir, "trusted.delegate", v, sizeof v) == 1) &&
	       v[0] == '1';
}

static bool is_ours(pid_t pid)
{
	auto_buf struct buf comm = BUF_INIT(64);
	auto_free char *path = xasprintf("/proc/%d/comm", (int)pid);
	struct err e;
	return pid == getpid() || (!fs_read(AT_FDCWD, path, &comm, &e) && str_has_prefix(buf_cstr(&comm), "skep"));
}

static bool move_all(int dir, int main_dir, bool delegated, bool *out_empty)
{
	auto_free pid_t *pids = NULL;
	struct err e;
	ssize_t n = cgroup_pids(dir, &pids, &e);
	if (n < 0)
		return false;
	for (ssize_t i = 0; i < n; i++)
		if (!delegated && !is_ours(pids[i]))
			return false;
	for (ssize_t i = 0; i < n; i++) {
		auto_free char *text = xasprintf("%d", (int)pids[i]);
		if (fs_put(main_dir, "cgroup.procs", text, &e) && e.sys != ESRCH)
			return false;
	}
	*out_empty = n == 0;
	return true;
}

// A group that gives controllers to its children may hold no process itself.
static bool vacate(int dir)
{
	bool delegated = is_delegated(dir), empty = false;
	auto_fd int main_dir = cgroup_make_dir(dir, MAIN);
	if (main_dir < 0)
		return false;
	for (int round = 0; round < 4 && !empty; round++)
		if (!move_all(dir, main_dir, delegated, &empty)) {
			unlinkat(dir, MAIN, AT_REMOVEDIR);
			return false;
		}
	return empty;
}

static bool use(struct cgroup_host *h, const char *base, bool may_vacate)
{
	auto_fd int dir = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || !lists(dir, "cgroup.controllers", "memory") || !lists(dir, "cgroup.controllers", "pids"))
		return false;
	// the second: whoever moves a process needs it of the group above both places
	if (faccessat(dir, ".", W_OK, AT_EACCESS) || faccessat(dir, "cgroup.procs", W_OK, AT_EACCESS))
		return false;
	bool enabled = lists(dir, "cgroup.subtree_control", "memory") && lists(dir, "cgroup.subtree_control", "pids");
	if (!enabled && may_vacate && !vacate(dir))
		return false;
	if (!enable(dir))
		return false;
	auto_fd int skep = cgroup_make_dir(dir, "skep");
	if (skep < 0 || !enable(skep))
		return false;
	h->at[CG_MEMORY] = h->at[CG_PIDS] = h->at[CG_FREEZER] = h->at[CG_CPUACCT] = 0;
	h->at[CG_CPU] = lists(skep, "cgroup.subtree_control", "cpu") ? 0 : -1;
	h->path = xasprintf("%s/skep", base);
	h->dirs[h->n_dirs++] = take_fd(&skep);
	h->mode = CGROUP_V2;
	return true;
}

// Path of our own group below the mount, from the line "0::/path". NULL when it lies outside the mount.
static char *own_path(const struct cgroup_mount *m, const char *self_cgroup)
{
	struct str rest = str_of(self_cgroup), line;
	while (str_next(&rest, '\n', &line)) {
		if (line.n < 4 || memcmp(line.p, "0::/", 4))
			continue;
		auto_free char *path = xstrndup(line.p + 3, line.n - 3);
		size_t n = strcmp(m->root, "/") ? strlen(m->root) : 0;
		if (strncmp(path, m->root, n) || (path[n] && path[n] != '/') || strstr(path, "/.."))
			return NULL;
		return xasprintf("%s%s", m->point, strcmp(path + n, "/") ? path + n : "");
	}
	return NULL;
}

// A group that a service manager looks after, and has not handed over.
static bool is_managed(const char *path)
{
	auto_fd int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool unit = str_has_suffix(path, ".slice") || str_has_suffix(path, ".service") || str_has_suffix(path, ".scope");
	return dir < 0 || (unit && !is_delegated(dir));
}

// A shell and its skepd stand in one leaf of the subtree that was handed to their user: the cells go beside it.
static void climb(struct cgroup_host *h, const char *point, char *path)
{
	while (h->mode == CGROUP_NONE && strlen(path) > strlen(point)) {
		*strrchr(path, '/') = 0;
		if (is_managed(path))
			return;
		use(h, path, false);
	}
}

// The top of the whole tree may hold processes and children at once; the top that a container sees may not.
static bool is_real_top(const struct cgroup_mount *m, const char *path)
{
	auto_free char *type = xasprintf("%s/cgroup.type", path);
	return !strcmp(path, m->point) && !fs_exists(AT_FDCWD, type);
}

void cgv2_detect(struct cgroup_host *h, const struct cgroup_mount *m, const char *self_cgroup)
{
	auto_free char *own = own_path(m, self_cgroup);
	if (!own)
		return;
	bool moved = str_has_suffix(own, "/" MAIN); // by an earlier process of ours
	if (moved)
		own[strlen(own) - strlen("/" MAIN)] = 0;
	if (use(h, own, !moved && !is_real_top(m, own)))
		return;
	if (geteuid())
		climb(h, m->point, own);
	else if (!strcmp(m->root, "/") && strcmp(own, m->point)) // root outside any delegated group
		use(h, m->point, false);
}

static int put_number(int dir, const char *file, uint64_t v, struct err *e)
{
	char text[24] = "max";
	if (v && fmt_to(text, sizeof text, "%llu", (unsigned long long)v))
		return err_set(e, ERR_BUG, "limit text");
	return fs_put(dir, file, text, e);
}

int cgv2_limits(struct cgroup *c, const struct limits *l, struct err *e)
{
	int dir = cgroup_dir(c, CG_MEMORY);
	if (put_number(dir, "memory.max", l->memory, e) || put_number(dir, "pids.max", l->pids, e))
		return -1;
	// Without root the files belong to the id that the cell's processes have. With --nested those can mount the tree:
	// a group of theirs would outlive them and keep ours from being removed.
	if (fs_put(dir, "cgroup.max.descendants", "0", e))
		return -1;
	// absent where the kernel has no swap
	if (fs_exists(dir, "memory.swap.max") && fs_put(dir, "memory.swap.max", l->memory ? "0" : "max", e))
		return -1;
	// 0: the group holds pid 1 too, and a hog must cost the sandbox one process, not its life
	if (fs_put(dir, "memory.oom.group", "0", e))
		return -1;
	if (cgroup_dir(c, CG_CPU) < 0)
		return 0;
	char text[48] = "max 100000";
	uint64_t us = l->cpus_milli * 100;
	if (us && fmt_to(text, sizeof text, "%llu 100000", (unsigned long long)(us < 1000 ? 1000 : us)))
		return err_set(e, ERR_BUG, "cpu limit text");
	return fs_put(dir, "cpu.max", text, e);
}

// The event comes at most every 10 ms, so the state is read first and again after each short wait.
int cgv2_freeze(struct cgroup *c, bool on, struct err *e)
{
	int dir = cgroup_dir(c, CG_FREEZER);
	uint64_t deadline = clock_ms() + CGROUP_WAIT_MS;
	auto_fd int events = fs_open(dir, "cgroup.events", O_RDONLY, 0, e);
	if (events < 0 || fs_put(dir, "cgroup.freeze", on ? "1" : "0", e))
		return -1;
	for (;;) {
		char text[256] = {0};
		if (pread(events, text, sizeof text - 1, 0) < 0)
			return err_sys(e, "read cgroup.events");
		if (cgroup_keyed(text, "frozen") == on)
			return 0;
		if (clock_ms() >= deadline)
			break;
		struct pollfd p = {.fd = events, .events = POLLPRI};
		poll(&p, 1, 5);
	}
	if (on && fs_put(dir, "cgroup.freeze", "0", e))
		return -1;
	return err_set(e, ERR_TIMEOUT, "group %s did not %s", c->name, on ? "freeze" : "thaw");
}

// SPDX-License-Identifier: Apache-2.0
// Version 1: a hierarchy per controller (or per few), each with its own "skep" directory.
#include "isolate/cgroup_int.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PERIOD_US 100000u
#define TCP_SHARE 8u // of the memory limit, beside it
#define TCP_MIN (16u << 20)
#define QUOTA_MIN_US 1000u // the kernel's floor

// One mount: every controller of it that has no place yet gets this one. A mount we can not write to is no place.
void cgv1_detect(struct cgroup_host *h, const struct cgroup_mount *m)
{
	int slot = -1;
	for (int k = 0; k < CG_CTLS; k++) {
		if (h->at[k] >= 0 || !cgroup_has_word(m->opts, cgroup_ctl_name((enum cgroup_ctl)k), ","))
			continue;
		if (slot < 0) {
			auto_fd int top = open(m->point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			int dir = top < 0 ? -1 : cgroup_make_dir(top, "skep");
			if (dir < 0)
				return;
			slot = h->n_dirs++;
			h->dirs[slot] = dir;
			if (!h->path)
				h->path = xasprintf("%s/skep", m->point);
		}
		h->at[k] = slot;
		h->mode = CGROUP_V1;
	}
}

// What waits in TCP sockets has a counter of its own in version 1, which without a limit is not even kept.
static int set_tcp(int dir, uint64_t bytes, struct err *e)
{
	uint64_t share = bytes / TCP_SHARE < TCP_MIN ? TCP_MIN : bytes / TCP_SHARE;
	char text[24] = "-1";
	if (bytes && fmt_to(text, sizeof text, "%llu", (unsigned long long)share))
		return err_set(e, ERR_BUG, "memory limit text");
	return fs_exists(dir, "memory.kmem.tcp.limit_in_bytes") ? fs_put(dir, "memory.kmem.tcp.limit_in_bytes", text, e) : 0;
}

// The kernel keeps limit <= limit with swap at every moment: raising starts with the second, lowering with the first.
static int set_memory(int dir, uint64_t bytes, struct err *e)
{
	char text[24];
	struct err first;
	if (bytes ? fmt_to(text, sizeof text, "%llu", (unsigned long long)bytes) : fmt_to(text, sizeof text, "-1"))
		return err_set(e, ERR_BUG, "memory limit text");
	if (set_tcp(dir, bytes, e))
		return -1;
	bool counts_swap = fs_exists(dir, "memory.memsw.limit_in_bytes");
	if (!counts_swap)
		return fs_put(dir, "memory.limit_in_bytes", text, e);
	if (!fs_put(dir, "memory.limit_in_bytes", text, &first))
		return fs_put(dir, "memory.memsw.limit_in_bytes", text, e);
	if (first.sys != EINVAL) {
		*e = first;
		return -1;
	}
	if (fs_put(dir, "memory.memsw.limit_in_bytes", text, e))
		return -1;
	return fs_put(dir, "memory.limit_in_bytes", text, e);
}

static int set_cpu(int dir, uint64_t milli, struct err *e)
{
	char text[24];
	uint64_t us = milli * (PERIOD_US / 1000);
	if (us && us < QUOTA_MIN_US)
		us = QUOTA_MIN_US;
	if (us ? fmt_to(text, sizeof text, "%llu", (unsigned long long)us) : fmt_to(text, sizeof text, "-1"))
		return err_set(e, ERR_BUG, "cpu limit text");
	return fs_put(dir, "cpu.cfs_quota_us", text, e);
}

int cgv1_limits(struct cgroup *c, const struct limits *l, struct err *e)
{
	int memory = cgroup_dir(c, CG_MEMORY), pids = cgroup_dir(c, CG_PIDS), cpu = cgroup_dir(c, CG_CPU);
	char text[24] = "max";
	if (l->pids && fmt_to(text, sizeof text, "%llu", (unsigned long long)l->pids))
		return err_set(e, ERR_BUG, "pids limit text");
	if (memory >= 0 && set_memory(memory, l->memory, e))
		return -1;
	if (pids >= 0 && fs_put(pids, "pids.max", text, e))
		return -1;
	return cpu >= 0 ? set_cpu(cpu, l->cpus_milli, e) : 0;
}

// Version 1 tells nobody when the last process has stopped: reading the state is also what moves it on.
int cgv1_freeze(struct cgroup *c, bool on, struct err *e)
{
	const char *want = on ? "FROZEN" : "THAWED";
	int dir = cgroup_dir(c, CG_FREEZER);
	uint64_t deadline = clock_ms() + CGROUP_WAIT_MS;
	unsigned us = 50;
	if (dir < 0)
		return err_set(e, ERR_UNSUPPORTED, "no freezer on this host");
	do {
		auto_buf struct buf state = BUF_INIT(64);
		// written again each time: a fork during the first write leaves the child running
		if (fs_put(dir, "freezer.state", want, e) || fs_read(dir, "freezer.state", &state, e))
			return -1;
		if (str_has_prefix(buf_cstr(&state), want))
			return 0;
	} while (cgroup_pause(deadline, &us));
	if (on && fs_put(dir, "freezer.state", "THAWED", e))
		return -1;
	return err_set(e, ERR_TIMEOUT, "group %s did not become %s", c->name, want);
}

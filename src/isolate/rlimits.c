// SPDX-License-Identifier: Apache-2.0
#include "isolate/rlimits.h"

#include "base/mem.h"
#include <sys/resource.h>

// No file is that small; and where the host's core_pattern is a program, the kernel starts it for a limit of 0, but not for 1.
#define NO_CORE 1u
#define NPROC_SLACK 32u
#define MEMLOCK (8u << 20) // the kernel's own default; counted as any memory is
#define MSGQUEUE 409600u // half of the kernel's own default: bytes in queues count per user
#define SIGPENDING 4096u // queued signals and timers count per user, and the user is not the cell's alone

static int lower(int what, const char *name, uint64_t want, struct err *e)
{
	struct rlimit r;
	if (getrlimit(what, &r))
		return err_sys(e, "read limit %s", name);
	rlim_t v = r.rlim_max != RLIM_INFINITY && want > r.rlim_max ? r.rlim_max : (rlim_t)want;
	r = (struct rlimit){v, v};
	return setrlimit(what, &r) ? err_sys(e, "set limit %s to %llu", name, (unsigned long long)v) : 0;
}

int rlimits_apply(const struct limits *l, bool supervised, struct err *e)
{
	const struct {
		int what;
		const char *name;
		uint64_t want;
		bool on;
	} rows[] = {
		{RLIMIT_CORE, "CORE", NO_CORE, true},
		{RLIMIT_NOFILE, "NOFILE", l->nofile, l->nofile},
		{RLIMIT_FSIZE, "FSIZE", l->disk, l->disk},
		{RLIMIT_MEMLOCK, "MEMLOCK", MEMLOCK, true},
		{RLIMIT_MSGQUEUE, "MSGQUEUE", MSGQUEUE, true},
		{RLIMIT_SIGPENDING, "SIGPENDING", SIGPENDING, true},
		// with a cgroup its limit is met first, and counted
		{RLIMIT_NPROC, "NPROC", supervised ? l->pids : l->pids + NPROC_SLACK, l->pids},
	};
	for (size_t i = 0; i < countof(rows); i++)
		if (rows[i].on && lower(rows[i].what, rows[i].name, rows[i].want, e))
			return -1;
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "cell/seat.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "isolate/userns.h"
#include <fcntl.h>

// As root every daemon of the machine shares the numbers, because they all share the ids and the top of the groups.
static int open_numbers(const struct nursery *n, struct err *e)
{
	int fd = n->ids.root ? open("/run/skep.seats", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
	return fd >= 0 ? fd : fs_open(n->run_dir, "seats", O_RDWR | O_CREAT, 0600, e);
}

static bool try_lock(int fd, uint32_t number)
{
	struct flock lk = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};
	return !fcntl(fd, F_OFD_SETLK, &lk);
}

int seat_take(const struct nursery *n, struct seat *out, struct err *e)
{
	auto_fd int fd = open_numbers(n, e);
	if (fd < 0)
		return -1;
	for (uint32_t i = 0; i < USERNS_RANGES; i++)
		if (try_lock(fd, i)) {
			*out = (struct seat){take_fd(&fd), i};
			return 0;
		}
	return err_set(e, ERR_LIMIT, "every one of %u seats is taken", USERNS_RANGES);
}

int seat_group(const struct nursery *n, const struct seat *s, bool keep, struct cgroup *out, struct err *e)
{
	char name[16];
	struct cgroup_usage u;
	if (fmt_to(name, sizeof name, "c%u", s->n))
		return err_set(e, ERR_BUG, "seat name");
	if (cgroup_open(&n->cgroups, name, out, e))
		return -1;
	if (keep)
		return 0;
	return cgroup_usage(out, &u, e) || (u.pids && cgroup_kill(out, e)) ? -1 : 0; // left by a supervisor that was killed
}

static bool is_taken(const char *name, void *arg)
{
	const int *fd = arg;
	uint64_t number;
	if (name[0] != 'c' || str_to_u64(str_of(name + 1), 0, USERNS_RANGES - 1, &number))
		return true; // not a seat's
	return !try_lock(*fd, (uint32_t)number);
}

void seat_sweep(const struct nursery *n)
{
	struct err e;
	auto_fd int fd = open_numbers(n, &e);
	if (fd < 0) {
		log_line(LOG_WARN, "%s", e.msg);
		return;
	}
	cgroup_sweep(&n->cgroups, is_taken, &fd); // what was locked on the way is let go with fd
}

// SPDX-License-Identifier: Apache-2.0
#include "cell/seat.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "isolate/userns.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

// The lock is what counts. The byte under it is a hint, so that a thousand taken seats are not tried one by one; one that
// was left by a crash says taken until the next sweep.
#define TAKEN '1'

static bool sit(int *fd, uint32_t number, struct seat *out)
{
	char byte = TAKEN;
	if (!try_lock(*fd, number))
		return false;
	(void)!pwrite(*fd, &byte, 1, number);
	*out = (struct seat){take_fd(fd), number};
	return true;
}

#define HINTS 1024u // read at once: a supervisor's stack stays small
_Static_assert(USERNS_RANGES % HINTS == 0, "whole parts");

static bool sit_in(int *fd, uint32_t first, bool all, struct seat *out)
{
	char hints[HINTS] = {0};
	(void)!pread(*fd, hints, sizeof hints, first);
	for (uint32_t i = 0; i < HINTS; i++)
		if ((all || hints[i] != TAKEN) && sit(fd, first + i, out))
			return true;
	return false;
}

int seat_take(const struct nursery *n, struct seat *out, struct err *e)
{
	auto_fd int fd = open_numbers(n, e);
	if (fd < 0)
		return -1;
	for (int all = 0; all < 2; all++)
		for (uint32_t i = 0; i < USERNS_RANGES; i += HINTS)
			if (sit_in(&fd, i, all, out))
				return 0;
	return err_set(e, ERR_LIMIT, "every one of %u seats is taken", USERNS_RANGES);
}

void seat_leave(struct seat *s)
{
	char byte = 0;
	if (s->lock >= 0)
		(void)!pwrite(s->lock, &byte, 1, s->n);
	close_fd(&s->lock);
}

static void correct_hints(int fd)
{
	char hints[USERNS_RANGES] = {0}, byte = 0;
	(void)!pread(fd, hints, sizeof hints, 0);
	for (uint32_t i = 0; i < USERNS_RANGES; i++)
		if (hints[i] == TAKEN && try_lock(fd, i))
			(void)!pwrite(fd, &byte, 1, i);
}

// Below what a user was given, daemons of several homes have their groups side by side, each with numbers of its own.
static int group_prefix(const struct nursery *n, char out[48], struct err *e)
{
	struct stat st;
	if (fstat(n->run_dir, &st))
		return err_sys(e, "seats");
	if (n->ids.root ? fmt_to(out, 48, "c") : fmt_to(out, 48, "c%llx-%llx-", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino))
		return err_set(e, ERR_BUG, "seat name");
	return 0;
}

int seat_group(const struct nursery *n, const struct seat *s, bool keep, struct cgroup *out, struct err *e)
{
	char prefix[48], name[60];
	struct cgroup_usage u;
	if (group_prefix(n, prefix, e))
		return -1;
	if (fmt_to(name, sizeof name, "%s%u", prefix, s->n))
		return err_set(e, ERR_BUG, "seat name");
	if (cgroup_open(&n->cgroups, name, out, e))
		return -1;
	if (keep)
		return 0;
	return cgroup_usage(out, &u, e) || (u.pids && cgroup_kill(out, e)) ? -1 : 0; // left by a supervisor that was killed
}

struct sweep {
	int fd;
	char prefix[48];
};

static bool is_taken(const char *name, void *arg)
{
	const struct sweep *s = arg;
	uint64_t number;
	if (!str_has_prefix(name, s->prefix) || str_to_u64(str_of(name + strlen(s->prefix)), 0, USERNS_RANGES - 1, &number))
		return true; // not a seat of ours
	return !try_lock(s->fd, (uint32_t)number);
}

void seat_sweep(const struct nursery *n)
{
	struct err e;
	struct sweep s;
	auto_fd int fd = open_numbers(n, &e);
	if (fd < 0 || group_prefix(n, s.prefix, &e)) {
		log_line(LOG_WARN, "%s", e.msg);
		return;
	}
	correct_hints(fd);
	s.fd = fd;
	cgroup_sweep(&n->cgroups, is_taken, &s); // what was locked on the way is let go with fd
}

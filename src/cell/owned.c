// SPDX-License-Identifier: Apache-2.0
#include "cell/owned.h"

#include "base/mem.h"
#include "cell/cell_int.h"
#include "isolate/contain.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OVERLAY 0x794c7630
#define NOBODY 65534u // what the kernel shows for an id without a number
#define CAN_CHANGE (1ull << 1 | 1ull << 3) // DAC_OVERRIDE, FOWNER

enum link_rule {
	LINK_FOLLOW,
	LINK_ITSELF,
	LINK_AT_NOFOLLOW, // follow, but for a flag
	LINK_AT_FOLLOW,	  // itself, but for a flag
	LINK_OPEN,	  // as the flags of an open say
	LINK_OPEN_HOW,	  // which stand behind a pointer
};

static const struct owned_call {
	short nr;
	signed char dir, path, flags; // which argument; -1: it has none
	enum link_rule rule;
} owned_calls[] = {
#ifdef SYS_open
	{SYS_open, -1, 0, 1, LINK_OPEN},
	{SYS_creat, -1, 0, -1, LINK_FOLLOW},
	{SYS_chmod, -1, 0, -1, LINK_FOLLOW},
	{SYS_chown, -1, 0, -1, LINK_FOLLOW},
	{SYS_lchown, -1, 0, -1, LINK_ITSELF},
	{SYS_link, -1, 0, -1, LINK_ITSELF},
	{SYS_utime, -1, 0, -1, LINK_FOLLOW},
	{SYS_utimes, -1, 0, -1, LINK_FOLLOW},
	{SYS_futimesat, 0, 1, -1, LINK_FOLLOW},
#endif
	{SYS_openat, 0, 1, 2, LINK_OPEN},
	{SYS_openat2, 0, 1, 2, LINK_OPEN_HOW},
	{SYS_truncate, -1, 0, -1, LINK_FOLLOW},
	{SYS_fchmodat, 0, 1, -1, LINK_FOLLOW},
	{452 /* fchmodat2 */, 0, 1, 3, LINK_AT_NOFOLLOW},
	{SYS_fchownat, 0, 1, 4, LINK_AT_NOFOLLOW},
	{SYS_utimensat, 0, 1, 3, LINK_AT_NOFOLLOW},
	{SYS_linkat, 0, 1, 4, LINK_AT_FOLLOW},
	{SYS_setxattr, -1, 0, -1, LINK_FOLLOW},
	{SYS_lsetxattr, -1, 0, -1, LINK_ITSELF},
	{SYS_removexattr, -1, 0, -1, LINK_FOLLOW},
	{SYS_lremovexattr, -1, 0, -1, LINK_ITSELF},
	{463 /* setxattrat */, 0, 1, 2, LINK_AT_NOFOLLOW},
	{466 /* removexattrat */, 0, 1, 2, LINK_AT_NOFOLLOW},
};

bool owned_in(const struct cell *c)
{
	return contain_owns(&c->nursery->ids, &c->spec);
}

static const struct owned_call *owned_call_of(int nr)
{
	for (size_t i = 0; i < countof(owned_calls); i++)
		if (owned_calls[i].nr == nr)
			return &owned_calls[i];
	return NULL;
}

// False: an open that changes nothing that is there.
static bool owned_open_follows(uint64_t flags, bool *follow)
{
	bool writes = flags & (O_WRONLY | O_RDWR | O_TRUNC), made = (flags & O_CREAT) && (flags & O_EXCL);
	*follow = !(flags & O_NOFOLLOW);
	return writes && !made && !(flags & O_PATH);
}

static bool owned_follows(const struct owned_call *k, const struct seccomp_event *ev, bool *follow)
{
	uint64_t flags = k->flags >= 0 ? ev->args[k->flags] : 0;
	switch (k->rule) {
	case LINK_FOLLOW:
	case LINK_ITSELF:
		*follow = k->rule == LINK_FOLLOW;
		return true;
	case LINK_AT_NOFOLLOW:
		*follow = !(flags & AT_SYMLINK_NOFOLLOW);
		return true;
	case LINK_AT_FOLLOW:
		*follow = flags & AT_SYMLINK_FOLLOW;
		return true;
	case LINK_OPEN:
		return owned_open_follows(flags, follow);
	case LINK_OPEN_HOW:
		return !seccomp_read_u64(ev, k->flags, &flags) && owned_open_follows(flags, follow);
	}
	return false;
}

static bool owned_has_number(const struct cell *c, uint32_t id)
{
	return id != NOBODY && !userns_inside(&c->nursery->ids, c->first_id, &id);
}

bool owned_is_foreign(const struct cell *c, int fd, const struct stat *st)
{
	struct statfs fs;
	bool is_file = S_ISREG(st->st_mode) || S_ISLNK(st->st_mode);
	return is_file && !(owned_has_number(c, st->st_uid) && owned_has_number(c, st->st_gid)) && !fstatfs(fd, &fs) && fs.f_type == OVERLAY;
}

bool owned_may(const struct rights *r)
{
	return !r->uid && (r->caps & CAN_CHANGE) == CAN_CHANGE;
}

int owned_find(const struct cell *c, const struct seccomp_event *ev, struct look *l, bool *follow)
{
	const struct owned_call *k = owned_call_of(ev->nr);
	struct stat st;
	*l = LOOK_NONE;
	if (!k || !owned_follows(k, ev, follow) || look_open(ev, k->dir, k->path, l))
		return -1;
	auto_fd int fd = *follow ? look_target(l, &st) : look_file(l, &st);
	return fd >= 0 && owned_is_foreign(c, fd, &st) ? take_fd(&fd) : -1;
}

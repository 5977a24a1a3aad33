// SPDX-License-Identifier: Apache-2.0
// What a new directory must have of the old one to look like it, files with several names, and whose rights it is done with.
#include "base/mem.h"
#include "base/str.h"
#include "init/movable.h"
#include "init/movable_int.h"
#include "init/owned.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NAMES_MAX (64u << 10)
#define VALUE_MAX (64u << 10)
#define LINKS_MAX 100000u

// --- files ---

// Marked as ours: the supervisor, which waits for this helper, is not asked about it.
static int link_entry(int from, const char *name, int to, const char *new)
{
	return (int)syscall(SYS_linkat, from, name, to, new, 0, (long)MOVE_PASS);
}

static void keeper_name(size_t i, char out[64])
{
	if (fmt_to(out, 64, SCRATCH "-%zu", i))
		out[0] = 0;
}

static bool is_same(const struct stat *a, const struct link *b)
{
	return a->st_dev == b->dev && a->st_ino == b->ino;
}

// Another name of a file that was copied up under its first: it shall be that file again. Swapped, so that one which
// somebody put there meanwhile is seen, and goes back.
static int join(struct mover *m, int dir, const char *name, const struct stat *before, size_t i)
{
	struct stat st;
	char keeper[64];
	keeper_name(i, keeper);
	unlinkat(m->top, SCRATCH, 0);
	if (link_entry(m->top, keeper, m->top, SCRATCH) || move_entry(m->top, SCRATCH, dir, name, 2 /* RENAME_EXCHANGE */))
		return -1;
	if (fstatat(m->top, SCRATCH, &st, AT_SYMLINK_NOFOLLOW))
		return -1;
	// Copied up for the exchange it has another number, but the content and times that it had.
	if (st.st_size == before->st_size && st.st_mtim.tv_sec == before->st_mtim.tv_sec &&
	    st.st_mtim.tv_nsec == before->st_mtim.tv_nsec)
		return unlinkat(m->top, SCRATCH, 0);
	return move_entry(m->top, SCRATCH, dir, name, 2) ? -1 : unlinkat(m->top, SCRATCH, 0);
}

static int keep(struct mover *m, const struct stat *before)
{
	struct stat st;
	char keeper[64];
	keeper_name(m->n_links, keeper);
	unlinkat(m->top, keeper, 0);
	if (fstatat(m->top, SCRATCH, &st, AT_SYMLINK_NOFOLLOW))
		return -1;
	if (st.st_ino == before->st_ino && st.st_dev == before->st_dev) // of the writable layer: its names move as they are
		return unlinkat(m->top, SCRATCH, 0);
	if (move_entry(m->top, SCRATCH, m->top, keeper, 0))
		return -1;
	if (!(m->n_links & (m->n_links - 1)))
		m->links = xrealloc(m->links, (m->n_links ? m->n_links * 2 : 1) * sizeof *m->links);
	m->links[m->n_links++] = (struct link){before->st_dev, before->st_ino};
	return 0;
}

// A second name makes the kernel copy a file up, and changes nothing of it. One that may not have one (somebody else's)
// is copied up when it is moved.
int move_copy_up(struct mover *m, int dir, const char *name)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -1;
	bool several = st.st_nlink > 1 && m->n_links < LINKS_MAX;
	for (size_t i = 0; several && i < m->n_links; i++)
		if (is_same(&st, &m->links[i]))
			return join(m, dir, name, &st, i);
	unlinkat(m->top, SCRATCH, 0);
	if (link_entry(dir, name, m->top, SCRATCH)) {
		if (errno == EOVERFLOW) // of somebody whom we have no number for
			return owned_make(dir, name, false);
		return errno == ENOENT || errno == EPERM || errno == EMLINK ? 0 : -1;
	}
	return several ? keep(m, &st) : unlinkat(m->top, SCRATCH, 0);
}

void move_forget_links(struct mover *m)
{
	char keeper[64];
	for (size_t i = 0; i < m->n_links; i++) {
		keeper_name(i, keeper);
		unlinkat(m->top, keeper, 0);
	}
	unlinkat(m->top, SCRATCH, 0);
	free(m->links);
	m->links = NULL;
	m->n_links = 0;
}

// --- directories ---

static bool is_ours(const char *name)
{
	return str_has_prefix(name, "user.") || str_has_prefix(name, "system.posix_acl_");
}

static bool has(const char *list, size_t n, const char *name)
{
	for (size_t at = 0; at < n; at += strlen(list + at) + 1)
		if (!strcmp(list + at, name))
			return true;
	return false;
}

static int copy_attribute(int from, int to, const char *name)
{
	static char value[VALUE_MAX];
	ssize_t n = fgetxattr(from, name, value, sizeof value);
	return n < 0 || fsetxattr(to, name, value, (size_t)n, 0) ? -1 : 0;
}

int move_copy_attributes(int from, int to)
{
	static char want[NAMES_MAX], have[NAMES_MAX];
	ssize_t n = flistxattr(from, want, sizeof want), k = flistxattr(to, have, sizeof have);
	if (n < 0 || k < 0)
		return errno == EOPNOTSUPP ? 0 : -1;
	for (const char *p = have; p < have + k; p += strlen(p) + 1) // inherited
		if (is_ours(p) && !has(want, (size_t)n, p) && fremovexattr(to, p))
			return -1;
	for (const char *p = want; p < want + n; p += strlen(p) + 1)
		if (is_ours(p) && copy_attribute(from, to, p))
			return -1;
	return 0;
}

int move_look_alike(const struct level *l)
{
	struct stat st;
	const struct timespec times[2] = {l->st.st_atim, l->st.st_mtim};
	if (fstat(l->hidden_fd, &st))
		return -1;
	if ((st.st_uid != l->st.st_uid || st.st_gid != l->st.st_gid) && fchown(l->hidden_fd, l->st.st_uid, l->st.st_gid))
		return -1;
	// The mode last: an access list has a part in it.
	if (move_copy_attributes(l->fd, l->hidden_fd) || fchmod(l->hidden_fd, l->st.st_mode & 07777) || futimens(l->hidden_fd, times))
		return -1;
	return 0;
}

int move_unlock(struct level *l)
{
	if ((l->st.st_mode & 0300) == 0300 || l->st.st_uid != geteuid())
		return 0;
	l->unlocked = true;
	return fchmod(l->fd, (l->st.st_mode & 07777) | 0700);
}

void move_restore(const struct level *l)
{
	const struct timespec times[2] = {l->st.st_atim, l->st.st_mtim};
	if (l->unlocked)
		(void)!fchmod(l->fd, l->st.st_mode & 07777);
	futimens(l->fd, times);
}

// --- whose rights ---

int movable_become(const struct rights *r)
{
	gid_t groups[RIGHTS_GROUPS];
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {{0}};
	for (uint32_t i = 0; i < r->n_groups; i++)
		groups[i] = r->groups[i];
	if (setgroups(r->n_groups, groups) || setresgid(r->gid, r->gid, r->gid) || setresuid(r->uid, r->uid, r->uid) ||
	    syscall(SYS_capget, &h, d))
		return -1;
	for (int i = 0; i < 2; i++) {
		d[i].permitted &= (uint32_t)(r->caps >> 32 * i);
		d[i].effective = d[i].permitted;
		d[i].inheritable = 0;
	}
	return (int)syscall(SYS_capset, &h, d);
}

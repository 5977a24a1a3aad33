// SPDX-License-Identifier: Apache-2.0
#include "workspace/review_swap.h"

#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The one answer of file systems that do not know the flag; any other failure is one.
static bool is_unknown_flag(void)
{
	return errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
}

static char *spare_of(const char *temp)
{
	return xasprintf("%s~", temp);
}

static bool exists(int dir, const char *name)
{
	struct stat st;
	return !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW);
}

static int link_name(int from_dir, const char *from, int dir, const char *to)
{
	if (!linkat(from_dir, from, dir, to, 0))
		return 0;
	if (errno == EPERM || errno == EINVAL || errno == ENOSYS)
		errno = EOPNOTSUPP;
	return -1;
}

bool swap_is_half(int a_dir, const char *a, int b_dir, const char *b)
{
	struct stat x, y;
	return !fstatat(a_dir, a, &x, AT_SYMLINK_NOFOLLOW) && !fstatat(b_dir, b, &y, AT_SYMLINK_NOFOLLOW) &&
	       x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

int swap_settle(int temp_dir, const char *temp)
{
	auto_free char *spare = spare_of(temp);
	if (!exists(temp_dir, spare))
		return 0;
	// With temp still there the name was not taken yet, and the spare is only a second link to what it has.
	return exists(temp_dir, temp) ? unlinkat(temp_dir, spare, 0) : renameat(temp_dir, spare, temp_dir, temp);
}

int swap_exchange(int temp_dir, const char *temp, int dir, const char *name)
{
	if (!renameat2(temp_dir, temp, dir, name, RENAME_EXCHANGE))
		return 0;
	if (!is_unknown_flag())
		return -1;
	auto_free char *spare = spare_of(temp);
	if (swap_settle(temp_dir, temp) || link_name(dir, name, temp_dir, spare))
		return -1;
	// The link is to what was there a moment ago; the caller looks at it under the temporary name.
	if (renameat(temp_dir, temp, dir, name)) {
		int keep = errno;
		unlinkat(temp_dir, spare, 0);
		errno = keep;
		return -1;
	}
	return renameat(temp_dir, spare, temp_dir, temp);
}

int swap_move(int from_dir, const char *from, int dir, const char *to)
{
	if (!renameat2(from_dir, from, dir, to, RENAME_NOREPLACE))
		return 0;
	if (!is_unknown_flag())
		return -1;
	if (link_name(from_dir, from, dir, to) && (errno != EEXIST || !swap_is_half(from_dir, from, dir, to)))
		return -1;
	return unlinkat(from_dir, from, 0);
}

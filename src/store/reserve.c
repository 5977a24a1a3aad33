// SPDX-License-Identifier: Apache-2.0
#include "store/reserve.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define RESERVE (4 << 20)
#define LITTLE (2u << 20)   // less free space than this is a full disk
#define PLENTY (32u << 20)  // with so much the reserve hurts nobody

void reserve_settle(const char *home)
{
	struct err e;
	struct statvfs v;
	struct stat st;
	auto_free char *path = xasprintf("%s/reserve", home);
	auto_fd int fd = fs_open(AT_FDCWD, path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600, &e);
	if (fd < 0 || fstatvfs(fd, &v) || fstat(fd, &st))
		return; // whoever needs the place says what is wrong
	uint64_t free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
	if (free_bytes < LITTLE && st.st_blocks) {
		if (!ftruncate(fd, 0))
			log_line(LOG_WARN, "the disk of %s is full: its reserve was given up, so that skep rm and skep gc can free some", home);
	} else if (free_bytes > PLENTY && st.st_blocks * 512 < RESERVE) {
		if ((errno = posix_fallocate(fd, 0, RESERVE)))
			log_line(LOG_INFO, "no reserve for a full disk");
	}
}

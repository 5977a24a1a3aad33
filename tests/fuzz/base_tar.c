// SPDX-License-Identifier: Apache-2.0
// Archives, also compressed ones: whatever comes, nothing is made beside the target, and nobody crashes.
#include "base/fs.h"
#include "base/tar.h"
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static int entries(int dir)
{
	int k = 0, fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fdopendir(fd);
	while (readdir(d))
		k++;
	closedir(d);
	return k;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static char top[] = "/dev/shm/skep-fuzz-tar-XXXXXX";
	static int dir = -1;
	struct err e;
	if (dir < 0)
		dir = open(mkdtemp(top), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || mkdirat(dir, "t", 0700))
		abort();
	int target = openat(dir, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC), in = memfd_create("in", MFD_CLOEXEC);
	if (target < 0 || in < 0 || write(in, p, n) != (ssize_t)n || lseek(in, 0, SEEK_SET))
		abort();
	if (tar_read(in, target, &e))
		assert(e.msg[0]);
	close(in);
	close(target);
	assert(entries(dir) == 3); // with . and ..
	if (fs_remove_tree(dir, "t", &e))
		abort();
	return 0;
}

__attribute__((destructor)) static void tidy(void)
{
	DIR *d = opendir("/dev/shm");
	for (struct dirent *ent; d && (ent = readdir(d));)
		if (!__builtin_strncmp(ent->d_name, "skep-fuzz-tar-", 14))
			unlinkat(dirfd(d), ent->d_name, AT_REMOVEDIR);
	if (d)
		closedir(d);
}

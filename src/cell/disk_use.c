// SPDX-License-Identifier: Apache-2.0
#include "cell/disk_use.h"

#include "cell/unnamed.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static void add_tree(int dir, const char *name, struct disk_use *u, int depth)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return;
	u->bytes += (uint64_t)st.st_blocks * 512;
	u->files++;
	if (!S_ISDIR(st.st_mode))
		return;
	int fd = depth > DISK_DEPTH ? -1 : openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	u->too_deep |= !d && (depth > DISK_DEPTH || errno == EMFILE || errno == ENFILE);
	while (d && (ent = readdir(d)))
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, ".."))
			add_tree(fd, ent->d_name, u, depth + 1);
	if (d)
		closedir(d);
}

void disk_use_count(const char *layer, pid_t init, struct disk_use *out)
{
	struct rlimit r;
	struct unnamed u;
	*out = (struct disk_use){0};
	if (!getrlimit(RLIMIT_NOFILE, &r) && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r); // one for each level; without, what is deeper counts as too deep
	}
	add_tree(AT_FDCWD, layer, out, 0);
	unnamed_count(init, &u);
	out->bytes += u.disk;
	out->files += u.disk_files;
}

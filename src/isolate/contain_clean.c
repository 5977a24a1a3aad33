// SPDX-License-Identifier: Apache-2.0
// A mold between two cells. The scratch space is cleaned: /tmp, /run and /dev/shm as if nobody had been there. Network and
// overlays are checked and refreshed.
#include "isolate/contain.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

// A directory of the scratch space with what a cell left in it. Rootless it is the cell's own: its mode, lists of rights,
// attributes and times would be a message to the next one, or a /tmp that the next one can not use.
static bool looks_new(int fd, mode_t mode)
{
	char names[1024];
	struct stat st;
	ssize_t n = flistxattr(fd, names, sizeof names);
	if (fstat(fd, &st) || (st.st_mode & 07777) != mode || (n < 0 && errno != ENOTSUP))
		return false;
	for (const char *name = names; n > 0 && name < names + n; name += strlen(name) + 1)
		if (!str_has_prefix(name, "security.")) // the system's own labels
			return false;
	return !futimens(fd, NULL);
}

// All but `kept`, which may be NULL.
static int empty_dir(int at, const char *name, mode_t mode, struct str kept, struct err *e)
{
	int rc = 0, fd = fs_open(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	if (!d)
		return -1;
	while (!rc && (ent = readdir(d)))
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, "..") && !str_is(kept, ent->d_name))
			rc = fs_remove_tree(fd, ent->d_name, e);
	if (!rc && !looks_new(fd, mode))
		rc = err_set(e, ERR_CONFLICT, "%s is not what it was", name);
	closedir(d);
	return rc;
}

// Seen from the tmpfs itself nothing is mounted in it: a workspace below /tmp is an empty directory here, and stays.
int contain_clean(const struct contain *c, struct err *e)
{
	static const struct {
		const char *name, *path;
		mode_t mode;
	} dirs[] = {{"tmp", "/tmp/", 01777}, {"run", "/run/", 0755}, {"run/lock", "/run/lock/", 01777}, {"shm", "/dev/shm/", 01777}};
	for (size_t i = 0; i < countof(dirs); i++) {
		bool below = str_has_prefix(c->place->ws_path, dirs[i].path), run = !strcmp(dirs[i].name, "run");
		const char *kept = below ? c->place->ws_path + strlen(dirs[i].path) : run ? "lock" : "";
		if (run && below && strcmp(kept, "lock") && !str_has_prefix(kept, "lock/"))
			return err_set(e, ERR_UNSUPPORTED, "a workspace in /run"); // two names to keep there: not worth it
		if (empty_dir(c->scratch, dirs[i].name, dirs[i].mode, (struct str){kept, strcspn(kept, "/")}, e))
			return -1;
	}
	return 0;
}

// Only names without links in them: the cell may own directories above a workspace in /tmp.
int contain_fit(const struct contain *c, struct err *e)
{
	auto_fd int root = fs_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0, e);
	if (root < 0)
		return -1;
	if (!net_state_same(&c->state))
		return err_set(e, ERR_CONFLICT, "the network is not what it was");
	if (mount_refresh(root, c->place->ws_path + 1, e) || mount_refresh(root, "home/skep", e))
		return -1;
	for (uint32_t i = 0; i < c->place->n_mounts; i++)
		if (*c->place->mounts[i].src && mount_refresh(root, c->place->mounts[i].dst + 1, e))
			return -1;
	return 0;
}

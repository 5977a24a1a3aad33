// SPDX-License-Identifier: Apache-2.0
#include "cli/place.h"

#include "base/fs.h"
#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY)

// Splits a path that is not there yet (or is no directory) into its directory and last name.
static int open_parent(struct place *p, const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	auto_free char *dir = !slash	      ? xstrdup(".")
			      : slash == path ? xstrdup("/")
					      : xstrndup(path, (size_t)(slash - path));
	const char *last = slash ? slash + 1 : path;
	if (!*last || !strcmp(last, ".") || !strcmp(last, ".."))
		return err_set(e, ERR_INVALID, "%s is no name for a copy", path);
	p->goes_as = xstrdup(last);
	p->dir = fs_open(AT_FDCWD, dir, DIR_FLAGS, 0, e);
	return p->dir < 0 ? -1 : 0;
}

int place_open(struct place *p, const char *path, bool must_be_dir, const char *name, struct err *e)
{
	*p = (struct place){.dir = -1, .temp = -1, .made_as = xstrdup(name)};
	p->dir = open(path, DIR_FLAGS | O_CLOEXEC);
	int rc = 0;
	if (p->dir >= 0)
		p->goes_as = xstrdup(name);
	else if (must_be_dir || (errno != ENOENT && errno != ENOTDIR))
		rc = err_sys(e, "%s", path);
	else
		rc = open_parent(p, path, e);
	auto_free char *temp = xasprintf(".skep-cp-%d", (int)getpid());
	if (!rc && mkdirat(p->dir, temp, 0700))
		rc = err_sys(e, "make a directory beside %s", path);
	if (!rc) {
		p->temp_name = take(&temp);
		p->temp = fs_open_beneath(p->dir, p->temp_name, DIR_FLAGS, 0, e);
		rc = p->temp < 0 ? -1 : 0;
	}
	if (rc)
		place_close(p);
	return rc;
}

static int move(int from, const char *name, int to, const char *as, struct err *e);

static int merge_entries(DIR *d, int to, struct err *e)
{
	struct dirent *ent;
	while ((errno = 0, ent = readdir(d)))
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, "..") &&
		    move(dirfd(d), ent->d_name, to, ent->d_name, e))
			return -1;
	return errno ? err_sys(e, "list") : 0;
}

static int merge(int from, const char *name, int to, const char *as, struct err *e)
{
	int src = fs_open_beneath(from, name, DIR_FLAGS, 0, e);
	if (src < 0)
		return -1;
	DIR *d = fdopendir(src);
	if (!d) {
		close(src);
		return err_sys(e, "list %s", name);
	}
	auto_fd int dst = fs_open_beneath(to, as, DIR_FLAGS, 0, e);
	int rc = dst < 0 ? -1 : merge_entries(d, dst, e);
	closedir(d);
	return rc;
}

// A directory changes its parent only when we may write to it: a read-only one is opened up for the move.
static int move(int from, const char *name, int to, const char *as, struct err *e)
{
	struct stat st;
	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW))
		return err_sys(e, "%s", name);
	bool shut = S_ISDIR(st.st_mode) && !(st.st_mode & S_IWUSR);
	if (shut && fchmodat(from, name, 0700, 0))
		return err_sys(e, "%s", name);
	if (renameat(from, name, to, as)) {
		if (errno != ENOTEMPTY && errno != EEXIST)
			return err_sys(e, "put %s in place", as);
		return merge(from, name, to, as, e);
	}
	return shut && fchmodat(to, as, st.st_mode & 0777, 0) ? err_sys(e, "%s", as) : 0;
}

static int mask_tree(int dir, const char *name, mode_t mask, struct err *e);

static int mask_entries(int fd, mode_t mask, struct err *e)
{
	DIR *d = fdopendir(fd);
	struct dirent *ent;
	int rc = 0;
	if (!d) {
		close(fd);
		return err_sys(e, "list");
	}
	while (!rc && (errno = 0, ent = readdir(d)))
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, ".."))
			rc = mask_tree(dirfd(d), ent->d_name, mask, e);
	if (!rc && errno)
		rc = err_sys(e, "list");
	closedir(d);
	return rc;
}

// Nobody but us can reach the tree yet, so a name stays what it was found to be.
static int mask_tree(int dir, const char *name, mode_t mask, struct err *e)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return err_sys(e, "%s", name);
	if (S_ISDIR(st.st_mode)) {
		if (fchmodat(dir, name, 0700, 0)) // one that even we may not list is passed through too
			return err_sys(e, "%s", name);
		int fd = fs_open_beneath(dir, name, DIR_FLAGS, 0, e);
		if (fd < 0 || mask_entries(fd, mask, e))
			return -1;
	} else if (!S_ISREG(st.st_mode) || !(st.st_mode & mask)) {
		return 0;
	}
	return fchmodat(dir, name, st.st_mode & 0777 & ~mask, 0) ? err_sys(e, "%s", name) : 0;
}

int place_move(struct place *p, mode_t mask, struct err *e)
{
	if (mask_tree(p->temp, p->made_as, mask, e))
		return -1;
	return move(p->temp, p->made_as, p->dir, p->goes_as, e);
}

void place_close(struct place *p)
{
	struct err ignored;
	close_fd(&p->temp);
	int left = p->temp_name ? fs_remove_tree(p->dir, p->temp_name, &ignored) : 0;
	(void)left; // what can not be removed has a telling name
	close_fd(&p->dir);
	free(p->temp_name);
	free(p->made_as);
	free(p->goes_as);
}

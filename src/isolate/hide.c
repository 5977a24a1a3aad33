// SPDX-License-Identifier: Apache-2.0
// Every step goes through directory descriptors without following a link: the base may be hostile and may change.
#include "isolate/hide.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/glob.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define DEPTH_MAX 200

struct hider {
	int base, into;
	char *const *globs;
	struct buf path;
	uint32_t looked, hidden;
};

static int open_dir(int at, const char *name)
{
	return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// A directory of the layer is the upper one of those the cell sees merged: it has to look like the base's own. 1 = there
// is nothing to hide below it: it is hidden itself, or is no directory.
static int like_base(int into, const char *name, int base, int *out, struct err *e)
{
	struct stat st;
	if (fstat(base, &st))
		return err_sys(e, "hide %s", name);
	if (mkdirat(into, name, 0700) && errno != EEXIST)
		return err_sys(e, "hide %s", name);
	int fd = open_dir(into, name);
	if (fd < 0)
		return errno == ENOTDIR ? 1 : err_sys(e, "hide %s", name);
	// An owner that has no name in the cell can not be given to it; then what is below stays the base's all the same.
	if (fchown(fd, st.st_uid, st.st_gid) && errno != EINVAL && errno != EPERM) {
		close(fd);
		return err_sys(e, "hide %s", name);
	}
	struct timespec times[2] = {st.st_atim, st.st_mtim};
	int rc = fchmod(fd, st.st_mode & 07777) || futimens(fd, times) ? err_sys(e, "hide %s", name) : 0;
	*out = fd;
	return rc;
}

static int whiteout(struct hider *h, int at, const char *name, struct err *e)
{
	if (++h->hidden > HIDE_NAMES)
		return err_set(e, ERR_LIMIT, "hide: more than %d paths of the project fit: name the directories they are in", HIDE_NAMES);
	if (!mknodat(at, name, S_IFCHR, makedev(0, 0)))
		return 0;
	struct stat st;
	if (errno != EEXIST || fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW))
		return err_sys(e, "hide %s", name);
	if (!S_ISDIR(st.st_mode))
		return 0; // another glob named it, too
	return fs_remove_tree(at, name, e) || mknodat(at, name, S_IFCHR, makedev(0, 0)) ? err_sys(e, "hide %s", name) : 0;
}

static int hide(struct hider *h, const char *path, struct err *e)
{
	struct str rest = str_of(path), part;
	auto_fd int base = open_dir(h->base, "."), into = open_dir(h->into, ".");
	while (base >= 0 && into >= 0 && str_next(&rest, '/', &part)) {
		auto_free char *name = xstrndup(part.p, part.n);
		if (!rest.p)
			return whiteout(h, into, name, e);
		auto_fd int below = open_dir(base, name);
		if (below < 0) // absent, or a link: what that leads to is hidden by its own name
			return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : err_sys(e, "hide %s", path);
		int next = -1, rc = like_base(into, name, below, &next, e);
		close_fd(&into);
		into = next;
		if (rc)
			return rc < 0 ? -1 : 0;
		close_fd(&base);
		base = take_fd(&below);
	}
	return err_sys(e, "hide %s", path);
}

static enum glob_fit best_fit(const struct hider *h, const char *path)
{
	enum glob_fit best = GLOB_NO;
	for (char *const *g = h->globs; *g; g++)
		if (!glob_is_literal(*g)) {
			enum glob_fit fit = glob_fit(*g, path);
			best = fit > best ? fit : best;
		}
	return best;
}

static int walk(struct hider *h, int dir, int depth, struct err *e);

static int look_at(struct hider *h, int dir, const char *name, int depth, struct err *e)
{
	size_t len = h->path.n;
	buf_fmt(&h->path, "%s%s", len ? "/" : "", name);
	enum glob_fit fit = h->path.overflow ? GLOB_NO : best_fit(h, buf_cstr(&h->path));
	auto_fd int below = fit == GLOB_ABOVE ? open_dir(dir, name) : -1;
	int rc = 0;
	if (h->path.overflow || depth > DEPTH_MAX)
		rc = err_set(e, ERR_LIMIT, "hide: the project's directories are too deep to be looked through");
	else if (fit == GLOB_FITS)
		rc = hide(h, buf_cstr(&h->path), e);
	else if (below >= 0)
		rc = walk(h, below, depth + 1, e);
	else if (fit == GLOB_ABOVE && errno != ENOTDIR && errno != ELOOP && errno != ENOENT && errno != EACCES)
		rc = err_sys(e, "hide: %s", buf_cstr(&h->path)); // what we may not open the cell may not either
	h->path.n = len;
	if (h->path.p)
		h->path.p[len] = 0;
	return rc;
}

static int walk(struct hider *h, int dir, int depth, struct err *e)
{
	int fd = open_dir(dir, "."), rc = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	if (!d)
		return err_sys(e, "hide: list %s", buf_cstr(&h->path));
	while (!rc && (ent = readdir(d))) {
		const char *name = ent->d_name;
		if (!strcmp(name, ".") || !strcmp(name, "..") || (!depth && !strcmp(name, ".git")))
			continue;
		if (++h->looked > HIDE_LOOKED)
			rc = err_set(e, ERR_LIMIT, "hide: the project has too many files to look through: name directories instead of **");
		else
			rc = look_at(h, dir, name, depth, e);
	}
	closedir(d);
	return rc;
}

int hide_build(int base, int into, char *const *globs, struct err *e)
{
	struct hider h = {.base = base, .into = into, .globs = globs, .path = BUF_INIT(4096)};
	bool wild = false;
	int rc = 0;
	for (char *const *g = globs; *g && !rc; g++)
		if (!glob_is_valid(*g))
			rc = err_set(e, ERR_INVALID, "hide: \"%.100s\" is not a path below the project", *g);
		else if (glob_is_literal(*g))
			rc = hide(&h, *g, e);
		else
			wild = true;
	if (wild && !rc)
		rc = walk(&h, base, 0, e);
	buf_done(&h.path);
	return rc;
}

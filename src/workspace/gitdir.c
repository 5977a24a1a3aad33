// SPDX-License-Identifier: Apache-2.0
#include "workspace/gitdir.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const gitdir_own_files[] = {
	"HEAD",
	"index",
	"config.worktree",
	"ORIG_HEAD",
	"MERGE_HEAD",
	"MERGE_MSG",
	"MERGE_MODE",
	"MERGE_RR",
	"AUTO_MERGE",
	"CHERRY_PICK_HEAD",
	"REVERT_HEAD",
	"REBASE_HEAD",
	"SQUASH_MSG",
	"BISECT_LOG",
	"BISECT_NAMES",
	"BISECT_TERMS",
	"BISECT_START",
	"BISECT_EXPECTED_REV",
	"BISECT_ANCESTORS_OK",
	"BISECT_FIRST_PARENT",
	"logs/HEAD",
	"info/sparse-checkout",
	NULL,
};
const char *const gitdir_own_dirs[] = {"rebase-merge", "rebase-apply", "sequencer", NULL};
const char *const gitdir_shared_files[] = {
	"config",	   "packed-refs", "shallow",	     "objects/info/alternates", "info/exclude",
	"info/attributes", "info/grafts", "logs/refs/stash", "reftable/tables.list",	NULL,
};

void gitdir_init(struct gitdir *g)
{
	*g = (struct gitdir){.base_fd = -1, .dir_fd = -1, .common_fd = -1};
}

void gitdir_close(struct gitdir *g)
{
	free(g->base);
	free(g->dir);
	free(g->common);
	close_fd(&g->base_fd);
	close_fd(&g->dir_fd);
	close_fd(&g->common_fd);
	gitdir_init(g);
}

int gitdir_read(int dirfd, const char *name, struct buf *out, struct err *e)
{
	struct stat st;
	// non-blocking: a FIFO must not hang us before we know that it is one
	auto_fd int fd = fs_open_beneath(dirfd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, e);
	if (fd < 0)
		return e->sys == ENOENT || e->sys == ENOTDIR ? 0 : -1;
	if (fstat(fd, &st))
		return err_sys(e, "%s", name);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "%s is not a regular file", name);
	return fs_read_fd(fd, out, e) ? err_wrap(e, "%s", name) : 1;
}

char *gitdir_resolve(const char *dir, const char *path)
{
	auto_free char *full = path[0] == '/' ? xstrdup(path) : xasprintf("%s/%s", dir, path);
	return realpath(full, NULL);
}

// One line of text, without its end. Empty when there is more than one or none.
static const char *one_line(struct buf *b)
{
	while (b->n && (b->p[b->n - 1] == '\n' || b->p[b->n - 1] == '\r'))
		b->p[--b->n] = 0;
	const char *s = buf_cstr(b);
	return strlen(s) == b->n && !strchr(s, '\n') ? s : "";
}

// 1 read into *out (owned, never empty), 0 absent or not one line, -1.
static int read_line(int dirfd, const char *name, char **out, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(8 << 10);
	int rc = gitdir_read(dirfd, name, &b, e);
	if (rc <= 0)
		return rc;
	const char *s = one_line(&b);
	if (!*s)
		return 0;
	*out = xstrdup(s);
	return 1;
}

static bool same_dir(const char *path, int fd)
{
	struct stat a, b;
	return !stat(path, &a) && !fstat(fd, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// The value of one config line, as far as a path in it goes: quotes and backslashes taken away.
static char *config_value(const char *p, const char *end)
{
	auto_buf struct buf b = BUF_INIT(8 << 10);
	bool quoted = false;
	size_t whole = 0; // spaces count only before something else
	for (; p < end; p++) {
		if (*p == '"') {
			quoted = !quoted;
			continue;
		}
		if (!quoted && (*p == '#' || *p == ';'))
			break;
		if (*p == '\\' && p + 1 < end)
			p++;
		buf_byte(&b, *p);
		if (quoted || !strchr(" \t\r", *p))
			whole = b.n;
	}
	if (b.p)
		b.p[b.n = whole] = 0;
	return b.overflow ? NULL : buf_take(&b);
}

char *gitdir_worktree(const char *config)
{
	struct str rest = str_of(config), line;
	bool core = false;
	char *found = NULL;
	while (str_next(&rest, '\n', &line)) {
		const char *p = line.p, *end = line.p + line.n;
		while (p < end && (*p == ' ' || *p == '\t'))
			p++;
		if (p < end && *p == '[') {
			core = end - p >= 6 && !strncasecmp(p, "[core]", 6);
			p += core ? 6 : end - p;
			while (p < end && (*p == ' ' || *p == '\t'))
				p++;
		}
		if (!core || end - p < 9 || strncasecmp(p, "worktree", 8))
			continue;
		for (p += 8; p < end && (*p == ' ' || *p == '\t'); p++)
			;
		if (p == end || *p++ != '=')
			continue;
		while (p < end && (*p == ' ' || *p == '\t'))
			p++;
		free(found); // the last one counts
		found = config_value(p, end);
	}
	return found;
}

static int refuse(struct err *e, const char *base, const char *why)
{
	return err_set(e, ERR_INVALID, "%s/.git is not followed: %s", base, why);
}

// dir is COMMON/worktrees/NAME, and what lies there names our work tree: only who may write COMMON can say so.
static int follow_linked(struct gitdir *g, const char *commondir, struct err *e)
{
	auto_free char *back = NULL;
	g->common = gitdir_resolve(g->dir, commondir);
	if (!g->common)
		return refuse(e, g->base, "the repository of this worktree is gone");
	size_t n = strlen(g->common);
	const char *rest = g->dir + n;
	if (strncmp(g->dir, g->common, n) || !str_has_prefix(rest, "/worktrees/") || strchr(rest + 11, '/'))
		return refuse(e, g->base, "it names a repository that does not know this worktree");
	int rc = read_line(g->dir_fd, "gitdir", &back, e);
	if (rc < 0)
		return -1;
	char *slash = rc ? strrchr(back, '/') : NULL;
	if (!slash || strcmp(slash, "/.git"))
		return refuse(e, g->base, "the repository it names does not point back here");
	*slash = 0;
	auto_free char *tree = gitdir_resolve(g->dir, back);
	if (!tree || !same_dir(tree, g->base_fd))
		return refuse(e, g->base,
			      "the repository it names does not point back here (git worktree repair mends that)");
	g->linked = true;
	g->common_fd = fs_open(AT_FDCWD, g->common, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	return g->common_fd < 0 ? -1 : 0;
}

// A submodule's git directory names its work tree in core.worktree.
static int follow_worktree(struct gitdir *g, struct err *e)
{
	static const char *const files[] = {"config.worktree", "config"};
	for (size_t i = 0; i < countof(files); i++) {
		auto_buf struct buf b = BUF_INIT(GITDIR_CONFIG);
		int rc = gitdir_read(g->dir_fd, files[i], &b, e);
		if (rc < 0)
			return -1;
		auto_free char *named = rc ? gitdir_worktree(buf_cstr(&b)) : NULL;
		auto_free char *tree = named ? gitdir_resolve(g->dir, named) : NULL;
		if (tree && same_dir(tree, g->base_fd))
			return 0;
	}
	return refuse(e, g->base, "the git directory it names does not point back here");
}

static int follow_file(struct gitdir *g, struct err *e)
{
	auto_free char *line = NULL, *commondir = NULL;
	int rc = read_line(g->base_fd, ".git", &line, e);
	if (rc < 0)
		return -1;
	if (!rc || !str_has_prefix(line, "gitdir: "))
		return refuse(e, g->base, "the file names no git directory");
	g->file = true;
	g->dir = gitdir_resolve(g->base, line + 8);
	if (!g->dir)
		return refuse(e, g->base, "the git directory it names does not exist");
	g->dir_fd = fs_open(AT_FDCWD, g->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	if (g->dir_fd < 0)
		return -1;
	rc = read_line(g->dir_fd, "commondir", &commondir, e);
	if (rc < 0)
		return -1;
	return rc ? follow_linked(g, commondir, e) : follow_worktree(g, e);
}

// As git sees it: HEAD here; objects and refs in the common part, none of them behind a link.
static int check_whole(struct gitdir *g, struct err *e)
{
	static const char *const dirs[] = {"objects", "refs"};
	struct stat st;
	if (fstatat(g->dir_fd, "HEAD", &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
		return refuse(e, g->base, "it has no HEAD that is a plain file");
	for (size_t i = 0; i < countof(dirs); i++) {
		auto_fd int fd = fs_open_beneath(g->common_fd, dirs[i], O_PATH | O_DIRECTORY, 0, e);
		if (fd >= 0)
			continue;
		auto_free char *why = xasprintf("%s is %s", dirs[i],
						e->sys == ELOOP ? "a symbolic link" : "not a directory of its own");
		return refuse(e, g->base, why);
	}
	return 0;
}

static int find(struct gitdir *g, mode_t mode, struct err *e)
{
	if (S_ISLNK(mode))
		return refuse(e, g->base, "it is a symbolic link");
	if (S_ISREG(mode) && follow_file(g, e))
		return -1;
	if (S_ISDIR(mode)) {
		g->dir = xasprintf("%s/.git", g->base);
		g->dir_fd = fs_open_beneath(g->base_fd, ".git", O_RDONLY | O_DIRECTORY, 0, e);
		if (g->dir_fd < 0)
			return -1;
	}
	if (!g->dir)
		return refuse(e, g->base, "it is neither a directory nor a file");
	if (!g->common) {
		g->common = xstrdup(g->dir);
		g->common_fd = fcntl(g->dir_fd, F_DUPFD_CLOEXEC, 3);
		if (g->common_fd < 0)
			return err_sys(e, "%s", g->dir);
	}
	return check_whole(g, e);
}

int gitdir_open(const char *base, struct gitdir *out, struct err *e)
{
	struct gitdir g;
	struct stat st;
	gitdir_init(&g);
	g.base_fd = fs_open(AT_FDCWD, base, O_RDONLY | O_DIRECTORY, 0, e);
	if (g.base_fd < 0)
		return -1;
	g.base = xstrdup(base);
	int rc = fstatat(g.base_fd, ".git", &st, AT_SYMLINK_NOFOLLOW)
			 ? (errno == ENOENT ? 0 : err_sys(e, "%s/.git", base))
			 : 1;
	if (rc > 0 && find(&g, st.st_mode, e))
		rc = -1;
	if (rc <= 0)
		gitdir_close(&g);
	else
		*out = g;
	return rc;
}

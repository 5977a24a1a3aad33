// SPDX-License-Identifier: Apache-2.0
// The submodules of a work tree, found by their git directories: a directory with a HEAD below modules/ is one, others
// lead to some, since names may have slashes. Its work tree is where its core.worktree says, if that lies in ours and
// the .git there points back.
#include "workspace/gitdir.h"

#include "base/fs.h"
#include "base/mem.h"
#include "workspace/source.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct search {
	const struct gitdir *top;
	gitdir_module_fn *fn;
	void *ctx;
};

static char *tree_of(const struct search *s, const char *dir)
{
	static const char *const files[] = {"config.worktree", "config"};
	struct err e;
	auto_fd int fd = fs_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &e);
	for (size_t i = 0; fd >= 0 && i < countof(files); i++) {
		auto_buf struct buf b = BUF_INIT(GITDIR_CONFIG);
		int rc = gitdir_read(fd, files[i], &b, &e);
		auto_free char *named = rc > 0 ? gitdir_worktree(buf_cstr(&b)) : NULL;
		auto_free char *tree = named ? gitdir_resolve(dir, named) : NULL;
		if (tree && path_is_below(tree, s->top->base) && strcmp(tree, s->top->base))
			return take(&tree);
	}
	return NULL;
}

static int found(const struct search *s, const char *dir, const char *name, struct err *e)
{
	struct gitdir sub;
	struct err why;
	auto_free char *tree = tree_of(s, dir);
	if (!tree)
		return 0; // not checked out here
	const char *rel = tree + strlen(s->top->base) + 1;
	int rc = gitdir_open(tree, &sub, &why);
	if (rc < 0)
		return s->fn(s->ctx, NULL, rel, name, &why);
	if (!rc)
		return 0;
	if (strcmp(sub.dir, dir)) {
		err_set(&why, ERR_INVALID, "its .git leads elsewhere");
		rc = s->fn(s->ctx, NULL, rel, name, &why);
	} else {
		rc = s->fn(s->ctx, &sub, rel, name, e);
	}
	gitdir_close(&sub);
	return rc;
}

static int walk(const struct search *s, const char *dir, const char *name, int depth, struct err *e)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), rc = 0;
	DIR *d = fd < 0 || depth > GITDIR_DEPTH ? NULL : fdopendir(fd);
	struct dirent *ent;
	struct stat st;
	if (!d) {
		close_fd(&fd);
		return 0;
	}
	while (!rc && (ent = readdir(d))) {
		if (ent->d_name[0] == '.' || fstatat(dirfd(d), ent->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISDIR(st.st_mode))
			continue;
		auto_free char *sub = xasprintf("%s/%s", dir, ent->d_name), *head = xasprintf("%s/HEAD", sub);
		auto_free char *full = *name ? xasprintf("%s/%s", name, ent->d_name) : xstrdup(ent->d_name);
		rc = !lstat(head, &st) ? found(s, sub, full, e) : walk(s, sub, full, depth + 1, e);
	}
	closedir(d);
	return rc;
}

int gitdir_modules(const struct gitdir *top, const struct gitdir *g, gitdir_module_fn *fn, void *ctx, struct err *e)
{
	auto_free char *dir = xasprintf("%s/modules", g->dir);
	return walk(&(struct search){top, fn, ctx}, dir, "", 0, e);
}

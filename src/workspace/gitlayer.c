// SPDX-License-Identifier: Apache-2.0
#include "workspace/gitlayer.h"

#include "base/fault.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/gitlayer_int.h"
#include "workspace/source.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

// One layer being made: ws is OUT/ws, top the work tree it goes over.
struct making {
	int ws;
	const struct gitdir *top;
	struct gitlayer *l;
};

static int make_repository(struct making *m, const struct gitdir *g, const char *path, const char *worktree,
			   struct err *e);

int gitlayer_frame(int git, char *const *alternates, struct err *e)
{
	static const char *const dirs[] = {"objects/info", "objects/pack", "refs/heads", "refs/tags",
					   "hooks",	   "info",	   "logs"};
	auto_buf struct buf b = BUF_INIT(256u << 10);
	for (size_t i = 0; i < countof(dirs); i++)
		if (fs_mkdirs(git, dirs[i], 0755, e))
			return -1;
	for (char *const *a = alternates; a && *a; a++)
		buf_fmt(&b, "%s\n", *a);
	return b.n ? fs_write(git, "objects/info/alternates", b.p, b.n, 0644, e) : 0;
}

// HEAD as the cell gets it is what was copied: the branch or the commit that is told is the same.
static int read_head(int git, const struct gitrefs *r, struct gitlayer *l, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(4096);
	if (gitdir_read(git, "HEAD", &b, e) <= 0)
		return err_set(e, ERR_INVALID, "HEAD of the repository can not be read");
	return gitrefs_head(r, &b, &l->head, &l->branch)
		       ? 0
		       : err_set(e, ERR_INVALID, "HEAD of the repository names neither a branch nor a commit");
}

static unsigned parts(const char *path)
{
	unsigned n = *path != 0;
	for (; *path; path++)
		n += *path == '/';
	return n;
}

static char *way_up(const char *from, const char *to)
{
	auto_buf struct buf b = BUF_INIT(64u << 10);
	for (unsigned n = parts(from); n; n--)
		buf_str(&b, "../");
	buf_str(&b, to);
	return buf_take(&b);
}

// Where the submodule's own .git file does not lead to its private directory, one that does goes over it.
static int write_pointer(struct making *m, const struct gitdir *sub, const char *rel, const char *path, struct err *e)
{
	struct err why;
	auto_buf struct buf b = BUF_INIT(8 << 10);
	auto_free char *up = way_up(rel, path), *text = xasprintf("gitdir: %s\n", up),
		       *file = xasprintf("%s/.git", rel);
	if (gitdir_read(sub->base_fd, ".git", &b, &why) > 0 && !strcmp(buf_cstr(&b), text))
		return 0;
	return fs_mkdirs(m->ws, rel, 0755, e) || fs_write(m->ws, file, text, strlen(text), 0644, e) ? -1 : 0;
}

static void skip(struct making *m, const char *what, const char *why)
{
	auto_free char *s = xasprintf("submodule %s: %s", what, why);
	strv_add(&m->l->skipped, s);
}

// The work tree of a module is where its core.worktree says, if that lies in ours and its .git points back.
static char *module_tree(struct making *m, const char *dir, struct err *e)
{
	static const char *const files[] = {"config.worktree", "config"};
	auto_fd int fd = fs_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	for (size_t i = 0; fd >= 0 && i < countof(files); i++) {
		auto_buf struct buf b = BUF_INIT(GITDIR_CONFIG);
		int rc = gitdir_read(fd, files[i], &b, e);
		auto_free char *named = rc > 0 ? gitdir_worktree(buf_cstr(&b)) : NULL;
		auto_free char *tree = named ? gitdir_resolve(dir, named) : NULL;
		if (tree && path_is_below(tree, m->top->base) && strcmp(tree, m->top->base))
			return take(&tree);
	}
	return NULL;
}

static int make_module(struct making *m, const char *dir, const char *path, struct err *e)
{
	struct gitdir sub;
	struct err why;
	auto_free char *tree = module_tree(m, dir, &why);
	if (!tree)
		return 0; // not checked out here
	const char *rel = tree + strlen(m->top->base) + 1;
	int rc = gitdir_open(tree, &sub, &why);
	if (rc < 0)
		skip(m, rel, why.msg);
	if (rc <= 0)
		return 0;
	if (strcmp(sub.dir, dir)) {
		skip(m, rel, "its .git leads elsewhere");
		rc = 0;
	} else if (m->l->n_mounts >= GITLAYER_MOUNTS) {
		skip(m, rel, "there are too many");
		rc = 0;
	} else {
		auto_free char *worktree = way_up(path, rel);
		rc = make_repository(m, &sub, path, worktree, e) || write_pointer(m, &sub, rel, path, e) ? -1 : 0;
	}
	gitdir_close(&sub);
	return rc;
}

// dir on the host, path in OUT/ws. A directory with a HEAD is a module, others lead to some.
static int make_modules(struct making *m, const char *dir, const char *path, int depth, struct err *e)
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
		auto_free char *sub = xasprintf("%s/%s", dir, ent->d_name), *at = xasprintf("%s/%s", path, ent->d_name);
		auto_free char *head = xasprintf("%s/HEAD", sub);
		rc = !lstat(head, &st) ? make_module(m, sub, at, e) : make_modules(m, sub, at, depth + 1, e);
	}
	closedir(d);
	return rc;
}

static int write_config(const struct gitdir *g, int git, const char *worktree, struct gitconfig *found, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(4u << 20);
	char *texts[2] = {NULL, NULL};
	int rc = gitfiles_config(g, texts, e);
	if (!rc)
		rc = gitconfig_strip(texts, worktree, &b, found, e);
	free(texts[0]);
	free(texts[1]);
	return rc || fs_write(git, "config", b.p, b.n, 0644, e) ? -1 : 0;
}

static int write_refs(struct making *m, const struct gitdir *g, int git, const struct gitconfig *c, struct err *e)
{
	struct gitrefs r = {.hex = c->hex};
	if (c->reftable)
		return 0;
	if (gitrefs_read(g, c->hex, &r, e))
		return -1;
	int rc = gitrefs_write(&r, git, e) || (g == m->top && read_head(git, &r, m->l, e)) ? -1 : 0;
	if (r.skipped) {
		auto_free char *s = xasprintf("%u refs of %s: no valid name or value", r.skipped, g->base);
		strv_add(&m->l->skipped, s);
	}
	gitrefs_done(&r);
	return rc;
}

static int fill(struct making *m, const struct gitdir *g, int git, const char *worktree, struct err *e)
{
	struct gitconfig c = {0};
	char **places = NULL;
	int rc = write_config(g, git, worktree, &c, e);
	if (!rc)
		rc = gitfiles_objects(g, m->l, &places, e) || gitlayer_frame(git, places, e) ||
				     fault(FAULT_LAYER_FILES, e) || gitfiles_copy(g, git, c.reftable, e) ||
				     write_refs(m, g, git, &c, e)
			     ? -1
			     : 0;
	strv_free(places);
	gitconfig_done(&c);
	return rc;
}

static int make_repository(struct making *m, const struct gitdir *g, const char *path, const char *worktree,
			   struct err *e)
{
	auto_free char *modules = xasprintf("%s/modules", g->dir), *at = xasprintf("%s/modules", path);
	if (fs_mkdirs(m->ws, path, 0755, e))
		return -1;
	auto_fd int git = fs_open(m->ws, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	if (git < 0)
		return -1;
	if (fill(m, g, git, worktree, e))
		return err_wrap(e, "private git directory of %s", g->base);
	return make_modules(m, modules, at, parts(path), e);
}

// Nothing of the host's .git shines through.
static int make_opaque(int ws, struct err *e)
{
	if (mkdirat(ws, ".git", 0755))
		return err_sys(e, "mkdir .git");
	auto_fd int fd = fs_open(ws, ".git", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	if (fd < 0)
		return -1;
	if (fsetxattr(fd, "user.overlay.opaque", "y", 1, 0))
		return err_sys(e, "the file system of SKEP_HOME keeps no extended attributes (user.overlay.opaque)");
	return 0;
}

int gitlayer_make(const struct gitdir *g, int into, struct gitlayer *out, struct err *e)
{
	if (fs_mkdirs(into, "ws", 0755, e))
		return -1;
	auto_fd int ws = fs_open(into, "ws", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	if (ws < 0 || make_opaque(ws, e) || fault(FAULT_LAYER_BEGIN, e))
		return -1;
	struct making m = {ws, g, out};
	return make_repository(&m, g, ".git", NULL, e);
}

void gitlayer_done(struct gitlayer *l)
{
	free(l->head);
	free(l->branch);
	strv_free(l->mounts);
	strv_free(l->skipped);
}

// SPDX-License-Identifier: Apache-2.0
#include "workspace/gitlayer.h"

#include "base/fault.h"
#include "base/fs.h"
#include "base/mem.h"
#include "workspace/gitlayer_int.h"
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

// One private git directory, whose submodules are being made.
struct parent {
	struct making *m;
	const char *path;
};

static int make_module(void *ctx, const struct gitdir *sub, const char *rel, const char *name, struct err *e)
{
	struct parent *p = ctx;
	auto_free char *path = xasprintf("%s/modules/%s", p->path, name), *worktree = way_up(path, rel);
	const char *no = !sub					? e->msg
			 : p->m->l->n_mounts >= GITLAYER_MOUNTS ? "there are too many"
			 : parts(path) > 2 * GITDIR_DEPTH	? "it lies too deep"
								: NULL;
	if (no) {
		skip(p->m, rel, no);
		return 0;
	}
	return make_repository(p->m, sub, path, worktree, e) || write_pointer(p->m, sub, rel, path, e) ? -1 : 0;
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
				     fault(FAULT_GITLAYER_FILES, e) || gitfiles_copy(g, git, c.reftable, e) ||
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
	struct parent p = {m, path};
	if (fs_mkdirs(m->ws, path, 0755, e))
		return -1;
	auto_fd int git = fs_open(m->ws, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	if (git < 0)
		return -1;
	if (fill(m, g, git, worktree, e))
		return err_wrap(e, "private git directory of %s", g->base);
	return gitdir_modules(m->top, g, make_module, &p, e);
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

int gitlayer_hide(int into, struct err *e)
{
	if (fs_mkdirs(into, "ws", 0755, e))
		return -1;
	auto_fd int ws = fs_open(into, "ws", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	return ws < 0 ? -1 : make_opaque(ws, e);
}

int gitlayer_make(const struct gitdir *g, int into, struct gitlayer *out, struct err *e)
{
	if (gitlayer_hide(into, e) || fault(FAULT_GITLAYER_BEGIN, e))
		return -1;
	auto_fd int ws = fs_open(into, "ws", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	if (ws < 0)
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

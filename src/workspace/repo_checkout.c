// SPDX-License-Identifier: Apache-2.0
// skep-repo checkout: TREE/files, one commit as files without any .git, and TREE/git/ws/.git, the private git
// directory of every sandbox on it. Attributes of the repository can ask for filters; none is configured, so none
// runs, but for LFS.
#include "workspace/repo_checkout_int.h"

#include "base/fault.h"
#include "base/fs.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/repo_dir.h"
#include "workspace/repo_layer_int.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void tree_skip(struct tree *t, const char *what, const char *why)
{
	auto_free char *s = xasprintf("%s: %s", what, why);
	strv_add(&t->l.skipped, s);
}

static char *index_var(const struct tree *t, const struct checkout *c)
{
	return xasprintf("GIT_INDEX_FILE=%s/git/ws/%s/index", t->dir.partial, c->git);
}

// The files, and an index that knows their times.
static int write_files(struct tree *t, const struct checkout *c, struct err *e)
{
	auto_free char *var = index_var(t, c),
		       *files = xasprintf("%s/files%s%s", t->dir.partial, *c->path ? "/" : "", c->path);
	auto_git struct git_run read, write;
	git_init(&read, GIT_ALONE, c->repo);
	git_init(&write, GIT_ALONE, c->repo);
	git_var(&read, var);
	git_var(&write, var);
	write.tree = files;
	git_args(&read, "read-tree", c->commit, NULL);
	if (git_must(&read, e))
		return -1;
	fprintf(stderr, "checking out %s%s%s\n", c->commit, *c->path ? " in " : "", c->path);
	lfs_use(t, c, &write);
	git_args(&write, "checkout-index", "--all", "--force", "--quiet", "--index", NULL);
	return git_must(&write, e) || fault(FAULT_TREE_FILES, e) ? -1 : 0;
}

static void origin_config(const struct checkout *c, struct buf *b)
{
	auto_free char *remote = NULL, *merge = NULL;
	if (!c->url)
		return;
	gitconfig_add(b, "remote.origin.url", c->url);
	gitconfig_add(b, "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*");
	if (!c->ref || !str_has_prefix(c->ref, "refs/heads/"))
		return;
	remote = xasprintf("branch.%s.remote", c->ref + 11);
	merge = xasprintf("branch.%s.merge", c->ref + 11);
	gitconfig_add(b, remote, "origin");
	gitconfig_add(b, merge, c->ref);
}

static int write_config(const struct checkout *c, int git, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(64u << 10);
	gitconfig_add(&b, "core.repositoryformatversion", strlen(c->commit) == 64 ? "1" : "0");
	if (strlen(c->commit) == 64)
		gitconfig_add(&b, "extensions.objectFormat", "sha256");
	gitconfig_add(&b, "core.filemode", "true");
	gitconfig_add(&b, "core.bare", "false");
	gitconfig_add(&b, "core.logallrefupdates", "true");
	gitconfig_add(&b, "gc.auto", "0");
	if (c->worktree)
		gitconfig_add(&b, "core.worktree", c->worktree);
	origin_config(c, &b);
	return fs_write(git, "config", b.p, b.n, 0644, e);
}

// As a clone has them: the mirror's branches are those of origin; the one asked for is a branch here, too.
static int write_refs(const struct checkout *c, int git, struct err *e)
{
	struct gitdir g;
	struct gitrefs all = {0}, r = {.hex = (unsigned)strlen(c->commit)};
	gitdir_init(&g);
	g.common_fd = fs_open(AT_FDCWD, c->repo, O_RDONLY | O_DIRECTORY, 0, e);
	int rc = g.common_fd < 0 ? -1 : gitrefs_read(&g, r.hex, &all, e);
	gitdir_close(&g);
	for (size_t i = 0; !rc && i < all.n; i++) {
		const struct gitref *f = &all.list[i];
		auto_free char *name = str_has_prefix(f->name, "refs/heads/")
					       ? xasprintf("refs/remotes/origin/%s", f->name + 11)
					       : xstrdup(f->name);
		if (f->id && !str_has_prefix(name, "refs/skep/"))
			gitrefs_add(&r, name, f->id, f->peeled, NULL);
	}
	bool branch = c->ref && str_has_prefix(c->ref, "refs/heads/") && gitref_is_name(c->ref);
	if (branch)
		gitrefs_add(&r, c->ref, c->commit, NULL, NULL);
	gitrefs_sort(&r);
	auto_free char *head = branch ? xasprintf("ref: %s\n", c->ref) : xasprintf("%s\n", c->commit);
	if (!rc)
		rc = gitrefs_write(&r, git, e) || fs_write(git, "HEAD", head, strlen(head), 0644, e) ? -1 : 0;
	gitrefs_done(&all);
	gitrefs_done(&r);
	return rc;
}

static int write_git(struct tree *t, const struct checkout *c, int git, struct err *e)
{
	auto_free char *place = xasprintf("%s/%u", t->l.objects, t->l.n_mounts++),
		       *mount = xasprintf("%s/objects\t%s", c->repo, place);
	char *places[] = {place, NULL};
	strv_add(&t->l.mounts, mount);
	return gitlayer_frame(git, places, e) || write_config(c, git, e) || write_refs(c, git, e) ||
			       fault(FAULT_TREE_GIT, e)
		       ? -1
		       : 0;
}

// A submodule's directory lies among files that another repository brought: a link there would lead git out of the tree.
// (Such a tree has one name twice. git's own check refuses it when it is fetched; this is the second lock.)
static int make_place(struct tree *t, const struct checkout *c, struct err *e)
{
	auto_free char *files = xasprintf("files%s%s", *c->path ? "/" : "", c->path);
	auto_fd int fd = fs_mkdirs_beneath(t->dir.fd, files, 0755, e);
	if (fd < 0 && (e->sys == ELOOP || e->sys == ENOTDIR))
		return err_set(e, ERR_INVALID, "the submodule %.200s lies behind a link or a file of its own repository: it is not checked out", c->path);
	return fd < 0 ? -1 : 0;
}

int checkout_one(struct tree *t, const struct checkout *c, int depth, struct err *e)
{
	auto_free char *git = xasprintf("git/ws/%s", c->git);
	if (make_place(t, c, e))
		return -1;
	auto_fd int fd = fs_mkdirs_beneath(t->dir.fd, git, 0755, e);
	if (fd < 0 || write_git(t, c, fd, e) || write_files(t, c, e))
		return -1;
	return checkout_submodules(t, c, depth, e);
}

// An index as old as a file it knows would have git read that file again in every new sandbox, so it is made younger by
// a second; and nobody sees the tree before that second has come.
static int settle_times(struct tree *t, struct err *e)
{
	struct timespec now, rest = {0};
	clock_gettime(CLOCK_REALTIME, &now);
	rest.tv_nsec = 1000000000L - now.tv_nsec;
	struct timespec next[2] = {{.tv_sec = now.tv_sec + 1}, {.tv_sec = now.tv_sec + 1}};
	if (rest.tv_nsec == 1000000000L)
		rest = (struct timespec){.tv_sec = 1};
	for (char **i = t->indexes; i && *i; i++)
		if (utimensat(t->dir.fd, *i, next, AT_SYMLINK_NOFOLLOW))
			return err_sys(e, "%s", *i);
	nanosleep(&rest, NULL);
	return 0;
}

static void print(struct buf *out, const struct tree *t, const struct checkout *c)
{
	struct jsonw w = {.b = out};
	jw_open(&w, '{');
	jw_kbool(&w, "git", true);
	jw_kstr(&w, "commit", c->commit);
	repo_print_layer(&w, &t->l);
	char *none[] = {NULL};
	jw_kstrv(&w, "mirrors", t->mirrors ? t->mirrors : none);
	jw_ku64(&w, "bytes", repo_disk_bytes(t->dir.fd, "."));
	jw_close(&w, '}');
}

static int make(const struct repo_args *a, struct tree *t, const struct checkout *c, struct buf *out, struct err *e)
{
	t->l.head = xstrdup(c->commit);
	if (c->ref && str_has_prefix(c->ref, "refs/heads/"))
		t->l.branch = xstrdup(c->ref + 11);
	t->l.objects = a->objects ? a->objects : GITLAYER_OBJECTS;
	if (checkout_one(t, c, 0, e) || settle_times(t, e))
		return -1;
	checkout_size_mirrors(t);
	print(out, t, c);
	return repo_write_result(t->dir.fd, out, e) || repo_dir_commit(&t->dir, e) ? -1 : 0;
}

static int check(const struct repo_args *a, struct err *e)
{
	if (!gitref_is_id(a->commit, 40) && !gitref_is_id(a->commit, 64))
		return err_set(e, ERR_INVALID, "--commit wants a full commit id");
	auto_git struct git_run g;
	auto_free char *spec = xasprintf("%s^{commit}", a->commit);
	git_init(&g, GIT_ALONE, a->repo);
	git_args(&g, "cat-file", "-e", spec, NULL);
	if (git_start(&g, e))
		return -1;
	return g.status ? err_set(e, ERR_NOT_FOUND, "%s has no commit %s; fetch it first", a->repo, a->commit) : 0;
}

// The branch to be on: the one that is named, or the remote's default. NULL: none, HEAD is detached.
static char *branch_of(const struct repo_args *a)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(2048);
	auto_free char *file = xasprintf("%s/HEAD", a->repo),
		       *full = a->ref ? xasprintf("refs/heads/%s", a->ref) : NULL;
	if (a->ref && str_has_prefix(a->ref, "refs/"))
		return gitref_is_name(a->ref) ? xstrdup(a->ref) : NULL;
	if (full) {
		auto_git struct git_run g;
		git_init(&g, GIT_ALONE, a->repo);
		git_args(&g, "show-ref", "--verify", "--quiet", full, NULL);
		return gitref_is_name(full) && !git_start(&g, &e) && !g.status ? take(&full) : NULL;
	}
	if (fs_read(AT_FDCWD, file, &b, &e))
		return NULL;
	while (b.n && b.p[b.n - 1] == '\n')
		b.p[--b.n] = 0;
	const char *head = buf_cstr(&b);
	return str_has_prefix(head, "ref: ") && gitref_is_name(head + 5) ? xstrdup(head + 5) : NULL;
}

int repo_checkout(const struct repo_args *a, struct buf *out, struct err *e)
{
	struct tree t = {.args = a, .dir.fd = -1};
	if (a->url && repo_read_url(a->url, &t.url, e))
		return -1;
	auto_free char *branch = branch_of(a);
	struct checkout c = {
		.repo = a->repo, .commit = a->commit, .ref = branch, .url = t.url.clean, .git = ".git", .path = ""};
	int rc = check(a, e) ? -1 : repo_dir_begin(a->into, &t.dir, e);
	if (!rc)
		rc = repo_read_result(a->into, out, e);
	else if (rc > 0)
		rc = make(a, &t, &c, out, e);
	repo_dir_drop(&t.dir);
	repo_url_done(&t.url);
	gitlayer_done(&t.l);
	strv_free(t.indexes);
	strv_free(t.mirrors);
	return rc;
}

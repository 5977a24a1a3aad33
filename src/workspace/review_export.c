// SPDX-License-Identifier: Apache-2.0
#include "workspace/review_export.h"

#include "base/fault.h"
#include "base/fs.h"
#include "base/mem.h"
#include "workspace/cell_pipe.h"
#include "workspace/gitdir.h"
#include "workspace/repo_git.h"
#include <errno.h>
#include <fcntl.h>
#include <git2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "# v2 git bundle\n"

struct export {
	const struct export_spec *x;
	struct gitdir host;
	char *repo, *file, *objects; // objects: the host's, or NULL
};

static void export_done(struct export *o)
{
	gitdir_close(&o->host);
	free(o->repo);
	free(o->file);
	free(o->objects);
}

static int open_host(struct export *o, struct err *e)
{
	if (!o->x->dir)
		return 0;
	int found = gitdir_open(o->x->dir, &o->host, e);
	if (found < 0)
		return -1;
	if (!found && o->x->branch)
		return err_set(e, ERR_INVALID, "%s is no git repository: a branch can not be made there", o->x->dir);
	o->objects = found ? xasprintf("%s/objects", o->host.common) : NULL;
	return 0;
}

// Streamed into a file: git wants to seek in it.
static int receive(struct export *o, struct err *e)
{
	char head[sizeof MAGIC] = {0};
	auto_fd int fd = fs_open(AT_FDCWD, o->file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, e);
	if (fd < 0)
		return -1;
	struct cell_pipe p = {.socket = o->x->socket, .ticket = o->x->ticket, .in = -1, .out = fd, .most = o->x->most};
	if (cell_pipe_run(&p, e))
		return e->kind == ERR_LIMIT ? err_wrap(e, "what came out of the sandbox is no bundle of what it may hold") : -1;
	if (pread(fd, head, strlen(MAGIC), 0) != (ssize_t)strlen(MAGIC) || strcmp(head, MAGIC))
		return err_set(e, ERR_CONFLICT, "what came out of the sandbox is no bundle");
	return 0;
}

// Our own empty repository that borrows the host's objects: a bundle leaves out what the host has.
static int make_repo(struct export *o, struct err *e)
{
	auto_git struct git_run g;
	git_init(&g, GIT_ALONE, NULL);
	git_args(&g, "init", "--quiet", "--bare", "--template=", "--initial-branch=none", o->repo, NULL);
	if (git_must(&g, e))
		return -1;
	if (!o->objects)
		return 0;
	auto_free char *info = xasprintf("%s/objects/info", o->repo), *alternates = xasprintf("%s/alternates", info);
	auto_free char *line = xasprintf("%s\n", o->objects);
	return fs_mkdirs(AT_FDCWD, info, 0700, e) || fs_replace(AT_FDCWD, alternates, line, strlen(line), 0600, e) ? -1 : 0;
}

static int unsound(struct git_run *g, const char *what, struct err *e)
{
	return err_set(e, ERR_CONFLICT, "what came out of the sandbox is not sound: git %s: %.300s", what, git_said(g));
}

static int verify(struct export *o, struct err *e)
{
	auto_git struct git_run g;
	git_init(&g, GIT_ALONE, o->repo);
	git_args(&g, "bundle", "verify", "--quiet", o->file, NULL);
	if (git_start(&g, e))
		return -1;
	return g.status ? unsound(&g, "bundle verify", e) : 0;
}

// index-pack --strict on every object: broken ones, and trees with a .git in any spelling.
static int fetch(const char *into, const char *from, const char *objects, const char *refspec, struct err *e)
{
	auto_git struct git_run g;
	auto_free char *var = objects ? xasprintf("GIT_OBJECT_DIRECTORY=%s", objects) : NULL;
	git_init(&g, GIT_ALONE, into);
	if (var)
		git_var(&g, var);
	git_args(&g, "-c", "protocol.file.allow=always", "-c", "transfer.fsckObjects=true", "-c", "fetch.fsckObjects=true", "-c",
		 "fetch.unpackLimit=1", "-c", "transfer.unpackLimit=1", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head",
		 "--no-auto-maintenance", "--no-recurse-submodules", from, refspec, NULL);
	if (git_start(&g, e))
		return -1;
	return g.status ? unsound(&g, "fetch", e) : 0;
}

// What the host has need not come a second time.
static int name_base(struct export *o, const char *repo, const char *objects, struct err *e)
{
	auto_git struct git_run g;
	auto_free char *var = objects ? xasprintf("GIT_OBJECT_DIRECTORY=%s", objects) : NULL;
	git_init(&g, GIT_ALONE, repo);
	if (!o->x->base)
		return 0;
	if (var)
		git_var(&g, var);
	git_args(&g, "update-ref", "refs/skep/base", o->x->base, NULL);
	return git_must(&g, e);
}

static int read_ref(struct export *o, char out[41], struct err *e)
{
	auto_git struct git_run g;
	auto_free char *commit = xasprintf("%s^{commit}", o->x->ref);
	git_init(&g, GIT_ALONE, o->repo);
	git_args(&g, "rev-parse", "--verify", commit, NULL);
	if (git_must(&g, e))
		return -1;
	const char *hex = git_output(&g);
	if (strlen(hex) != 40)
		return err_set(e, ERR_UNSUPPORTED, "the repository has ids of another length than SHA-1's");
	memcpy(out, hex, 41);
	return 0;
}

#define EMPTY_TREE "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// Does the submodule's repository in the directory have this commit?
static bool host_has_commit(const struct export *o, const char *path, const char *hex)
{
	struct err none;
	git_repository *r = NULL;
	git_odb *odb = NULL;
	git_oid id;
	auto_fd int top = fs_open(AT_FDCWD, o->x->dir, O_RDONLY | O_DIRECTORY, 0, &none);
	auto_fd int fd = top < 0 ? -1 : fs_open_beneath(top, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &none);
	auto_free char *dir = xasprintf("%s/%s", o->x->dir, path);
	git_libgit2_init();
	bool has = fd >= 0 && !git_oid_fromstr(&id, hex) && !git_repository_open_ext(&r, dir, GIT_REPOSITORY_OPEN_NO_SEARCH, NULL) &&
		   !git_repository_odb(&odb, r) && git_odb_exists(odb, &id);
	git_odb_free(odb);
	git_repository_free(r);
	return has;
}

// A submodule that was moved to a commit of the sandbox's own: the branch would name what nobody has.
// ":mH mI hH hI X", a zero byte and the path.
static int check_submodules(const struct export *o, const char *commit, struct err *e)
{
	auto_git struct git_run g;
	git_init(&g, GIT_ALONE, o->repo);
	git_args(&g, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", o->x->base ? o->x->base : EMPTY_TREE, commit, NULL);
	if (git_must(&g, e))
		return -1;
	for (char *s = g.out.p, *end = s ? s + g.out.n : NULL; s && s < end;) {
		char *path = s + strlen(s) + 1, mode[7], hex[41];
		if (path >= end || sscanf(s, ":%*6s %6s %*40s %40s", mode, hex) != 2)
			break;
		if (!strcmp(mode, "160000") && !host_has_commit(o, path, hex))
			return err_set(e, ERR_CONFLICT, "submodule %.150s was moved to commit %.12s, which only the sandbox has, so that the branch would name what nobody can "
				       "get: push that commit from inside, or take the files with skep apply", path, hex);
		s = path + strlen(path) + 1;
	}
	return 0;
}

// The branch itself by libgit2, which reads the host's configuration and runs nothing.
static int with_host(struct export *o, int (*fn)(git_repository *r, const char *ref, const git_oid *id, struct err *e), const char *hex,
		     struct err *e)
{
	git_repository *r = NULL;
	git_oid id = {0};
	auto_free char *ref = xasprintf("refs/heads/%s", o->x->branch);
	int valid = 0;
	git_libgit2_init();
	if (git_reference_name_is_valid(&valid, ref) || !valid || o->x->branch[0] == '-' || !strcmp(o->x->branch, "HEAD"))
		return err_set(e, ERR_INVALID, "%.100s can not be the name of a branch", o->x->branch);
	if ((hex && git_oid_fromstr(&id, hex)) || git_repository_open_ext(&r, o->host.dir, GIT_REPOSITORY_OPEN_NO_SEARCH, NULL)) {
		const git_error *why = git_error_last();
		return err_set(e, ERR_UNSUPPORTED, "open %s: %s", o->host.dir, why ? why->message : "unknown reason");
	}
	int rc = fn(r, ref, &id, e);
	git_repository_free(r);
	return rc;
}

static int must_be_free(git_repository *r, const char *ref, const git_oid *id, struct err *e)
{
	git_reference *old = NULL;
	(void)id;
	int rc = git_reference_lookup(&old, r, ref);
	git_reference_free(old);
	return rc == GIT_ENOTFOUND ? 0 : err_set(e, ERR_CONFLICT, "branch %.100s exists: choose another name, or delete it first", ref + 11);
}

static int create(git_repository *r, const char *ref, const git_oid *id, struct err *e)
{
	git_reference *made = NULL;
	int rc = git_reference_create(&made, r, ref, id, 0, "skep export");
	git_reference_free(made);
	if (!rc)
		return 0;
	const git_error *why = git_error_last();
	return err_set(e, rc == GIT_EEXISTS ? ERR_CONFLICT : ERR_SYSTEM, "branch %.100s: %s", ref + 11, why ? why->message : "unknown reason");
}

static int send(struct export *o, struct err *e)
{
	char block[65536];
	ssize_t n;
	auto_fd int fd = fs_open(AT_FDCWD, o->file, O_RDONLY | O_NOFOLLOW, 0, e);
	if (fd < 0)
		return -1;
	while ((n = read(fd, block, sizeof block)) > 0)
		if (fs_write_all(o->x->out, block, (size_t)n, e))
			return -1;
	return n < 0 ? err_sys(e, "read the bundle") : 0;
}

static int land(struct export *o, char out_commit[41], struct err *e)
{
	const char *ref = o->x->branch ? o->x->ref : "refs/*"; // a bundle may hold any number of refs: all are checked
	auto_free char *spec = xasprintf("%s:%s", ref, ref), *second = xasprintf("%s/second", o->x->work);
	*out_commit = 0;
	if (make_repo(o, e) || verify(o, e) || fetch(o->repo, o->file, NULL, spec, e) || (o->x->branch && read_ref(o, out_commit, e)))
		return -1;
	if (o->x->branch && check_submodules(o, out_commit, e))
		return -1;
	// from a pack of our own making: a bundle's is not checked by every git
	struct export again = *o;
	again.repo = second;
	again.objects = o->x->branch ? NULL : o->objects;
	const char *into = o->x->branch ? o->objects : NULL;
	if (make_repo(&again, e) || name_base(o, second, into, e) || fault(FAULT_EXPORT_OBJECTS, e) ||
	    fetch(second, o->repo, into, spec, e) || fault(FAULT_EXPORT_REF, e))
		return -1;
	return o->x->branch ? with_host(o, create, out_commit, e) : send(o, e);
}

int review_export(const struct export_spec *x, char out_commit[41], struct err *e)
{
	struct export o = {.x = x};
	struct err ignored;
	gitdir_init(&o.host);
	int rc = 0;
	if (fs_exists(AT_FDCWD, x->work)) // of one that was killed
		rc = fs_remove_tree(AT_FDCWD, x->work, e);
	o.repo = xasprintf("%s/repo", x->work);
	o.file = xasprintf("%s/bundle", x->work);
	if (!rc)
		rc = fs_mkdirs(AT_FDCWD, x->work, 0700, e) || open_host(&o, e) || (x->branch && with_host(&o, must_be_free, NULL, e)) ||
				     receive(&o, e) || land(&o, out_commit, e)
			     ? -1
			     : 0;
	if (fs_remove_tree(AT_FDCWD, x->work, &ignored) && !rc) {
		*e = ignored;
		rc = -1;
	}
	export_done(&o);
	return rc;
}

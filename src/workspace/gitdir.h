// SPDX-License-Identifier: Apache-2.0
// Where the git directory of a work tree is. The work tree may be hostile: no symbolic link is followed inside a
// .git, and a .git *file* (linked worktree, submodule) only when what it points at points back to this very
// directory. A hostile directory can write any pointer, but not into the repository it would like to show itself as.
#pragma once
#include "base/buf.h"
#include "base/err.h"

struct gitdir {
	char *base;	    // the work tree
	char *dir, *common; // absolute; common is where objects, refs and config are: dir but for a linked worktree
	int base_fd, dir_fd, common_fd;
	bool linked; // a linked worktree
	bool file;   // .git is a file
};

// base: absolute and resolved. 1: out is filled; 0: no .git there; -1: there is one that is not followed, and e says
// why.
int gitdir_open(const char *base, struct gitdir *out, struct err *e) MUST_USE;
void gitdir_close(struct gitdir *g); // safe on a zeroed or half made one that gitdir_init touched
void gitdir_init(struct gitdir *g);

// A regular file below dirfd, never through a link, not over out->max. 1 read, 0 absent, -1.
int gitdir_read(int dirfd, const char *name, struct buf *out, struct err *e) MUST_USE;
// core.worktree of a config text, as written there; NULL when absent. Owned.
char *gitdir_worktree(const char *config);
// path, relative to dir, resolved on the host. Owned; NULL when it does not exist.
char *gitdir_resolve(const char *dir, const char *path);

// Every submodule of g that is checked out in the work tree of top: sub is open during the call, rel is its path below
// that of top, name its directory below modules/ of g. One that does not fit is told by sub NULL and e. Submodules of
// submodules are the callback's to ask for. Ends at the first -1.
typedef int gitdir_module_fn(void *ctx, const struct gitdir *sub, const char *rel, const char *name, struct err *e);
int gitdir_modules(const struct gitdir *top, const struct gitdir *g, gitdir_module_fn *fn, void *ctx, struct err *e) MUST_USE;

// What makes up a private .git. A change of any of them changes the key of gitstate.h, so nothing else may be copied.
extern const char *const gitdir_own_files[];	// of dir
extern const char *const gitdir_own_dirs[];	// of dir: state of a rebase or a sequence, flat
extern const char *const gitdir_shared_files[]; // of common
#define GITDIR_DEPTH 32				// levels below refs/ and of submodules in submodules
#define GITDIR_CONFIG (1u << 20)		// bytes of a config file

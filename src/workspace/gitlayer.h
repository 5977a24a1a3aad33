// SPDX-License-Identifier: Apache-2.0
// The private .git of a sandbox, as a sealed overlay layer over a work tree. For the program skep-repo: blocking.
//
// OUT/ws/.git hides the host's (an opaque directory): HEAD, packed refs, index, a config of harmless keys, no hooks,
// no credentials. Objects are borrowed from read-only mounts named in objects/info/alternates; what a sandbox makes
// lands in its own layer. So nothing git does inside can reach the host's repository, and no command of it can run by
// this .git.
#pragma once
#include "base/err.h"
#include "workspace/gitdir.h"

#define GITLAYER_OBJECTS "/.skep/objects" // where the mounts are seen inside
#define GITLAYER_MOUNTS 40		  // at most: repositories and their alternates

struct gitlayer {
	const char *objects;  // in: GITLAYER_OBJECTS or another absolute path
	char *const *allowed; // in: directories outside the work tree that objects may be borrowed from, or NULL
	char *head, *branch;  // commit of HEAD, NULL when unborn; NULL when detached
	char **mounts;	      // "SOURCE\tPLACE": read-only; SOURCE empty: PLACE must be hidden
	unsigned n_mounts;    // numbered sources among them
	char **skipped;	      // what was left out, each with its reason
};

// Fills the directory `into` (OUT) with ws/.git for the work tree, and its submodules.
int gitlayer_make(const struct gitdir *g, int into, struct gitlayer *out, struct err *e) MUST_USE;
// The same for a .git that is not followed: an empty directory over it, so that nothing of it is seen.
int gitlayer_hide(int into, struct err *e) MUST_USE;
void gitlayer_done(struct gitlayer *l);

// For a checkout of ours: the frame of a private .git in an existing directory (objects, alternates, refs, hooks,
// info).
int gitlayer_frame(int git, char *const *alternates, struct err *e) MUST_USE;

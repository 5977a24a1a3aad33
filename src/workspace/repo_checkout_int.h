// SPDX-License-Identifier: Apache-2.0
// Between repo_checkout.c (one repository), repo_modules.c (its submodules) and repo_lfs.c (its large files).
#pragma once
#include "workspace/gitlayer_int.h"
#include "workspace/repo.h"
#include "workspace/repo_dir.h"
#include "workspace/repo_fetch_int.h"

// A tree being made.
struct tree {
	const struct repo_args *args;
	struct repo_url url; // of the top repository; zeroed when none was given
	struct repo_dir dir;
	struct gitlayer l;
	char **indexes; // paths below the tree
	char **mirrors; // of submodules: "KEY\tBYTES", each once
};

// One repository of it: the top one, or a submodule.
struct checkout {
	const char *repo, *commit, *ref, *url; // url: clean, or NULL
	const char *path;		       // below files; "" for the top one
	const char *git;		       // below git/ws
	const char *worktree;		       // core.worktree, or NULL
};

int checkout_one(struct tree *t, const struct checkout *c, int depth, struct err *e) MUST_USE;
int checkout_submodules(struct tree *t, const struct checkout *c, int depth, struct err *e) MUST_USE;
void checkout_size_mirrors(struct tree *t);
void tree_skip(struct tree *t, const char *what, const char *why);
// Where the commit has large files: gets them, and has g check them out; or says that they are left out.
void lfs_use(struct tree *t, const struct checkout *c, struct git_run *g);

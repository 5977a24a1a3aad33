// SPDX-License-Identifier: Apache-2.0
// Inside pin.h: one pin, while it is made.
#pragma once
#include "workspace/gitlayer_int.h"
#include "workspace/pin.h"
#include "workspace/repo.h"
#include "workspace/repo_git.h"

struct pathlist {
	char **v;
	size_t n, cap;
};
void pathlist_add(struct pathlist *l, const char *prefix, const char *path);
void pathlist_done(struct pathlist *l);

// A pin being made.
struct pin {
	const struct repo_args *args;
	const struct gitdir *top; // NULL: no git
	const struct gitdir *g;	  // the repository that is looked at: the top one, or a submodule
	const char *prefix;	  // "" or its path, with a slash behind it
	struct buf alternates;	  // lines
	int shadow;		  // SHADOW.git, locked
	struct gitconfig config;
	char *index;	       // GIT_INDEX_FILE=…
	char *head;	       // its commit, or NULL
	char *commit, *tree;   // of the top one
	struct buf staged;     // what the index has over HEAD, as fast-import reads it
	struct pathlist paths; // to be taken as the work tree has them now
	struct pathlist gone;  // not in the work tree
	char **skipped;
	uint64_t dirty, untracked;
	int base_fd;
	int64_t t0_ns; // what changed later is left as the index has it
};

void pin_git(struct pin *p, struct git_run *g);		   // a run in the shadow repository with the copied index
int pin_scan(struct pin *p, struct err *e) MUST_USE;	   // pin_scan.c: what differs from HEAD and from the index
int pin_scan_index(struct pin *p, struct err *e) MUST_USE; // only what the index has over HEAD
void pin_quote(struct buf *b, const char *prefix, const char *path); // as fast-import reads paths
// The tree a name stands for. Owned.
int pin_tree(struct pin *p, const char *rev, char **out, struct err *e) MUST_USE;
int pin_store(struct pin *p, char **out_tree, struct err *e) MUST_USE;			       // pin_store.c: P
int pin_manifest(struct pin *p, char **out_blob, uint64_t *out_files, struct err *e) MUST_USE; // pin_manifest.c

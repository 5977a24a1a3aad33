// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "workspace/gitlayer_int.h"
#include "workspace/pin.h"
#include "workspace/repo.h"
#include "workspace/repo_git.h"

struct pathlist {
	char **v;
	size_t n, cap;
};
void pathlist_add(struct pathlist *l, const char *path);
void pathlist_done(struct pathlist *l);

// A pin being made.
struct pin {
	const struct repo_args *args;
	struct gitdir g; // of a git work tree
	int shadow;	 // SHADOW.git, locked
	struct gitconfig config;
	char *index;	       // GIT_INDEX_FILE=…
	char *head;	       // commit, or NULL
	struct buf staged;     // what the index has over HEAD, as fast-import reads it
	struct pathlist paths; // to be taken as the work tree has them now
	struct pathlist gone;  // not in the work tree
	char **skipped;
	uint64_t dirty, untracked;
	int base_fd;
};

void pin_git(struct pin *p, struct git_run *g);		   // a run in the shadow repository with the copied index
int pin_scan(struct pin *p, struct err *e) MUST_USE;	   // pin_scan.c: what differs from HEAD and from the index
int pin_scan_index(struct pin *p, struct err *e) MUST_USE; // only what the index has over HEAD
void pin_quote(struct buf *b, const char *path);	   // as fast-import reads paths
int pin_store(struct pin *p, char **out_tree, struct err *e) MUST_USE;			       // pin_store.c: P
int pin_manifest(struct pin *p, char **out_blob, uint64_t *out_files, struct err *e) MUST_USE; // pin_manifest.c

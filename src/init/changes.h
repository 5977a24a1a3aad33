// SPDX-License-Identifier: Apache-2.0
// What is pending in a workspace: a walk of its layers only (init/stack.h), so its cost is that of the changes. And what is
// new in it since the walk before (init/known.h), for the journal.
#pragma once
#include "base/buf.h"
#include "init/gitwork.h"
#include "init/known.h"
#include "model/pending.h"
#include <stdint.h>

// Borrowed directories.
struct changes_of {
	int layer;	   // holds ws/
	int base;	   // or -1
	const int *lowers; // the ws/ of sealed layers, newest first; -1: has none
	int n_lowers, n_base_lowers; // the last n_base_lowers belong to the base: not pending
	const int *homes;  // the home/ of the same sealed layers, -1: has none; NULL: nothing is kept of homes
	char *const *hide; // globs, may be NULL: what of the base a sandbox does not see is none of its changes
};

// What is pending beside the workspace's files: work in git directories, files outside (init/outside.h).
struct changes_each {
	gitwork_fn *git;
	gitwork_told_fn *is_told;
	void (*outside)(void *ctx, const char *path);
	void *ctx;
};
void changes_extra(const struct changes_of *of, const struct stack *s, char *const *gits, const struct changes_each *each);

// The stack of the workspace. The writable layer's descriptor, which the caller closes; -1: there is none.
int changes_stack(const struct changes_of *of, struct stack *out);

// Walks. answer: the body of M_CHANGES. news: what changes_learn takes, for a walk made in a child; or NULL.
// -1 when the layer could not be looked at: then nothing is known, which is not "no changes".
int changes_walk(const struct changes_of *of, struct known *known, struct buf *answer, struct buf *news) MUST_USE;
void changes_learn(struct known *known, const void *news, size_t n);

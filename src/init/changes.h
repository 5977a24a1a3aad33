// SPDX-License-Identifier: Apache-2.0
// What is pending in a workspace: a walk of its layers only (init/stack.h), so its cost is that of the changes.
#pragma once
#include "base/err.h"
#include <stdint.h>

struct changes {
	uint32_t count;
	char **list; // "A path", "M path", "D path": at most LIMIT_CHANGES_LISTED
};

// Borrowed directories.
struct changes_of {
	int layer;	   // holds ws/
	int base;	   // or -1
	const int *lowers; // the ws/ of sealed layers, newest first; -1: has none
	int n_lowers, n_base_lowers; // the last n_base_lowers belong to the base: not pending
	char *const *hide; // globs, may be NULL: what of the base a sandbox does not see is none of its changes
};

// -1 when the layer could not be looked at: then nothing is known, which is not "no changes".
int changes_walk(const struct changes_of *of, struct changes *out) MUST_USE;
void changes_done(struct changes *c);

// SPDX-License-Identifier: Apache-2.0
// Which changed paths the project's .gitignore files name: build output and caches, which never make a sandbox stay. Only the
// base's own files decide, as in a review (workspace/review_ignored.c): a sandbox can not hide its work by a rule of its own. A path
// that the base's index has is never ignored. Asked in the order of a walk, each directory's file is read once.
#pragma once
#include "init/gitindex.h"
#include "init/stack.h"
#include "model/ignore.h"

struct ignored_level;

struct ignored {
	struct stack_dir base; // borrowed
	bool on;	       // the base has a .git: there are rules
	struct ignore exclude; // .git/info/exclude
	struct ignored_level *levels; // the directories from the top to the path asked for last
	size_t n_levels, cap;
	struct gitindex index;
	bool index_read;
};

void ignored_begin(struct ignored *g, const struct stack *s);
void ignored_end(struct ignored *g);
// path: as the walk tells it, / at the end of an empty directory. in_base: the base has something there.
bool ignored_is(struct ignored *g, const char *path, bool is_dir, bool in_base);

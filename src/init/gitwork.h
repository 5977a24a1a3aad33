// SPDX-License-Identifier: Apache-2.0
// Work that only a git directory of the sandbox holds: refs that the base has not, or has with another value (branches, tags,
// notes), stashes, commits of a detached HEAD or of a log that no ref reaches, and files that are staged and nowhere else.
//
// git is not run: a cell can write its hooks and configuration. What lies in the upper layers is compared with what the base has.
// An object is new when the upper layers have it, loose or in a pack, and neither the base nor what the base borrows from does. Of
// the logs, a commit counts that is new, is no ref's, and was not followed by a commit on top of it; so a line of commits that a
// branch was reset away from counts once, by its newest. Refs below refs/remotes are another repository's work and do not count.
// A repository that keeps its refs in a reftable counts as one when the table changed.
#pragma once
#include "init/stack.h"

// what: "refs/heads/x", "stash@{1}", "commit 0123456789ab", "staged PATH". In a git directory further down: "DIR: " before it.
typedef void gitwork_fn(void *ctx, const char *what);
// Is a staged path told as a changed file already? Then it is not told twice.
typedef bool gitwork_told_fn(void *ctx, const char *path);

// path: of a .git below the top of the workspace. Submodules and worktrees that are kept in it are looked at, too.
void gitwork_each(const struct stack *s, const char *path, gitwork_fn *fn, gitwork_told_fn *told, void *ctx);

// SPDX-License-Identifier: Apache-2.0
// Files that a sandbox left in its home directory. What a person would look for counts: files and links whose path has no part
// that begins with a dot (settings and caches of programs are there, by custom) and which lie in none of the directories that
// package managers fill (go, snap, perl5, node_modules). Directories do not count, nor does the system (--root, images): it is
// the surroundings of the work, and `skep snapshot` keeps it.
#pragma once
#include "init/changes.h"

void outside_each(const struct changes_of *of, void (*fn)(void *ctx, const char *path), void *ctx); // relative to home

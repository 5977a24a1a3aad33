// SPDX-License-Identifier: Apache-2.0
// Which directory a sandbox may be based on, and how paths of the caller map into it.
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

// Directories that must stay out of every sandbox. All absolute and resolved; home2 may be NULL.
struct source_rules {
	const char *home, *home2; // of the daemon's user: environment and password file
	const char *skep_home;
};

struct source {
	char *base; // resolved absolute path, owned
	uint64_t dev, ino;
};

// repo NULL: the git top level of cwd, else cwd. INVALID with reason and remedy when refused.
int source_resolve(const struct source_rules *r, const char *cwd, const char *repo, struct source *out,
		   struct err *e) MUST_USE;
// 0, or INVALID: may this resolved absolute path be a base?
int source_check(const struct source_rules *r, const char *path, struct err *e) MUST_USE;
// A repository that is no local directory: scheme://… or host:path. Its text without credentials, owned; NULL when it is
// a plain path. INVALID: a scheme that is not supported.
bool source_is_url(const char *s);
char *source_url(const char *s, struct err *e) MUST_USE;
// True when the directory is still the one it was.
bool source_is(const char *base, uint64_t dev, uint64_t ino);
// Commit id (or ref that has no commit yet) of a base's HEAD, owned; NULL when it is no git work tree.
char *source_head(const char *base);

bool path_is_below(const char *path, const char *dir); // equal counts
// Absolute, no empty, "." or ".." part, not over 4095 bytes.
bool path_is_clean(const char *path);
// Where the caller's directory is seen inside: owned. ws_path when it is not below base.
char *path_map(const char *base, const char *ws_path, const char *cwd);

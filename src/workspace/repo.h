// SPDX-License-Identifier: Apache-2.0
// The verbs of the program skep-repo, which does all work with git for skepd: blocking, one verb per process. Each
// appends its result, one JSON object, to out. Directories are made whole or not at all (repo_dir.h), so that any of
// these may be killed anywhere and simply asked again; result.json beside what was made holds the same result for
// later.
#pragma once
#include "base/buf.h"
#include "base/err.h"

struct repo_args {
	const char *url, *into, *ref, *repo, *commit, *dir, *objects, *shadow, *repos;
	const char *t0; // of a pin: nanoseconds since 1970, what changed later was not so then
	char **hosts;	// --host: also allowed for submodules and LFS
	char **allowed; // --alternates: directories that objects may be borrowed from
	bool paths;	// --paths-from-stdin
};

int repo_fetch(const struct repo_args *a, struct buf *out, struct err *e) MUST_USE;
int repo_checkout(const struct repo_args *a, struct buf *out, struct err *e) MUST_USE;
int repo_gitlayer(const struct repo_args *a, struct buf *out, struct err *e) MUST_USE;
int repo_pin(const struct repo_args *a, struct buf *out, struct err *e) MUST_USE;
int repo_copy(const struct repo_args *a, struct buf *out, struct err *e) MUST_USE;

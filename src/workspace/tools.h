// SPDX-License-Identifier: Apache-2.0
// Tools from the caller's home: which directories below it are shown read-only in a cell so that the
// commands on the caller's PATH work, and which files below those are credentials and stay hidden.
#pragma once
#include "model/spec.h"

struct tools {
	struct cell_mount *mounts; // src "" = mask the file dst
	uint32_t n_mounts;
};

// Scans the disk. Roots are those of the table that exist as real directories and hold an entry of path.
void tools_scan(const char *home, const char *path, struct tools *out);
void tools_done(struct tools *t);

// The same, remembered per distinct path. The result is borrowed and lives as long as the cache.
struct tools_cache;
struct tools_cache *tools_cache_new(const char *home);
void tools_cache_free(struct tools_cache *c);
const struct tools *tools_get(struct tools_cache *c, const char *path); // path NULL: no tools

// Pure: the entries of path that exist inside, joined with ':'; the standard ones are always there. Owned.
// base is NULL or a directory seen at its own path.
char *tools_path(const char *path, const struct tools *t, const char *base, enum profile profile);
// "NAME=/dir" for each variable of model/toolvars.h whose directory is seen inside: where the caller's own variables say it is, else
// its usual place in home. Owned, never NULL.
char **tools_env(const char *home, const struct tools *t, const char *base, char *const *caller);
bool tools_is_secret(const char *name); // a file name that looks like a credential

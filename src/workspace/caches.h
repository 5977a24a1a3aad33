// SPDX-License-Identifier: Apache-2.0
// Package caches of the caller: which directories package managers keep what they downloaded in, as the caller's
// variables and files place them, and where the same tools look for them inside. A sandbox sees them through an overlay:
// read from here, written only into its own layer. What holds credentials (configuration, tokens, git checkouts with
// addresses) lies beside these directories and is not shown.
#pragma once
#include "model/spec.h"

#define CACHES_MAX 8

// home: the caller's; env: K=V, of the caller's variables npm_config_cache NPM_CONFIG_CACHE PIP_CACHE_DIR UV_CACHE_DIR CARGO_HOME
// GOMODCACHE GOPATH GOCACHE XDG_CACHE_HOME those that are set (may be NULL); inside: HOME in the sandbox. Only real
// directories of our own user. Fills mounts, owned, and returns how many.
uint32_t caches_find(const char *home, char *const *env, const char *inside, struct cell_mount mounts[CACHES_MAX]);

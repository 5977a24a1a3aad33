// SPDX-License-Identifier: Apache-2.0
// The name and address for commits, as a user's own git configuration has them: these two values and nothing else of it.
#pragma once
#include "base/buf.h"

// home: the user's; xdg: XDG_CONFIG_HOME, or NULL; dir: the work tree that `includeIf "gitdir:…"` is asked about, or NULL. Files that
// can not be read are as good as absent, and so are values that no commit should have (control characters, not UTF-8).
// Appends a [user] section to out, or nothing.
void gituser_config(const char *home, const char *xdg, const char *dir, struct buf *out);

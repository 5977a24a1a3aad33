// SPDX-License-Identifier: Apache-2.0
// Directories of git objects: which are such, and taking one along.
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

// Nothing lies in it but what git keeps there. It is all that shows when it is seen in a sandbox.
bool gitobjects_is(const char *path);
// Every object of `from`, loose and packed, into the empty directory `to`: by hard link, else by copy. A gc or repack of the host
// meanwhile loses nothing. Adds the bytes it holds then.
int gitobjects_keep(int from, int to, uint64_t *inout_bytes, struct err *e) MUST_USE;

// SPDX-License-Identifier: Apache-2.0
// What a writable layer changed over its base: a walk of the layer only, so its cost is that of the changes.
#pragma once
#include "base/err.h"
#include <stdint.h>

struct changes {
	uint32_t count;
	char **list; // "A path", "M path", "D path": at most LIMIT_CHANGES_LISTED
};

// layer: a directory that holds ws/; base: the lower directory or -1. Files copied up but equal do not count;
// nothing called .git does (it never reaches the host).
// -1 when the layer could not be looked at: then nothing is known, which is not "no changes".
int changes_walk(int layer, int base, struct changes *out) MUST_USE;
void changes_done(struct changes *c);

// SPDX-License-Identifier: Apache-2.0
// The difference of two texts as hunks of a unified diff, for `skep watch`, which has both at hand.
#pragma once
#include "base/buf.h"

bool lines_is_text(const char *p, size_t n); // no NUL near its start, as git sees it
// Texts that differ in more than some thousand lines are shown as all old ones, then all new ones.
void lines_diff(struct buf *out, const char *a, size_t na, const char *b, size_t nb, unsigned context);

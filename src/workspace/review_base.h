// SPDX-License-Identifier: Apache-2.0
// The shadow repository of a sandbox before its first review.
#pragma once
#include "base/err.h"
#include <stdint.h>

// Makes it where there is none. P is what skep-repo pinned, or nothing (then a file of the base that is older than the
// sandbox is its own P).
int review_base_ensure(const char *shadow, struct err *e) MUST_USE;
// Makes tree (hex; "-" = what was pinned there at first) the P of `shadow`, with the objects of the shadow `from` (may be the
// same one, or be gone when they are here already), and t0_ns, when that base was, unless `from` says. out_hex: P.
int review_base_inherit(const char *from, const char *shadow, const char *tree, int64_t t0_ns, char out_hex[41],
			struct err *e) MUST_USE;
// When the base was: said in the shadow, else unchanged.
void review_base_t0(int shadow, int64_t *t0_ns);

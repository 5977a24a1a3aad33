// SPDX-License-Identifier: Apache-2.0
// The shadow repository of a sandbox before its first review.
#pragma once
#include "base/err.h"

// Makes it where there is none, and names P: what skep-repo pinned, or nothing (then a file of the base that is older than
// the sandbox is its own P).
int review_base_ensure(const char *shadow, struct err *e) MUST_USE;

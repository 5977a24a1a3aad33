// SPDX-License-Identifier: Apache-2.0
// Shared by the parts of a policy, and for its tests.
#pragma once
#include "model/policy.h"

#define FROM_MAX 128 // bytes of rule.from

// The path of a request target, decoded, without its query: the only form paths are compared in. Owned; NULL when it is
// written in a way that servers read differently (see policy.h).
char *path_canonical(const char *target, size_t n);

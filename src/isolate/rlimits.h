// SPDX-License-Identifier: Apache-2.0
// Per-process limits: always in force, and where there is no cgroup (supervised) all there is.
#pragma once
#include "model/limits.h"

// Sets soft and hard limits of this process and all it starts; never above the hard limit it has. A limit of 0
// in l leaves the process's own. Call it inside the cell's user namespace: NPROC counts per namespace and uid.
int rlimits_apply(const struct limits *l, bool supervised, struct err *e) MUST_USE;

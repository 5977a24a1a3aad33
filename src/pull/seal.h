// SPDX-License-Identifier: Apache-2.0
// What skep-pull gives up before it reads a byte of the network: every file but the directory that it fills and what
// name resolution reads, every other user's anything, new programs and processes. As root it becomes nobody first, so
// that SKEP_HOME is closed to it by its mode as well.
#pragma once
#include "base/err.h"

// dir: of the pull; becomes nobody's where the process is root. All or an error; after an error the process must end.
int pull_seal(int dir, struct err *e) MUST_USE;

// SPDX-License-Identifier: Apache-2.0
// What a process of a --root cell may do with files: read from outside, in the cell's own numbers.
#pragma once
#include "base/err.h"
#include "model/move.h"
#include <sys/types.h>

struct cell;

// -1: not known, or somebody whom the cell has no number for. That pid was meant is the caller's to make sure, afterwards.
int rights_find(const struct cell *c, pid_t pid, struct rights *out) MUST_USE;
// The lines of /proc/PID/status, numbers as they stand there.
int rights_parse(const char *status, struct rights *out) MUST_USE;

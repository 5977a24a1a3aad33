// SPDX-License-Identifier: Apache-2.0
// Puts a copy that belongs to the caller in the place of a file that belongs to nobody here: content, mode, times and
// attributes are those of the file, owner and group are the caller's. Other names of the file (hard links) keep what they have.
// A file that can be changed as it is stays as it is.
#pragma once
#include <stdbool.h>

int owned_make(int dir, const char *name, bool follow); // 0: it can be changed now

// SPDX-License-Identifier: Apache-2.0
// The one word of a program that was just started: R when it is ready, or another letter and what went wrong.
#pragma once
#include "base/buf.h"

// Fills out with R alone, or with all that came before the end; nothing came: it ended without a word. What follows an R is
// left where it is. False: it has said nothing for so long.
bool word_wait(int fd, uint64_t ms, struct buf *out);

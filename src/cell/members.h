// SPDX-License-Identifier: Apache-2.0
// Events of a process that works on hostile bytes: before they become part of the journal.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// JSON members without the braces, well-formed, in one line, and none of the names every event has already.
bool members_are_fit(const char *p, size_t n);

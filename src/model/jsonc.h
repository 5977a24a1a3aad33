// SPDX-License-Identifier: Apache-2.0
// JSON with comments and trailing commas, as editors and agents keep their settings.
#pragma once
#include "base/buf.h"

// Comments and trailing commas become blanks, byte for byte: what is left is JSON if it was JSONC, and everything stays where it is.
void jsonc_strip(const char *p, size_t n, struct buf *out);

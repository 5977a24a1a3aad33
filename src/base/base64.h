// SPDX-License-Identifier: Apache-2.0
// Base64, both ways.
#pragma once
#include "base/buf.h"

void base64_add(struct buf *b, const void *p, size_t n); // standard alphabet, padded
// Either alphabet, with or without padding. -1 for anything else; what was added before that stays in out.
int base64_decode(const char *p, size_t n, struct buf *out) MUST_USE;

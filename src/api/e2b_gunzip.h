// SPDX-License-Identifier: Apache-2.0
// A body that came compressed, in pieces, at the pace of whoever takes it.
#pragma once
#include "base/err.h"
#include <stddef.h>

struct gunzip;
// to: how many of the bytes it took; less than all: gunzip_feed returns early and is called again later.
struct gunzip *gunzip_new(size_t (*to)(void *ctx, const char *p, size_t n), void *ctx);
void gunzip_free(struct gunzip *g); // NULL is fine
long gunzip_feed(struct gunzip *g, const char *p, size_t n, struct err *e) MUST_USE; // how many were taken; -1: *e
// 1: all was given and taken; 0: some of it still waits to be taken; -1: the end is missing.
int gunzip_end(struct gunzip *g, struct err *e) MUST_USE;

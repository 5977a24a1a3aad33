// SPDX-License-Identifier: Apache-2.0
// The bytes in a gzip stream (RFC 1952, 1951), read as they are wanted. Blocking; 32 KiB of window and what is read ahead.
// Nothing that the stream says leads to an allocation, and its checksum is compared.
#pragma once
#include "base/err.h"
#include <stddef.h>
#include <stdint.h>

struct gunzip;
struct gunzip *gunzip_new(int fd, const void *begun, size_t n); // fd: borrowed; begun: what was read from it already
void gunzip_free(struct gunzip *g);
// How many bytes of out were filled; less than n only at the end.
long gunzip_read(struct gunzip *g, void *out, size_t n, struct err *e) MUST_USE;

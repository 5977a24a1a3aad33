// SPDX-License-Identifier: Apache-2.0
// Captured output on disk: the last `cap` bytes of a stream whose bytes are numbered from 0. Written by skep-cell,
// read by it and, also after its death, by skepd.
// Layout: a 4096-byte header {magic, u64 cap, u64 total}; byte number n lies at 4096 + n % cap.
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring {
	int fd; // -1 = closed
	uint64_t cap, total;
};

int ring_create(struct ring *r, int dirfd, const char *name, uint64_t cap, struct err *e) MUST_USE;
int ring_open(struct ring *r, int dirfd, const char *name, struct err *e) MUST_USE; // for reading
void ring_close(struct ring *r);
int ring_append(struct ring *r, const void *p, size_t n, struct err *e) MUST_USE;
uint64_t ring_first(const struct ring *r); // number of the oldest byte kept
// Bytes from number `at` on (>= ring_first): how many, 0 = none yet, -1 = gone or failed.
long ring_read(struct ring *r, uint64_t at, void *p, size_t n);

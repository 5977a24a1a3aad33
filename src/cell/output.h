// SPDX-License-Identifier: Apache-2.0
// What an exec wrote to one stream: on disk (base/ring.h), as long as that can be written. From then on (a full disk) nothing more is
// kept, but who reads, or was promised, gets every byte: what they have not read yet waits in memory, and the writer waits for them.
#pragma once
#include "base/buf.h"
#include "base/ring.h"

#define OUTPUT_REST (2u << 20) // in memory; two windows (model/limits.h)

struct output {
	struct ring ring; // fd -1 until the first byte
	bool lost;	  // could not be written: `rest` is all there is from there on
	struct buf rest;  // the bytes before `total` that are not on disk
	uint64_t total, credit;
};

void output_done(struct output *o);
// Appends. -1: it could not be written to the ring and never will be; the bytes are in `rest`.
int output_put(struct output *o, const void *p, size_t n, struct err *e) MUST_USE;
void output_lose(struct output *o, const void *p, size_t n); // not on disk
// Number of the first byte at or behind `at` that can be read.
uint64_t output_next(const struct output *o, uint64_t at);
long output_read(struct output *o, uint64_t at, void *p, size_t n); // 0, -1: it can not
// Bytes before `slowest` are read by everybody; UINT64_MAX: nobody reads.
void output_seen(struct output *o, uint64_t slowest);
bool output_is_full(const struct output *o); // the writer waits

// SPDX-License-Identifier: Apache-2.0
// How much of the host's disk a cell holds: what is in its writable layer, and files that have no name any more but are
// still open (cell/unnamed.h).
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DISK_DEPTH 1000 // directories below each other, as in a copy of a layer

struct disk_use {
	uint64_t bytes, files;
	bool too_deep; // there is more, deeper than anything is counted
};

// Looks at much and allocates: for a child process. init: the cell's first process.
void disk_use_count(const char *layer, pid_t init, struct disk_use *out);

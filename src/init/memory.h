// SPDX-License-Identifier: Apache-2.0
// The memory limit of a cell that no control group keeps (supervised): pid 1 adds up what is resident, and past the limit kills
// the largest process, as the kernel would do for a group. Address space is not limited: sanitizers and runtimes reserve far
// more than they use.
//
//   quick look    RssAnon, swap and page tables of each process, as the kernel counts them anyway
//   precise look  only when a quick one says three quarters of the limit: pages that processes share since a fork count once (smaps_rollup).
//                 What the quick ones count too much is remembered for a quarter of a second
//
// The next look comes the sooner the less is left, down to a few milliseconds. Past the limit twice in a row is past it: a
// child of vfork has its parent's memory, and for a moment both are seen.
#pragma once
#include "base/loop.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// limit in bytes, 0 = none: then nothing is done. trace: the filter lets pid 1 compare the memory of two processes.
// killed: told at once.
void memory_init(struct loop *loop, uint64_t limit, bool trace, void (*killed)(uint64_t used, pid_t pid));
void memory_begin(void); // a command starts: look until no process is left
// In use by the last look, or by a new one. unnamed: what the supervisor found in files without a name and in sockets.
uint64_t memory_used(uint64_t unnamed);

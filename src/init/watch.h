// SPDX-License-Identifier: Apache-2.0
// The job `watch`: what changes in the workspace while somebody watches, as a stream of records (base/live.h) on stdout.
// Directories of the writable layer tell what is made, copied up, moved and removed; the same directories as they are seen
// inside tell what is written. Each burst of such news is closed by a look at the paths it named, and a walk of everything
// follows every second, when news were lost, and at the end of a command: so stores to mapped memory, and more changes
// than the kernel queues, lose nothing but time.
//
// stdin: u32 length, u8 LIVE_BEGAN or LIVE_ENDED, bytes, again and again: when a command ended everything is walked, and then
// the bytes come out as a record 'E'.
#pragma once
#include "init/changes.h"

// Before any job, borrowed for good: what is remembered is where the first look goes on from.
void watch_init(const struct known *known);
int watch_run(struct err *e) MUST_USE; // in the forked child; ends with its reader

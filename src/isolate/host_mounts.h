// SPDX-License-Identifier: Apache-2.0
// The nursery's copy of the host's mounts. Where the host's are private, an unmount there never reaches the copy: the file
// system would stay in use, and unflushed, as long as skepd or one of its cells lives. So the copy is compared when the host's
// table changes, and what is gone there goes here too. Slots that wait have copies of the copy, which follow it (mount_private).
// Only root may do that: the kernel locks what came from a namespace with more rights.
#pragma once
#include "base/loop.h"

struct host_mounts {
	struct loop *loop;
	struct watch table; // the host's mountinfo, open since before the copy was made
	struct timer wait;
	const char *except; // where mounts are our own
};

int host_mounts_open(void); // in the host's mount namespace; -1: there is no table to look at
void host_mounts_watch(struct host_mounts *h, struct loop *loop, int table, const char *except); // takes table

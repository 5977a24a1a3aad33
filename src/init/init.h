// SPDX-License-Identifier: Apache-2.0
// Pid 1 of a cell. Does everything inside: runs commands, opens terminals, reaps, and performs every file
// operation on sandbox data, over one byte channel (model/msg.h, channel I). Trusts its channel, nothing else: every
// process beside it may be hostile and of the same user.
#pragma once
#include "base/chan.h"
#include "init/changes.h"
#include "model/spec.h"

struct init_opts {
	struct chan *channel; // taken over as it is, with what it may have buffered
	struct changes_of changes;
	uint32_t uid, gid; // of the cell's user
	enum profile profile;
	const char *ws_path;
	char *const *hide; // globs of what is no change; may be NULL
	int sudo; // sudo_listen's, -1 = none
	bool parks;	     // after such an end it stays until the channel ends
	uint64_t cpus_milli; // for pid 1 to see to; 0 = not limited, or by the kernel
	int score; // /proc/1/oom_score_adj, open
	bool ends_with_exec; // the first exec's end is the cell's, if no other process is left
};

// Sends M_READY (payload and descriptor given) first. Returns never: when the channel ends, the cell ends.
_Noreturn void init_run(struct init_opts *opts, const struct buf *ready, int ready_fd);

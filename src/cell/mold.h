// SPDX-License-Identifier: Apache-2.0
// A mold: what a cell that touched nothing leaves for the next cell at the same place. One small process keeps it: a user
// and a network namespace, the seat's group, and a mount namespace with the place and an empty layer mounted, the host's
// file tree left. A cell's first process is cloned from it with everything a command could have marked made anew: pids,
// ipc, names, /proc, terminals. Making the rest takes five times as long and wears the disk.
//
// Untouched is checked, not believed: no time stamp of the layer's directories changed, the network namespace reads as it did
// when it was made (isolate/net_state.h), and in /tmp, /run and /dev/shm there is nothing new, or after what a command left there was removed as much room as before, in
// directories that look as they did.
#pragma once
#include "base/chan.h"
#include "cell/seat.h"
#include <sys/stat.h>
#include <time.h>

struct cell;
struct contain;

enum {
	MOLD_LAYER = 3, // change times: of ws, of home, and of what is in root (the uppers of package caches), added up
	MOLD_WAY = 7,	// and of tmp, run, run/lock and shm; then of the directories on the way to a workspace in there, added up
	MOLD_TIMES = 9, // last: how much of the scratch space is free
};

struct mold {
	struct mold *next;
	struct chan chan; // to the process that keeps it; fd -1 = no mold
	int pidfd;	  // of that process
	int lock;	  // of the layer
	int scratch;	  // the tmpfs of its cells; -1 = not told yet
	struct seat seat;
	char *layer; // its path while it waits
	void *place; // bytes, as in M_WANT
	size_t place_n;
	dev_t base_dev;
	ino_t base_ino;
	uint64_t lowers_mark;
	struct timespec made[MOLD_TIMES];
	uint64_t since_ms;
};

#define MOLD_NONE ((struct mold){.chan.fd = -1, .pidfd = -1, .lock = -1, .scratch = -1, .seat.lock = -1})

// In the supervisor.
int mold_make(struct cell *c, struct err *e) MUST_USE; // for the place of its slot
int mold_cell(struct cell *c, struct err *e) MUST_USE; // clones the cell's first process from it
void mold_leave(struct cell *c);			// the cell goes on without it
bool mold_give_back(struct cell *c);			// after its end; false: it is not what it was
bool mold_keep(struct cell *c);				// the same, for the next cell of this process

// In the nursery.
int mold_read(struct frame *f, struct mold *m, struct err *e) MUST_USE; // 1: complete, 0: more frames follow
bool mold_fits(const struct mold *m, const void *place, size_t n);
void mold_drop(struct mold *m, bool beside); // ends it and removes its layer; beside: in a child
void mold_free(struct mold *m);		     // what we know of it; somebody else has it now
void mold_close_fds(struct mold *m);	     // in a child that has nothing to do with it

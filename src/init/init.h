// SPDX-License-Identifier: Apache-2.0
// Pid 1 of a cell. Does everything inside: runs commands, opens terminals, reaps, and performs every file
// operation on sandbox data, over one byte channel (model/msg.h, channel I). Trusts its channel, nothing else: every
// process beside it may be hostile and of the same user.
//
//   init.c     the loop, and the frames of its channel
//   exec.c     one exec                    spawn.c     its process          tty.c       its terminal
//   tree.c     who belongs to it           throttle.c  its processor time   users.c     who is who
//   sudo.c     commands as the cell's root
//   files.c    the operations on files: files_*.c; for a user by name: account*.c; SFTP: sftp*.c
//   stack.c    what layers change          names.c     names in several directories
//   changes.c  what is pending             known.c     what of it is new    watch*.c    while somebody watches
//   collect.c  changes, for a review       restore.c   what it dismissed
//   layer*.c   copies and merges of whole layers (also in a child of the nursery)
//   moving.c   makes directories movable: movable*.c
//   dial.c     connections into the cell   listening.c ports, who.c: and connections, and whose they are
//   agent.c    where ssh finds its agent
#pragma once
#include "base/chan.h"
#include "init/changes.h"
#include "model/spec.h"

struct sock_fprog;
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
	const struct sock_fprog *filter; // more system calls that commands have not; NULL = none
	uint64_t memory;     // the same
	bool trace;	     // its filter lets processes be compared
	int score; // /proc/1/oom_score_adj, open
	bool ends_with_exec; // the first exec's end is the cell's, if no other process is left
};

// Sends M_READY (payload and descriptor given) first. Returns never: when the channel ends, the cell ends.
_Noreturn void init_run(struct init_opts *opts, const struct buf *ready, int ready_fd);

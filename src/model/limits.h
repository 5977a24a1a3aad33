// SPDX-License-Identifier: Apache-2.0
// Every bound of the product in one place: what a sandbox may use, and what our own buffers may hold.
#pragma once
#include "base/buf.h"

// What the user may set per sandbox. 0 = not limited, except where said.
struct limits {
	uint64_t cpus_milli; // 1500 = one and a half cores
	uint64_t memory;     // bytes, tmpfs included
	uint64_t pids;
	uint64_t disk;	     // bytes in the writable layer
	uint64_t files;	     // inodes in the writable layer
	uint64_t nofile;     // open files per process
	uint64_t output_cap; // captured bytes per stream kept when nobody reads
	uint64_t event_rate; // journal events a second made by the workload
};

#define LIMITS_DEFAULT                                                                      \
	((struct limits){                                                                   \
		.memory = 4ULL << 30, .pids = 512, .disk = 10ULL << 30, .files = 1000000, \
		.nofile = 4096, .output_cap = 64ULL << 20, .event_rate = 2000,            \
	})

#define LIMIT_TMP (2ULL << 30)		// /tmp, /run and /dev/shm together; and at most half of memory
#define LIMIT_REVIEW_BYTES (4ULL << 30) // contents that one review copies; review_bytes in config.yaml
#define LIMIT_REVIEW_SECONDS 600
#define LIMIT_REVIEW_FREE (1ULL << 30) // disk that a review leaves free: more than LIMIT_HOST_RESERVE, at which commands end
#define LIMIT_HOST_RESERVE (512ULL << 20) // free space on the host that no cell may eat into
#define LIMIT_BUNDLE (256ULL << 20)	// commits taken out of a sandbox: so much at least, and four times its disk
#define LIMIT_REQUEST_BODY (8u << 20)
#define LIMIT_ARGV (2u << 20)		// bytes of arguments and environment, as the kernel's own
#define LIMIT_EXECS 4096		// execs remembered by one cell while there is no daemon to tell
#define LIMIT_EXECS_TOLD 64	// and with one
#define LIMIT_CLIENTS 256		// connections to one cell
#define LIMIT_DIALS 1024		// connections into one cell that wait to be made
#define LIMIT_PORTS 128			// ports of one cell that are known to be open
#define LIMIT_DIAL_MS 5000		// for one of them
#define LIMIT_SSH_CHANNELS 100	// of one SSH connection
#define LIMIT_STDIN_WINDOW (256u << 10)
#define LIMIT_OUTPUT_WINDOW (1u << 20)
#define LIMIT_CHANGES_LISTED 200	// changed paths named in a summary; the rest is counted
#define LIMIT_FILES_RECORDED 256	// file.changed events of one walk, or of one second while somebody watches; the rest is counted
#define LIMIT_WALK 1000000		// entries one change walk looks at
#define LIMIT_LAYERS 32		// sealed layers below a writable one
#define LIMIT_MOUNTS 64		// of one sandbox, the project's among them
#define LIMIT_STOP_GRACE_MS 2000	// from SIGTERM to SIGKILL
#define LIMIT_TICKETS 16 // of one exec, not used yet
#define LIMIT_TICKET_MS 10000		// a ticket not used by then is void
#define LIMIT_AWAY_MS 1200000		// a client whose line broke is waited for no longer, whatever it asked for
#define LIMIT_PENDING_OP_MS 10000	// a second changing operation waits this long, then CONFLICT
#define LIMIT_PROC_ARGV 4096		// bytes of a process's argv kept in the journal

// Less starts no command; 0 is no limit.
#define LIMIT_MEMORY_LEAST (4ULL << 20)
#define LIMIT_PIDS_LEAST 4

int limits_check(const struct limits *l, struct err *e) MUST_USE;
void limits_write(struct buf *b, const struct limits *l);
void limits_read(struct wire *w, struct limits *out);

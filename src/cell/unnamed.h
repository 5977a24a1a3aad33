// SPDX-License-Identifier: Apache-2.0
// Files that have no name but are open in some process of a cell: no walk of a directory finds those on disk, and no look at
// a process's own memory those in memory (memfd). Counted with the latter: what waits in sockets (cell/socket_use.h). Only a shared mapping that outlives its descriptor, or a descriptor on its
// way through a socket, is not seen.
#pragma once
#include <stdint.h>
#include <sys/types.h>

struct unnamed {
	uint64_t disk, disk_files, memory; // bytes; files
	pid_t holder;			   // who has most of the memory open; 0 = nobody
};

// Looks at every descriptor of every descendant of init: for a child process.
void unnamed_count(pid_t init, struct unnamed *out);

// SPDX-License-Identifier: Apache-2.0
// Which process of the cell it was: as the cell sees it, and as the user knows it.
#pragma once
#include "base/id.h"
#include <stdint.h>
#include <sys/types.h>

struct cell;

struct who {
	uint32_t pid;	     // inside; 0 = not known
	char name[64];	     // of the program, as the kernel keeps it; a thread may have its own
	char command[256];   // argv[0], cut; "" = not known. The process can write what it likes here
	char exec[ID_SIZE];  // "" = not known
};

// pid: of a process or thread, as our own pid namespace sees it. What can not be found out stays empty; a process that
// ended and whose number was given away again is the caller's to notice.
void who_find(struct cell *c, pid_t pid, struct who *out);

// SPDX-License-Identifier: Apache-2.0
// What waits in a cell's TCP and UDP sockets. A control group counts it; where there is none these lists of the kernel are all
// there is. They tell bytes of data, and the kernel needs more than that for them: counted twice.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct socket_use {
	struct socket_bytes {
		uint64_t inode, bytes; // inode 0: no process has it yet, or any more
	} *v;			       // sorted by inode
	size_t n, cap;
	uint64_t bytes; // of all
};

void socket_use_read(pid_t init, struct socket_use *out); // of the network namespace of init
uint64_t socket_use_of(const struct socket_use *u, uint64_t inode);
void socket_use_done(struct socket_use *u);

// SPDX-License-Identifier: Apache-2.0
// Which process has a connection: asked by the gate for its records, never for a decision. What is found is what
// the process tells of itself.
#pragma once
#include "base/chan.h"
#include "base/id.h"
#include "base/str.h"
#include "model/msg.h"

struct port_owner {
	uint32_t pid;	    // 0 = not found
	char exec[ID_SIZE]; // SKEP_EXEC of its environment, "" = none
	char name[64];	    // of the program, as the kernel keeps it
};

// port: its own end's. inode: of its socket, 0 = to be found by the port. Looks for at most a few milliseconds, and not at all when it looked too much lately.
void who_has_port(enum who_socket socket, uint16_t port, uint64_t inode, struct port_owner *out);
// The lines of /proc/net/tcp or tcp6.
struct tcp_line {
	struct str address; // hexadecimal, as the kernel prints it: 8 digits or 32; borrowed
	uint16_t port;
	uint32_t state;
	uint64_t inode;
};
void who_tcp_table(const char *table, void (*each)(void *ctx, const struct tcp_line *t), void *ctx);
void who_answer(struct chan *c, const struct frame *f); // M_WHO: the whole of it

// SPDX-License-Identifier: Apache-2.0
// A local client of a cell for programs: carries the streams of one exec, to its end. Blocking.
#pragma once
#include "base/buf.h"
#include <sys/types.h>

struct cell_pipe {
	const char *socket, *ticket;
	int in, out; // in: a file that is sent as stdin, -1 = none; out: where stdout goes, -1 = nowhere
	uint64_t most; // bytes of stdout that are taken; then LIMIT. 0: all
};
// 0 when it ended with status 0. Otherwise *e has the first line it wrote to stderr.
int cell_pipe_run(const struct cell_pipe *p, struct err *e) MUST_USE;

// The same beside us: a child speaks with the cell, and its stdout is a pipe. out is borrowed, closed by cell_pipe_wait, whose
// error is the one that tells what happened.
struct cell_pipe_child {
	pid_t pid;
	int out, said;
};
int cell_pipe_start(const struct cell_pipe *p, struct cell_pipe_child *out_child, struct err *e) MUST_USE;
int cell_pipe_wait(struct cell_pipe_child *c, struct err *e) MUST_USE;

// SPDX-License-Identifier: Apache-2.0
// A local client of a cell for programs: carries the streams of one exec, to its end. Blocking.
#pragma once
#include "base/buf.h"

struct cell_pipe {
	const char *socket, *ticket;
	int in, out; // in: a file that is sent as stdin, -1 = none; out: where stdout goes, -1 = nowhere
	uint64_t most; // bytes of stdout that are taken; then LIMIT. 0: all
};
// 0 when it ended with status 0. Otherwise *e has the first line it wrote to stderr.
int cell_pipe_run(const struct cell_pipe *p, struct err *e) MUST_USE;

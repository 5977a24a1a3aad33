// SPDX-License-Identifier: Apache-2.0
// `skep run claude`: a command without `--` that is the name of a known agent (model/agent.h) gets what that agent needs: its
// network, its key if there is a sealed secret for it, and a directory that keeps its login from one run to the next.
#pragma once
#include "cli/request.h"

// Adds to o; what was said by options stands. The lists of o are copies afterwards: agent_done frees them.
int agent_apply(struct create_opts *o, const char *command, struct err *e) MUST_USE;
void agent_done(struct create_opts *o);

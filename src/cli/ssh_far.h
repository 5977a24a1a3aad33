// SPDX-License-Identifier: Apache-2.0
// skep-ssh for a sandbox of another machine. It is sealed, has no token and can make no connection: this process stays, and does
// for it what one sandbox's SSH needs (channel A of model/msg.h): begin an exec or a job, reach it, reach a port.
#pragma once
#include "cli/api.h"

// Starts it on our stdin and stdout, and serves it to its end. keys: its directory; a: open.
int ssh_far_serve(struct api *a, const char *keys, const char *sandbox, struct err *e) MUST_USE;

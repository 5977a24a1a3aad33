// SPDX-License-Identifier: Apache-2.0
// The command while it runs: pid 1 started it, we stand in for it where we were called. Signals that we get go to it; where we are
// in the foreground of a terminal it gets one of its own, and we carry the bytes.
#pragma once
#include "model/spec.h"

// Takes the place of *s->cwd and umask from our own where they are not set. *out_status: its wait status.
int sudo_run(struct exec_spec *s, bool background, int *out_status, struct err *e) MUST_USE;

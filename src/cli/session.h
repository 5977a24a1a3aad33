// SPDX-License-Identifier: Apache-2.0
// An exec shown on our own stdin, stdout and stderr, to its exit status.
#pragma once
#include "base/json.h"
#include "cli/opt.h"
#include "cli/pump.h"

// attach: as skepd answered. Fills socket and ticket of spec, moves the bytes, says on stderr why the exec
// ended if there is a reason. Exit status; *out is the caller's to free.
int session_run(const struct call *c, const json_t *attach, struct pump_spec spec, struct pump_result *out);

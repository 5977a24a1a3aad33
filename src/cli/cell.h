// SPDX-License-Identifier: Apache-2.0
// The way to a cell: its socket on this machine, or, with SKEP_HOST, the same bytes through that skepd (docs/streams.md).
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

// A port of the sandbox's own loopback, through that skepd: a stream of bytes.
int cell_connect_port(const char *sandbox, uint32_t port, struct err *e) MUST_USE;

// socket: as skepd named it in `attach`: of this machine, SANDBOX.sock; of another one the API's path. What follows is
// channel C of model/msg.h.
bool cell_is_far(void); // through a skepd that SKEP_HOST names
int cell_connect(const char *socket, struct err *e) MUST_USE;

// SPDX-License-Identifier: Apache-2.0
// What E2B calls envd, the daemon inside a sandbox: processes and files by Connect RPC, transfers by HTTP (docs/e2b.md). Here
// it is a surface of skepd that works through the engine; inside the cell runs nothing but what was asked for.
//
// A request is this surface's own when it names a sandbox and port 49983, by its headers (E2b-Sandbox-Id, E2b-Sandbox-Port) or
// by its host (49983-ID.…), or when it is for /files with a signature, which then says whose it is.
#pragma once
#include "api/server.h"

extern const struct surface e2b_envd; // before e2b_api in the list of surfaces

void e2b_envd_stop(void); // forgets every process and watch: before the engine goes

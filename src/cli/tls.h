// SPDX-License-Identifier: Apache-2.0
// doctor --tls: which of the tools in a cell believe the certificates that the gate makes.
#pragma once
#include "cli/opt.h"

// Exit status 1 when a tool that is there does not.
int tls_run(const struct call *c, bool json);

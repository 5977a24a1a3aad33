// SPDX-License-Identifier: Apache-2.0
// What skep-ssh gives up before it reads a byte of the client.
#pragma once
#include "base/err.h"

enum seal_reach {
	SEAL_SOCKETS, // at a path stay reachable
	SEAL_NOTHING, // no connection can be made
};

// From here on the process can start no program, open no file and be looked at by nobody.
int seal_self(enum seal_reach reach, struct err *e) MUST_USE;

// SPDX-License-Identifier: Apache-2.0
// The gate locks itself in before it sees a hostile byte. Afterwards it can move bytes over the sockets it has, make
// new connections, and nothing else: no file, no process, no other user's anything.
#pragma once
#include "base/err.h"

enum seal_end {
	SEAL_WITH_PARENT, // killed when it ends
	SEAL_ALONE,	  // its sockets end it
};

// Everything the process will need must be open. All or an error; after an error the process must end.
int selfseal(enum seal_end end, struct err *e) MUST_USE;

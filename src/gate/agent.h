// SPDX-License-Identifier: Apache-2.0
// The ssh agent of a cell: its socket is inside, the keys are here. It signs logins and nothing else, and a login only
// for the session of a connection that this gate passes to the very host the key is bound to, while it is open. What it
// signs is of no use anywhere else: the session's id is part of it.
#pragma once
#include "base/err.h"

struct gate;

int agent_serve(struct gate *g, int fd, struct err *e) MUST_USE; // takes the listener; a second one is refused
void agent_secrets(struct gate *g);				 // they are new: keys read from the old ones go

// SPDX-License-Identifier: Apache-2.0
// One SSH connection to one sandbox, served on stdin and stdout (a ProxyCommand's place). Who may start this program is
// the user whose sandboxes these are, and nobody else can reach its pipes: so no further proof is asked for.
#pragma once
#include "base/err.h"

struct server_args {
	const char *socket;  // skepd's
	const char *sandbox; // its id
	const char *keys;    // directory of key.h
	int asks;	     // -1; or channel A of model/msg.h: the sandbox is on another machine, and socket and sandbox do not count
};

// Serves to the end of the connection. -1: it never came to be; the process is to end.
int server_run(const struct server_args *a, struct err *e) MUST_USE;

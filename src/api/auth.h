// SPDX-License-Identifier: Apache-2.0
// Who asks, and what they may.
#pragma once
#include "api/server.h"

struct principal {
	const char *name; // for the journal: "local", or a token's name
	bool local;	  // the daemon's own user, on the unix socket: may everything
	enum scope scope; // of a token
};

// Before the body is read: fills r->who, and checks the route's scope on what its first part names.
int auth_admit(struct request *r, struct err *e) MUST_USE;
// For surfaces whose verbs are not routes. sandbox: an id as the caller gave it, NULL where there is none.
int request_may(struct request *r, enum scope scope, const char *sandbox, struct err *e) MUST_USE;

// SPDX-License-Identifier: Apache-2.0
// What a registry answers to a request without a valid login: the WWW-Authenticate header (RFC 9110, 11.6.1). Pure.
#pragma once
#include "base/err.h"
#include <stdbool.h>

struct pull_challenge {
	bool basic, bearer;
	char *realm, *service, *scope; // of bearer; NULL = not given
};
// One header's value, which may hold several challenges; called once for each such header. Schemes that are not known
// are passed over, a malformed rest ends the reading: what was understood before it counts.
void pull_challenge_add(struct pull_challenge *c, const char *value);
void pull_challenge_done(struct pull_challenge *c);

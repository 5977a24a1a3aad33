// SPDX-License-Identifier: Apache-2.0
// URLs that a registry names: where a redirect leads and where tokens come from.
#pragma once
#include "base/err.h"
#include <stdbool.h>

struct pull_url {
	char *text;
	char *origin; // scheme://host:port: a login goes to the origin that it is for, and to no other
	char *host;   // host[:port], as in URLs
	bool https, local;
};
// text: whole, or relative to base (NULL = it must be whole). http and https only, without user and password.
int pull_url_parse(const struct pull_url *base, const char *text, struct pull_url *out, struct err *e) MUST_USE;
void pull_url_done(struct pull_url *u);
// May what was said by `from` lead to `to`? Not from https to http, not to http on another host but this machine, and
// not from elsewhere to this machine.
int pull_url_follows(const struct pull_url *from, const struct pull_url *to, struct err *e) MUST_USE;

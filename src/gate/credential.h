// SPDX-License-Identifier: Apache-2.0
// What of a request is a credential, told by its name: towards a host with a bound secret the client's own are left out,
// or a cell could send what it has seen to somebody else's account there. Services invent such names freely, so parts of
// names count, and a few that only look like it are let through. Cookie stays: it is state more often than a login.
#pragma once
#include "base/str.h"

bool credential_is_field(const char *name);
// key: as it stands in a query, escapes and all.
bool credential_is_query(struct str key);
// The same key, whatever escapes it is written with?
bool credential_key_is(struct str key, const char *name);

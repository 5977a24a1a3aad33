// SPDX-License-Identifier: Apache-2.0
// From a request's target to its surface, route, parts and query.
#pragma once
#include "api/server.h"
#include "base/str.h"

int route_find(struct request *r, const struct surface *const *surfaces, const char *method, struct err *e) MUST_USE;
char *percent_decode(struct str s, bool plus); // owned; NULL for half an escape or a NUL

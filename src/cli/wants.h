// SPDX-License-Identifier: Apache-2.0
// What a sandbox wanted to reach and was refused, out of its journal. Everything in it came from inside: names are
// parsed as any rule is, and what can not be a rule is only told.
#pragma once
#include "base/err.h"
#include "cli/api.h"
#include "model/policy.h"

// One host and port, and one method there.
struct want {
	struct host_name host;
	uint16_t port; // 0: only its name was asked for
	char *method; // NULL: refused before any request was seen
	char *address; // that it has and that is reached only where a rule names it; NULL = not known, or public
	char **paths; // without query, each once
	char *command;
	uint64_t times;
};

struct wants {
	struct want *w;
	size_t n;
	char **others; // lines about what no rule can allow
};

// Of the journal's first `most` bytes (0 = of all), of one exec (NULL = of all).
int wants_read(struct wants *all, struct api *a, const char *id, const char *exec, uint64_t most, struct err *e) MUST_USE;
void wants_note(struct wants *all, char *owned); // one more line about what no rule can allow
void wants_drop(struct wants *all, size_t i);
void wants_done(struct wants *all);

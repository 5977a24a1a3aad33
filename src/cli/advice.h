// SPDX-License-Identifier: Apache-2.0
// What a person can do about a run that failed for a reason its own messages do not know: the sandbox.
#pragma once
#include "cli/request.h"

// One line each on stderr, or none.
bool advice_is_wanted(void); // by a person: on a terminal, or when asked for. Stdout stays the command's
void advice_missing(const char *command);			  // it was not found inside
void advice_refused(const struct create_opts *o, const char *id); // hosts that no rule allows
void advice_of_exec(const char *id, const char *exec);		  // the same, of one exec of a sandbox that goes on

// SPDX-License-Identifier: Apache-2.0
// Where skep keeps its state: one rule for every program.
#pragma once
#include "base/err.h"

// SKEP_HOME; else for root /var/lib/skep; else $XDG_STATE_HOME/skep; else .local/state/skep below home (which may
// be NULL: not known). Absolute, owned; need not exist.
char *home_dir(const char *home, struct err *e) MUST_USE;

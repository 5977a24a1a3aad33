// SPDX-License-Identifier: Apache-2.0
// What the programs have in common that skepd starts for one task (skep-repo, skep-image, skep-review): they answer with JSON
// lines, the last of which is the result or {"error":{"kind","message"}}.
#pragma once
#include "base/jsonw.h"
#include <sys/types.h>

enum helper_rights { HELPER_KEEPS_RIGHTS, HELPER_GAINS_NONE }; // gains none: nothing it starts can have more than it has
// No core, no death by a signal that a failed write tells as well.
void helper_begin(mode_t umask_bits, enum helper_rights r);

int helper_print(struct buf *line);   // with its end; exit status
int helper_fail(const struct err *e); // the error line; exit status 1
void helper_open_error(struct jsonw *w, const struct err *e); // its first members; two objects are left open

// SPDX-License-Identifier: Apache-2.0
// M_MOVABLE: a helper process for each, one after the other (the supervisor asks for no second before the first is done).
#pragma once
#include "base/chan.h"

void moving_ask(struct chan *c, struct frame *f);
bool moving_reaped(pid_t pid, int status); // true: it was the helper
// Before everything is killed: one that is about to replace a directory completes that, for a second or two.
void moving_end(void);

// SPDX-License-Identifier: Apache-2.0
// Ports that somebody in the cell listens on: looked for when a process called listen, and again while one is open.
#pragma once
#include "base/chan.h"

struct cell;

void ports_soon(struct cell *c); // somebody listens, or ended
void ports_answer(struct cell *c, const struct frame *f); // M_PORTS of init
void ports_exec_ended(struct cell *c);
void ports_replay(struct cell *c); // to a new skepd
void ports_end(struct cell *c);

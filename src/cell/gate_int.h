// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "cell/gate.h"

// gate_spawn.c
int gate_spawn(struct gate *g, struct err *e) MUST_USE; // pid and chan are set; it waits for M_GATE

// gate_ask.c
void ask_open(struct gate *g, const struct frame *f); // M_ASK
void ask_close_all(struct gate *g);		      // nobody is left to answer, or nobody to be answered
void ask_init(struct gate *g);

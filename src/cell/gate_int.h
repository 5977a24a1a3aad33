// SPDX-License-Identifier: Apache-2.0
// Between gate.c (the gate of a cell, while it lives), gate_spawn.c (its process) and gate_ask.c (what it asks).
#pragma once
#include "cell/gate.h"

// gate_spawn.c
// Known by its descriptor: when it is dead the number may be somebody else's at once.
struct gate_process {
	struct watch w;
	struct gate *gate; // NULL = given up
	struct loop *loop;
	pid_t pid; // while it surely lives
};

int gate_spawn(struct gate *g, struct err *e) MUST_USE; // process and chan are set; it waits for M_GATE
void gate_kill(struct gate *g);

// gate_ask.c
void ask_open(struct gate *g, const struct frame *f); // M_ASK
void ask_close_all(struct gate *g);		      // nobody is left to answer, or nobody to be answered
void ask_init(struct gate *g);

// SPDX-License-Identifier: Apache-2.0
// What this cell's code refused, as `denied` events: {what, rule, ...}, what = syscall | exec | start | connect.
#pragma once
#include "base/err.h"
#include "isolate/seccomp.h"

struct cell;
struct sx;

// Answers a call that the filter refuses, and records it: at most DENIED_RATE a second one by one, the rest counted by
// name in one event.
#define DENIED_RATE 50
void denied_call(struct cell *c, int listener, const struct seccomp_event *ev);
void denied_flush(struct cell *c); // what was counted and not yet said

void denied_exec(const struct sx *x, const struct err *e); // an exec that may not be: another user's, an unknown one's
void denied_start(struct cell *c, const struct err *e);	     // a cell that may not be
void denied_connect(struct cell *c, const char *why);	     // somebody at the cell's socket who did not know the word

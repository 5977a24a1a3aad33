// SPDX-License-Identifier: Apache-2.0
// Execs of init's job `watch`: their stream (base/live.h) passes through here on its way to whoever watches. Each change is
// recorded and gets the number of its event; commands that begin and end are told to the job, which puts them into the
// stream behind what they changed. The job ends with its last client.
#pragma once
#include "cell/cell_int.h"

bool watching_is(const struct exec_spec *s);
void watching_begin(struct sx *x); // before it is sent to init
void watching_end(struct sx *x);
void watching_output(struct sx *x, const void *p, size_t n); // to sx_output, with its numbers
void watching_exec(const struct sx *x, bool start);	       // a command began or ended
void watching_room(struct sx *x);			       // the job can take more
void watching_client_gone(struct sx *x);
// True: whoever watches has not been told yet what the last command changed. cell_end follows when it was, or soon anyway.
bool watching_holds_end(struct cell *c);

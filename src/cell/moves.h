// SPDX-License-Identifier: Apache-2.0
// Renames of directories. overlayfs without redirects refuses to rename a directory that (also) is in a lower layer: EXDEV.
// Every rename of a cell waits for us. What is no directory of an overlay goes on at once. For the others pid 1 is asked to
// make the directory one that can be moved (init/movable.h), which changes nothing that anybody can see of it; then the call
// goes on too. So it is always the kernel that performs the rename, with the caller's own rights, flags and errors, and
// whatever the caller does to its arguments meanwhile is between it and the kernel.
#pragma once
#include "isolate/seccomp.h"

struct cell;

void moves_call(struct cell *c, int listener, const struct seccomp_event *ev); // takes over the answer
void moves_owning(struct cell *c, int listener, const struct seccomp_event *ev); // likewise: a call that changes a file
void moves_answer(uint32_t id); // M_MOVABLE of init

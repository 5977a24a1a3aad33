// SPDX-License-Identifier: Apache-2.0
// Processor time without a control group: what the processes of the cell used is looked at, and when it is more than they were
// given those that used it are stopped until the rest of the time has passed.
//
// A parent can see that its child is stopped (waitpid with WUNTRACED), and a shell would take it for a ^Z. So whoever is stopped
// has its ancestors stopped before it, up to pid 1, and they go on after it: there is no moment in which one of them runs and
// could see it. A stop that the user asked for stays one: what was stopped before is left alone, and a ^Z that comes while
// a process is held is sent again when it goes on. Processes that use no time are not touched, nor are those that somebody traces.
//
// What remains to be seen: SIGCHLD for nothing, "continued" by WCONTINUED, and EINTR where the kernel does not restart a call. What it does
// not see: time of children that nobody waits for (SIGCHLD ignored) and that were gone before a look.
#pragma once
#include "base/loop.h"

void throttle_init(struct loop *l, uint64_t cpus_milli); // 0 = nothing is limited
void throttle_wake(void); // a command began, or everything goes on after a pause
bool throttle_holds(pid_t pid); // stopped by us, and going on soon
void throttle_rest(void); // whoever is held goes on, and nobody is stopped until throttle_wake

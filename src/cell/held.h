// SPDX-License-Identifier: Apache-2.0
// Pid 1 starts a command with a child that has its memory until it executes, and waits for that in the kernel. A process of
// the cell may stop the child before (nothing can block SIGSTOP) and hold up pid 1 with it.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

bool held_release(pid_t init); // ends such a child; false: there is none

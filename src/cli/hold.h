// SPDX-License-Identifier: Apache-2.0
// Signals that come while skepd starts a command for us. Who dies then leaves a command behind that nobody watches,
// perhaps in a sandbox nobody knows: they are kept until the command can be told. A second one ends us at once.
#pragma once
#include <stdbool.h>

void hold_begin(void);
// started: a pump follows, which finds what was kept and passes it on, and hold_over behind it; else it counts now.
void hold_end(bool started);
void hold_over(void);

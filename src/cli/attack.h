// SPDX-License-Identifier: Apache-2.0
// doctor --attack: the shipped containment tests, run in cells of this machine.
#pragma once
#include "cli/opt.h"

// Every test of skep-attack twice: as the first process of a new sandbox, and by exec into a live one.
// Exit status 1 when one escaped or gave no verdict.
int attack_run(const struct call *c, bool json);

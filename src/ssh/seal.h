// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/err.h"

// From here on the process can start no program, open no file and be looked at by nobody; sockets at a path stay reachable.
int seal_self(struct err *e) MUST_USE;

// SPDX-License-Identifier: Apache-2.0
// What this host offers, for `skep doctor`. Every check that can do the real thing does it, in a child of its own.
#pragma once
#include "base/buf.h"

// {"checks":[{"name","state":"ok"|"gap"|"absent","detail","fix"}…],"in_force":{…}}: absent = no cell can start,
// gap = one starts, weaker or with less comfort; fix only where there is one. home: SKEP_HOME, made if it does not
// exist; the overlay test needs it. Fails only when the answer does not fit json.
int probe_run(const char *home, struct buf *json, struct err *e) MUST_USE;

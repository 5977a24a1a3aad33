// SPDX-License-Identifier: Apache-2.0
// Giving up capabilities for good, and checking that it happened.
#pragma once
#include "base/err.h"
#include <stdint.h>

// The root profile: CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE SYS_CHROOT,
// all of them over the cell's own user namespace only. (Numbers of linux/capability.h.)
#define CAPS_ROOT_PROFILE                                                                                     \
	(1ULL << 0 | 1ULL << 1 | 1ULL << 3 | 1ULL << 4 | 1ULL << 5 | 1ULL << 6 | 1ULL << 7 | 1ULL << 8 | \
	 1ULL << 10 | 1ULL << 18)
#define CAPS_NESTED_ROOT (1ULL << 31) // SETFCAP: a namespace inside may map the cell's uid 0 only if its maker holds it

// Bounding, permitted and effective set become `keep`, inheritable and ambient empty. keep == 0 also locks the
// securebits so that uid 0 means nothing; otherwise uid 0 gets the kept ones back at exec. Needs CAP_SETPCAP over the
// user namespace unless there is nothing left to drop.
int caps_drop_bounding(uint64_t keep, struct err *e) MUST_USE; // early: two dozen calls less while somebody waits
int caps_drop_own(uint64_t keep, struct err *e) MUST_USE;      // every set but that one
int caps_drop_all(uint64_t keep, struct err *e) MUST_USE;
int caps_no_new_privs(struct err *e) MUST_USE;
// Reads every set back. DENIED names the first that is wider than it should be.
int caps_verify(uint64_t keep, struct err *e) MUST_USE;

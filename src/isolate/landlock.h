// SPDX-License-Identifier: Apache-2.0
// The second layer behind the mount namespace: the same paths, said to the kernel once more.
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>

#define LANDLOCK_MIN 2 // ABI 1 forbids every rename between directories: treated as absent
#define LANDLOCK_SCOPES 6

struct landlock_rule {
	int fd;	     // borrowed; O_PATH is enough. A directory covers all below it
	bool write;  // false: read and execute
	bool device; // device ioctls (terminals): for /dev
};

int landlock_abi(void); // 0 = the kernel has none or it is off

// Confines this process and all it starts to the rules; from ABI 6 on also abstract unix sockets and signals to the
// processes confined with it. abi: as landlock_abi() said, so that what is reported is what is in force. Needs
// no_new_privs (or CAP_SYS_ADMIN). No mount can be made afterwards. UNSUPPORTED below LANDLOCK_MIN.
int landlock_enter(const struct landlock_rule *rules, size_t n, int abi, struct err *e) MUST_USE;
// The scopes alone, for a cell in which mounts may be made: rules for files would forbid every one of them. UNSUPPORTED
// below LANDLOCK_SCOPES.
int landlock_enter_scopes(int abi, struct err *e) MUST_USE;

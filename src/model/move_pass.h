// SPDX-License-Identifier: Apache-2.0
// What marks the renames and links of pid 1's own helper (init/movable.h): a sixth argument that renameat2 and linkat do not
// have. The filter lets such a call through unseen. It is no secret: a call with it is the kernel's plain renameat2 or linkat.
#pragma once

#define MOVE_PASS 0x736b6570u

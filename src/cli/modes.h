// SPDX-License-Identifier: Apache-2.0
// The state that a command left a terminal in. A question of skep must be read as it is written, so all of that state is reset
// before it is shown: colours, character set, scroll region, origin mode, the alternate screen, the cursor, mouse and paste
// reports, sequences that are not complete. The modes that a program needs for its work are set again afterwards.
#pragma once
#include "base/buf.h"

#define MODES_HELD 64 // bytes of one sequence

struct modes {
	char seq[MODES_HELD];
	size_t n;     // bytes of seq; 0 = between sequences
	uint32_t set; // rows of the table in modes.c that differ from their default
	uint32_t other_keys; // modifyOtherKeys
};

void modes_read(struct modes *m, const char *p, size_t n); // output on its way to the terminal
void modes_reset(struct buf *out);			   // without moving the cursor
void modes_bottom(struct buf *out);			   // behind modes_reset: to an empty line below all that is shown
void modes_again(const struct modes *m, struct buf *out);

// SPDX-License-Identifier: Apache-2.0
// file.changed: which files of the workspace changed, and by which commands. It comes from the walk that follows a command,
// and, while somebody watches, from the stream of what happens (cell/watching.h); what both tell is recorded once.
#pragma once
#include "base/live.h"
#include "cell/cell_int.h"

void changed_walk(struct cell *c, struct wire *w); // the rest of M_CHANGES, behind its list
void changed_asked(struct cell *c);		    // a walk begins
void changed_live(struct cell *c, const struct live_state *s);
void changed_flush(struct cell *c); // how many were not recorded one by one
void changed_forget(void); // the next cell of this process starts anew

// SPDX-License-Identifier: Apache-2.0
// Renames of directories: what the supervisor tells pid 1 (M_MOVABLE), and the mark of pid 1's own renames.
#pragma once
#include "base/buf.h"
#include "model/move_pass.h"

#define RIGHTS_GROUPS 64u

enum move_verb {
	MOVE_DIRECTORY,	 // make it a directory that rename can move
	MOVE_OWN,	 // make the file one that belongs to the cell (init/owned.h)
	MOVE_OWN_TARGET, // or the file that this link leads to
	MOVE_VERBS,
};

struct rights { // over files, inside
	uint32_t uid, gid, n_groups, groups[RIGHTS_GROUPS];
	uint64_t caps;
};

void rights_write(struct buf *b, const struct rights *r);
int rights_read(struct wire *w, struct rights *out) MUST_USE;

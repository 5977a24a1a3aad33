// SPDX-License-Identifier: Apache-2.0
// A place on this side for a tree that is not trusted: it is made in a fresh directory beside, and then
// moved under the one name that was agreed on, merged into a directory that is there already.
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <sys/types.h>

struct place {
	int dir, temp; // where it goes; where it is made
	char *temp_name, *made_as, *goes_as;
};

// path: an existing directory (the tree keeps `name`), or the new name of the tree. must_be_dir: only the first.
int place_open(struct place *p, const char *path, bool must_be_dir, const char *name, struct err *e) MUST_USE;
int place_move(struct place *p, mode_t mask, struct err *e) MUST_USE; // mask: bits that no mode keeps (umask)
void place_close(struct place *p); // removes what was not moved

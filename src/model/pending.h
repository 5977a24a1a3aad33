// SPDX-License-Identifier: Apache-2.0
// What M_CHANGES tells beside the changed files: how many of what kind, and what is no file of the workspace by name.
#pragma once
#include "base/buf.h"

struct changes_sum {
	uint32_t ignored; // changed files that .gitignore names: not pending
	uint32_t git, outside; // of the pending ones: work in git directories, files outside of the workspace
	char *home;   // of the sandbox's user, inside; the cell knows. May be NULL
	char **extra; // "G refs/heads/x", "H notes.txt" (in the home directory); not all where there are many
};

void changes_sum_write(struct buf *b, const struct changes_sum *s);
void changes_sum_read(struct wire *w, struct changes_sum *out); // all 0 where the sender is older; then changes_sum_done
void changes_sum_done(struct changes_sum *s);

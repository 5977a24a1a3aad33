// SPDX-License-Identifier: Apache-2.0
// Has the git state of a directory changed? For skepd, which keeps private git directories (gitlayer.h) by key and
// asks on every creation: stat calls only, as many as there are directories of refs, whatever the size of the work
// tree.
//
// A key stands for one state of everything a private .git is made of: HEAD, index, config, packed and loose refs,
// shallow, alternates, excludes, a merge or rebase in progress, and the same of every submodule. Times are part of
// it, so no two states share a key. git replaces files by rename, so the directories of refs tell about the refs in
// them.
#pragma once
#include "base/err.h"
#include "base/sha256.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gitwatch; // one path and what stat said

struct gitstate {
	bool git;	      // there is a repository that is followed; see why
	char why[504];	      // "" or the reason for which a .git that is there is not followed
	char key[SHA256_HEX]; // "" when there is no .git; one that is not followed has one, too
	struct gitwatch *watch;
	size_t n, cap;
	bool young;   // changed too short ago for times to tell
	bool crowded; // too many directories of refs to watch. Neither is ever the same
};

// base: absolute and resolved. Reads at most a few small files. Fails only when base itself can not be read.
int gitstate_read(const char *base, struct gitstate *out, struct err *e) MUST_USE;
void gitstate_done(struct gitstate *s); // safe on a zeroed one
// True when nothing moved since gitstate_read: stat calls only. False for a zeroed one.
bool gitstate_same(const struct gitstate *s);

// SPDX-License-Identifier: Apache-2.0
// What a project hides from its sandboxes: a layer of whiteouts that lies directly on the base, below everything a
// sandbox writes. A name in it is absent whatever the host has, puts or renames there while the cell lives. Which names
// a glob stands for is judged once, when the layer is made: a name that fits and comes into being later, also because a
// directory above it was renamed, is seen until the next cell starts. A glob without wildcards hides its name also
// before it exists, as long as its directory does.
#pragma once
#include "base/err.h"

#define HIDE_LOOKED 1000000 // entries of the base looked at; past that the cell does not start
#define HIDE_NAMES 4096	    // hidden

// base: the directory as the cell will see it; into: an empty directory of ours.
int hide_build(int base, int into, char *const *globs, struct err *e) MUST_USE;

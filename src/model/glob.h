// SPDX-License-Identifier: Apache-2.0
// Globs of paths below a project, as in a .dockerignore: anchored at the project's top; '*', '?' and [...] stay inside
// one part, '**' stands for any number of parts. No escapes. Bounded: the time is that of the two texts multiplied.
#pragma once
#include <stdbool.h>

#define GLOB_PARTS 63 // of one glob

enum glob_fit {
	GLOB_NO,
	GLOB_ABOVE, // not the path itself; something below it may fit
	GLOB_FITS,
};

bool glob_is_valid(const char *glob);	// relative, no empty, "." or ".." part, at most GLOB_PARTS
bool glob_is_literal(const char *glob); // names exactly one path
enum glob_fit glob_fit(const char *glob, const char *path);
// The path or a directory above it fits one of the globs (NULL = none).
bool glob_covers(char *const *globs, const char *path);

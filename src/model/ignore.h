// SPDX-License-Identifier: Apache-2.0
// What .gitignore files name. One file is a list of rules about the paths below its directory; the last rule that fits a path
// decides. The caller asks for each directory on the way down: below an ignored directory everything is ignored, whatever
// rules say of it. Patterns are git's: '*', '?' and [...] inside one part, '**' for any number of parts, '\' before a
// character, '!' to take a path out, '/' at the end for directories only.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define IGNORE_RULES 10000	     // of one file; what is beyond does not count
#define IGNORE_FILE_MAX (1u << 20) // a longer file is no list of rules

struct ignore_rule;

struct ignore {
	struct ignore_rule *rules;
	size_t n;
};

enum ignore_fit {
	IGNORE_SILENT, // no rule fits
	IGNORE_YES,
	IGNORE_NO, // taken out by '!'
};

void ignore_parse(struct ignore *out, const char *text, size_t n);
void ignore_done(struct ignore *g);
enum ignore_fit ignore_fit(const struct ignore *g, const char *path, bool is_dir); // path: relative to the file's directory

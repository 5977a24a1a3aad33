// SPDX-License-Identifier: Apache-2.0
// What sudo was asked for. Options that only mean something where there are passwords and policies are read and do nothing;
// those that would change what the command runs with, and are not served, are refused.
#pragma once
#include "base/err.h"
#include <stdbool.h>

enum sudo_what {
	SUDO_RUN,
	SUDO_LIST,    // -l
	SUDO_NOTHING, // -v, -k, -K: no password is ever remembered
	SUDO_VERSION,
	SUDO_HELP,
};

struct sudo_args {
	enum sudo_what what;
	const char *user;  // "root" unless -u
	const char *chdir; // -D; NULL
	bool login, shell; // -i, -s
	bool keep_all;	   // -E
	bool set_home;	   // -H
	bool background;   // -b
	char **keep;	   // --preserve-env=LIST, as one string each; owned, may be NULL
	char **set;	   // NAME=VALUE before the command; owned, may be NULL
	char **command;	   // the rest of argv
};

extern const char sudo_usage[];
int sudo_args_parse(char **argv, struct sudo_args *out, struct err *e) MUST_USE;
void sudo_args_done(struct sudo_args *a);

// SPDX-License-Identifier: Apache-2.0
// The rules behind risk flags, pure.
#pragma once
#include "workspace/review.h"

// The next flag of a path, from row *at of the table on; NULL when there is none left.
const char *risk_of_path(const char *path, size_t *at, const char **out_reason);

enum risk_link { RISK_LINK_IN, RISK_LINK_OUT, RISK_LINK_GIT };
enum risk_link risk_of_link(const char *path, const char *target, size_t n); // by its text alone

bool risk_scripts_differ(const char *old, size_t old_n, const char *now, size_t now_n);	      // package.json
bool risk_build_sections_differ(const char *old, size_t old_n, const char *now, size_t now_n); // pyproject.toml

struct risk_text {
	size_t bidi, invisible, control, longest;
	const char *secret; // what it looks like
};
void risk_of_text(const char *p, size_t n, struct risk_text *inout); // adds to what is there
const char *risk_secret(const char *line, size_t n);		     // "an AWS key", or NULL

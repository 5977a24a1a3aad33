// SPDX-License-Identifier: Apache-2.0
// Images by name, for `skep image pull` and --pull.
#pragma once
#include "cli/api.h"

struct pull_wants {
	const char *ref, *name, *secret; // name and secret may be NULL
	bool missing;			 // what is here is taken as it is
	bool quiet;			 // no progress on the terminal
};
// The image, as the API has it. Owned.
json_t *pull_image(const struct pull_wants *w, struct err *e) MUST_USE;

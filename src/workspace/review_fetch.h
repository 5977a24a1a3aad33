// SPDX-License-Identifier: Apache-2.0
// Collecting: asks the job of a cell for what changed, and keeps a copy of it.
#pragma once
#include "workspace/review_copy.h"

struct review_fetch {
	const char *shadow;
	const char *socket, *ticket; // of the job; NULL: the stream stands on stdin
	struct collect_spec spec;
};
int review_fetch_run(const struct review_fetch *f, struct collect_result *out, struct err *e) MUST_USE;

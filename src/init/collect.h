// SPDX-License-Identifier: Apache-2.0
// The job `collect`: what the layers change, with contents, as a stream of changes (base/delta.h) on stdout; what is wanted
// of it stands on stdin (delta_ask). And the job
// `restore`: reads such a stream from stdin and puts each content back whose expectation still holds (compare and swap).
#pragma once
#include "init/changes.h"
#include <stdbool.h>

// Before any job: what a forked child will look at. Both borrowed for good.
void collect_init(const struct changes_of *of, const char *ws_path);
// In the forked child: moves the layers' descriptors down to `from` and on; the first number that is free then.
int collect_keep(int from);
bool collect_is(char *const *argv); // does this job need them?

const struct changes_of *collect_layers(const char **out_workspace); // in that child, then; the path may be NULL

int collect_run(struct err *e) MUST_USE;
// Paths that are not as expected are left and named, one line each, on stderr; then CONFLICT.
int restore_run(const char *dir, struct err *e) MUST_USE;

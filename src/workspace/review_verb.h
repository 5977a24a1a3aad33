// SPDX-License-Identifier: Apache-2.0
// The verbs of skep-review that read a request on stdin: diff, apply, undo, recover, dismiss, export.
#pragma once
#include "workspace/review_request.h"

// out_raw: stdout carries no JSON from here on; set also where the verb then fails. why: the caller's, to be done with.
int review_verb_run(const char *name, bool *out_raw, struct refusal *why, struct err *e) MUST_USE;

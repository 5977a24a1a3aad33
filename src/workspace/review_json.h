// SPDX-License-Identifier: Apache-2.0
// Changes as JSON lines; docs/review.md has the fields.
#pragma once
#include "base/jsonw.h"
#include "workspace/review_apply.h"

// One change. context: lines around each hunk's text; -1 = no text.
int change_json(struct review *r, const struct change *c, int context, struct jsonw *w, struct err *e) MUST_USE;
void review_summary_json(const struct review *r, struct jsonw *w);
void op_json(const struct op *op, struct jsonw *w);

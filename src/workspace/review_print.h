// SPDX-License-Identifier: Apache-2.0
// What skep-review says on stdout: lines of JSON, or the patch that was asked for. docs/review.md has every field.
#pragma once
#include "workspace/review_request.h"

int review_print(struct buf *b, struct err *e) MUST_USE; // and empties it
int review_print_line(struct buf *b, struct err *e) MUST_USE;
int review_print_diff(struct review *r, struct review_request *q, struct err *e) MUST_USE;
int review_print_mail(struct review *r, struct review_request *q, struct err *e) MUST_USE; // or the commit, for a parent
int review_print_result(const struct apply_result *r, enum txn_recovered before, struct err *e) MUST_USE;
int review_print_recovered(const char *shadow, enum txn_recovered what, struct err *e) MUST_USE;
int review_print_dismissed(uint64_t paths, struct err *e) MUST_USE;

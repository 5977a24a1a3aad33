// SPDX-License-Identifier: Apache-2.0
// What skepd asks of skep-review: one JSON object on stdin. docs/review.md has the fields.
#pragma once
#include "base/json.h"
#include "workspace/review_apply.h"
#include "workspace/review_fetch.h"

enum review_format { FORMAT_JSON, FORMAT_PATCH, FORMAT_STAT, FORMAT_NAME_STATUS };

struct review_request {
	json_t *json; // owned; strings below are borrowed from it
	struct review_spec spec;
	struct apply_spec apply;
	struct review_fetch fetch; // socket NULL: what was collected last is looked at
	struct collect_result collected;
	const char *log, *out;
	enum review_format format;
	int context; // of patches (3), and of hunks' text in JSON (-1: no text)
	const char *author, *email, *subject, *message, *parent;
	uint64_t date; // seconds since 1970; 0 = now
};

int review_request_read(const char *p, size_t n, struct review_request *out, struct err *e) MUST_USE;
void review_request_done(struct review_request *r);

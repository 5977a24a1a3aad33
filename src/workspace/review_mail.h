// SPDX-License-Identifier: Apache-2.0
// The change set as a mail that `git am` takes.
#pragma once
#include "workspace/review.h"

struct mail {
	const char *author, *email, *subject, *message; // message may be NULL
	uint64_t date; // seconds since 1970
};

// Head and summary; the patches follow, then mail_end.
int mail_head(const struct review *r, const struct mail *m, struct buf *out, struct err *e) MUST_USE;
void mail_end(struct buf *out);

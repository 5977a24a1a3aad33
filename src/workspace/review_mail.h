// SPDX-License-Identifier: Apache-2.0
// The change set as a mail that `git am` takes, or as a commit in the shadow repository.
#pragma once
#include "workspace/review.h"

struct mail {
	const char *author, *email, *subject, *message; // message may be NULL
	uint64_t date; // seconds since 1970
};

// A commit on `parent` (hex): its tree with the marked changes, each as P + set has it, whatever the host has meanwhile.
// refs/skep/export names it then.
int mail_commit(struct review *r, const struct mail *m, const char *parent, uint8_t out[SHADOW_OID],
		uint8_t out_tree[SHADOW_OID], struct err *e) MUST_USE;
// Head and summary; the patches follow, then mail_end.
int mail_head(const struct review *r, const struct mail *m, struct buf *out, struct err *e) MUST_USE;
void mail_end(struct buf *out);

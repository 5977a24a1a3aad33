// SPDX-License-Identifier: Apache-2.0
// Changes as text: git's patch format, that plain `git apply` takes, and its two summaries.
#pragma once
#include "workspace/review.h"

// Appends the patch from the host's content to what apply would write now. Nothing for directories, for what conflicts,
// is lost, or is too long to be kept. only_taken: just the hunks marked `take`.
int change_patch(struct review *r, const struct change *c, unsigned context, bool only_taken, struct buf *out,
		 struct err *e) MUST_USE;
// One hunk as a patch shows it: "@@ … @@" and its lines, with context. A conflicting one stands on the base.
void hunk_text(const struct hunk *x, const struct lines *p, const struct lines *h, const struct lines *s,
	       unsigned context, struct buf *out);
void change_name_status(const struct change *c, struct buf *out); // "M\tpath\n"
// What nobody inside may read can not be shown, and is said: for a patch, or (status) a list of names.
void patch_unread(const struct copy_entry *en, bool status, struct buf *out);
void patch_stat(const struct review *r, struct buf *out);	  // as git diff --stat
void patch_quote(struct buf *out, const char *prefix, const char *path); // as git does, in "" when it must be
bool change_has_patch(const struct change *c);

// SPDX-License-Identifier: Apache-2.0
// A private .git as a result of skep-repo, for whichever verb makes one.
#pragma once
#include "workspace/gitlayer.h"
#include "workspace/repo.h"

struct jsonw;
void repo_print_layer(struct jsonw *w, const struct gitlayer *l); // members of an open object
// The private .git of a->dir in the directory `into`; its result appended to out.
// keep: objects are not borrowed but taken along, into this directory, which becomes INTO/objects; -1: borrowed.
int repo_make_layer(const struct repo_args *a, int into, int keep, struct buf *out, struct err *e) MUST_USE;
int repo_write_result(int dir, struct buf *out, struct err *e) MUST_USE;
int repo_read_result(const char *path, struct buf *out, struct err *e) MUST_USE;

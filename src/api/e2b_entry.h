// SPDX-License-Identifier: Apache-2.0
// A file or directory as E2B's envd tells of it.
#pragma once
#include "base/jsonw.h"
#include "model/entry.h"

void entry_info(struct jsonw *w, const struct entry *n); // filesystem.EntryInfo
void entry_notes(struct jsonw *w, char *const *notes); // the member metadata; nothing when there are none
void entry_permissions(struct buf *b, uint32_t mode); // as Go prints a file's mode

// SPDX-License-Identifier: Apache-2.0
// The index of a day's archive: which journal of a removed sandbox lies where in the compressed file beside it. A line for each,
// "ID OFFSET LENGTH RAW SHA256": where the deflated bytes are, how many, how long the journal is, and its hash. A line that
// makes no sense is passed over; of two lines about one id the later counts. What a line says is never what is allocated.
#pragma once
#include "base/buf.h"
#include "base/id.h"
#include "base/sha256.h"

#define ARCHIVE_RAW_MAX (4ull << 20) // a longer journal keeps a directory of its own
#define ARCHIVE_LINE_MAX 200

struct archive_entry {
	char id[ID_SIZE], sha256[SHA256_HEX];
	uint64_t offset, length, raw;
};

void archive_line_write(struct buf *b, const struct archive_entry *en); // with its newline
bool archive_line_parse(const char *line, size_t n, struct archive_entry *out); // without
// Calls fn with each entry of the file, from its start. -1: it can not be read.
int archive_each(int fd, void (*fn)(void *ctx, const struct archive_entry *en), void *ctx, struct err *e) MUST_USE;
// 1 = found, 0 = there is none.
int archive_find(int fd, const char *id, struct archive_entry *out, struct err *e) MUST_USE;

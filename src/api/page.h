// SPDX-License-Identifier: Apache-2.0
// Lists in pieces: ?limit=N and ?cursor=WHERE. A list is newest first, so a cursor is the time and id of the last one that
// was given: what comes and goes meanwhile moves nothing else.
#pragma once
#include "api/server.h"
#include "base/id.h"
#include "base/jsonw.h"

#define PAGE_MAX 1000

struct page {
	uint64_t limit; // 0 = all
	bool has_cursor, passed, more;
	uint64_t at, n;
	char id[ID_SIZE];
	char next[48];
};

int page_begin(struct request *r, struct page *out, struct err *e) MUST_USE;
bool page_takes(struct page *p, const char *id, uint64_t created); // for each in order: is it in this piece?
void page_next(const struct page *p, struct jsonw *w);		  // the member "next": a cursor, or null at the end

// SPDX-License-Identifier: Apache-2.0
// What most handlers begin and end with.
#pragma once
#include "api/page.h"
#include "api/server.h"
#include "base/jsonw.h"

struct outcome;

struct jsonw answer_json(struct request *r); // writes the body of the answer

// Ends of operations, as struct done has them; ctx is the request.
void answer_sandbox(void *ctx, const struct err *e, const struct outcome *o); // 200 and the sandbox
void answer_empty(void *ctx, const struct err *e, const struct outcome *o);   // 204

// Beginnings. False: the request was failed.
bool answer_no_body(struct request *r);
bool answer_offset(struct request *r, uint64_t *out_offset); // ?offset=, or 0

void answer_number(char out_text[24], uint64_t v); // for r->offset and r->end

// {"KEY":[…]}, and "next" where it comes in pieces: what is listed is written to w.
struct listing {
	struct request *r;
	struct jsonw w;
	bool paged;
	struct page page;
};
struct listing listing_begin(struct request *r, const char *key);
bool listing_page(struct request *r, const char *key, struct listing *out); // in pieces. False: the request was failed
void listing_end(struct listing *l);

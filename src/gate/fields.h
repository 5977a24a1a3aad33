// SPDX-License-Identifier: Apache-2.0
// The head of a request or an answer as both protocols see it: what swap.c and mask.c work on. Everything is owned and
// free of NUL, CR and LF, because the parsers (http/head.h, nghttp2) let none through.
#pragma once
#include "http/head.h"
#include "model/policy.h"

struct field {
	char *name, *value;
	bool ours; // the gate put a secret into it: wiped when it goes, never indexed by HPACK
};

struct head {
	char *method, *path; // of a request; path with its query
	bool path_ours;
	int status; // of an answer
	struct field *f;
	size_t n, cap, bytes; // bytes: of all names and values as they were added
};

void head_done(struct head *h); // safe on zeroes
void head_add(struct head *h, struct str name, struct str value);
// False when the head is past the limits of http/head.h: nothing was added.
bool head_add_bounded(struct head *h, struct str name, struct str value);
const char *head_get(const struct head *h, const char *name);		    // the first one's value; NULL = absent
bool head_lists(const struct head *h, const char *name, const char *token); // in any field of that name
void head_drop(struct head *h, const char *name);			    // every field of that name
void head_drop_at(struct head *h, size_t i);
void head_value(struct field *f, const char *p, size_t n, bool ours); // replaces the value

// The pairs of a query, one after the other: rest is what stands behind the '?'. Some servers also part them at ';'. The mark
// before a pair is pair->p[-1].
bool query_next(struct str *rest, struct str *pair);
struct str query_key(struct str pair);

// Fields that concern one connection only, and those named by Connection. A websocket's Upgrade is kept if asked for.
void head_strip_hops(struct head *h, bool keep_upgrade);

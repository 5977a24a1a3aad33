// SPDX-License-Identifier: Apache-2.0
// multipart/form-data as it comes: parts and their bytes, with nothing kept but the head of a part.
#pragma once
#include "base/buf.h"

#define MULTIPART_BOUNDARY 70
#define MULTIPART_HEAD (16u << 10) // bytes of one part's head
#define MULTIPART_PARTS 10000

struct multipart_ops {
	// A part begins. name "" and filename NULL: it does not say. -1: *e, and no more.
	int (*part)(void *ctx, const char *name, const char *filename, struct err *e);
	size_t (*data)(void *ctx, const char *p, size_t n); // how much of it was taken
	void (*part_end)(void *ctx);
};

struct multipart {
	const struct multipart_ops *ops;
	void *ctx;
	bool hold; // for ops to set: no more is taken until it is false again
	// its own
	char delimiter[MULTIPART_BOUNDARY + 5];
	size_t n_delimiter, matched, flush_at, flush;
	enum { MULTIPART_BEFORE, MULTIPART_DATA, MULTIPART_LINE, MULTIPART_HEADS, MULTIPART_OVER } state;
	struct buf head;
	unsigned parts;
	bool dash;
	bool unread; // the CR LF before the delimiter was no byte of the part
};

int multipart_init(struct multipart *m, const char *content_type, const struct multipart_ops *ops, void *ctx, struct err *e) MUST_USE;
void multipart_done(struct multipart *m);
// How many bytes were taken; less than n: it was held, or a part's bytes were not taken. -1: *e.
long multipart_feed(struct multipart *m, const char *p, size_t n, struct err *e) MUST_USE;
bool multipart_is_over(const struct multipart *m); // the last boundary was seen

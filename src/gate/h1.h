// SPDX-License-Identifier: Apache-2.0
// HTTP/1.x messages, pure: bytes to heads and framing, and back. Strict: where two readers could disagree about where a
// request ends or whom it is for, it is refused. The driver in h1.c moves them between client and host.
#pragma once
#include "gate/fields.h"

enum body_kind { BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_EOF };

struct h1_message {
	struct head head; // without hop-by-hop fields, framing and Host
	char *authority;  // request: Host; NULL = missing or given twice
	enum body_kind body;
	uint64_t length; // with BODY_LENGTH
	bool has_length; // answer without a body: length is only told (HEAD, 304)
	bool keep;	 // the connection may be used again
	bool websocket;	 // request: asks to become one; answer: is one now
	bool old;	 // HTTP/1.0
};
void h1_message_done(struct h1_message *m);

// Bytes the head took; 0 = more are needed; -1 = refuse it. *out is written only when > 0.
ssize_t h1_read_request(const char *p, size_t n, struct h1_message *out, struct err *e) MUST_USE;
// to_head: the answer to a HEAD request.
ssize_t h1_read_answer(const char *p, size_t n, bool to_head, struct h1_message *out, struct err *e) MUST_USE;

// A body on its way in.
struct body {
	enum body_kind kind;
	uint64_t left;
	struct http_chunks chunks;
	struct buf trailer; // its lines
	bool done;
};
void body_init(struct body *b, const struct h1_message *m);
void body_done(struct body *b);
// Appends to out what p holds of the body; bytes used, or -1. b->done once it is complete (BODY_EOF: never by itself).
ssize_t body_take(struct body *b, const char *p, size_t n, struct buf *out, struct err *e) MUST_USE;

// Writing. out of an answer may be framed otherwise than it came.
void h1_put_request(const struct h1_message *m, const char *authority, struct buf *out);
void h1_put_answer(const struct h1_message *m, enum body_kind framing, bool keep, struct buf *out);
void h1_put_body(enum body_kind framing, const char *p, size_t n, struct buf *out);
// trailer: fields, may be NULL.
void h1_put_end(enum body_kind framing, const struct head *trailer, struct buf *out);
void h1_put_refusal(int status, const char *reason, const struct buf *text, bool to_head, struct buf *out);

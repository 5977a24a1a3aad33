// SPDX-License-Identifier: Apache-2.0
// A blocking HTTP/1.1 client on a connected stream socket, one request at a time, connection kept.
#pragma once
#include "http/head.h"

#define HTTP_WAIT_MS 500
#define HTTP_LONG_WAIT_MS 3000
#define HTTP_AGAIN_MS 1000 // and then each second
#define HTTP_BODY_MAX (16u << 20)

struct http_client {
	int fd;			       // owned; -1 = closed: after an error or when the server closed
	bool long_answer; // one was: read more at once
	struct buf in;		       // bytes behind the last answer
	void (*on_wait)(int fd, unsigned waited_ms); // optional: no answer yet after HTTP_WAIT_MS, after HTTP_LONG_WAIT_MS and each second then; 0: it came
	const char *host;	       // borrowed, for the Host header; NULL = a unix socket
	const char *token;	       // borrowed, for Authorization; NULL = none
};

struct http_request {
	const char *method, *path; // path: already encoded
	const char *body;	   // JSON, or NULL
	size_t body_len;
	const int *body_fd, *reply_fd; // files instead: what is sent from its begin on, where a good answer's body is written; NULL = none
	size_t reply_max;	   // bytes of an answer's body; 0 = HTTP_BODY_MAX
	// Of an answer in chunks: called with what is there of the body after each piece; may cut off what it has used. NULL = none
	void (*on_piece)(void *ctx, struct buf *body);
	void *ctx;
};

struct http_reply {
	struct buf raw, body; // raw: what head borrows from
	struct http_head head;
};
#define auto_http_reply __attribute__((cleanup(http_reply_done)))

void http_client_init(struct http_client *c, int fd); // takes fd
void http_client_done(struct http_client *c);
// Fills *out (zeroed or from an earlier call). An HTTP error status is an answer, not a failure.
int http_call(struct http_client *c, const struct http_request *rq, struct http_reply *out, struct err *e) MUST_USE;
void http_reply_done(struct http_reply *r);
// Appends s with everything but letters, digits and -._~ percent-encoded.
void http_encode(struct buf *b, const char *s);

// SPDX-License-Identifier: Apache-2.0
// The head of an HTTP/1.x answer or request, and chunked bodies: pure and bounded, bytes in, structs out. Strict where
// leniency lets two readers disagree: CRLF only, no folded lines, one framing, one Content-Length.
#pragma once
#include "base/buf.h"
#include "base/str.h"
#include <sys/types.h>

#define HTTP_HEAD_MAX (64u << 10)
#define HTTP_FIELDS_MAX 200

struct http_field {
	struct str name, value; // borrowed from the parsed bytes
};

struct http_head {
	int status;		   // of an answer: 100-599
	struct str method, target; // of a request; borrowed, printable bytes without spaces
	int minor;		   // of the version: 0 or 1
	uint64_t length;	   // with has_length
	bool has_length, chunked;
	bool close; // HTTP/1.0, or Connection says close
	int n_fields;
	struct http_field fields[HTTP_FIELDS_MAX];
};

// Bytes the head takes with its empty line; 0 = not all of it is there yet; -1 = not an answer.
ssize_t http_head_parse(const char *p, size_t n, struct http_head *out, struct err *e) MUST_USE;
// The same for a request. The target is not looked into.
ssize_t http_request_parse(const char *p, size_t n, struct http_head *out, struct err *e) MUST_USE;
// The fields of a trailer: lines that each end in CRLF, no empty line. Framing headers are refused there.
int http_trailer_parse(const char *p, size_t n, struct http_head *out, struct err *e) MUST_USE;
struct str http_head_get(const struct http_head *h, const char *name); // case-insensitive; {NULL, 0} when absent
bool http_name_is(struct str name, const char *lit);		       // case-insensitive
bool http_list_has(struct str value, const char *token);	       // a comma-separated list, case-insensitive

struct http_chunks {
	enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_DATA_END, CHUNK_TRAILER, CHUNK_DONE } state;
	uint64_t left;	      // bytes of this chunk still to come
	size_t line;	      // bytes of the size or trailer line so far
	size_t trailer;	      // bytes of the trailer so far
	bool digits_over, cr; // in a size line: extension begun; CR seen
	struct buf *keep;     // borrowed: where the trailer's lines go; NULL = nowhere
};

// Decodes what it can into out and returns how many bytes it used (all of them unless the body ended), or
// -1 when malformed or past out->max.
ssize_t http_chunks_add(struct http_chunks *c, const char *p, size_t n, struct buf *out, struct err *e) MUST_USE;

// SPDX-License-Identifier: Apache-2.0
// Heads on their way through a preview, pure: which sandbox and port a request is for, and what of it and of its answer
// is passed on. Everything from inside a sandbox is hostile to the browser's other pages, everything of ours (tokens,
// cookies, links) is hidden from the inside.
#pragma once
#include "base/id.h"
#include "http/head.h"

#define PREVIEW_COOKIE "skep_preview" // and the name of a link's query member
#define PREVIEW_NAME_MAX 48	      // an id or the name of a sandbox

enum preview_form {
	PREVIEW_NONE,
	PREVIEW_HOST,	 // Host: PORT-SANDBOX.anything
	PREVIEW_PATH,	 // /preview/SANDBOX/PORT/…
	PREVIEW_HEADERS, // E2b-Sandbox-Id and E2b-Sandbox-Port
	PREVIEW_BAD,	 // meant for a preview, and malformed
};

struct preview_target {
	enum preview_form form;
	char sandbox[PREVIEW_NAME_MAX + 1];
	uint16_t port;
	size_t prefix;	   // PATH: bytes of the target that name the preview, without the slash behind them
	struct str host;   // as the client gave it, borrowed; empty = none
};
// reserved: a port that somebody else serves (0 = none): NONE.
void preview_target_parse(const struct http_head *h, uint16_t reserved, struct preview_target *out);

// Whose page sends the request, as far as its browser tells: Origin, else Sec-Fetch-Site. A request without either is not
// from a page, or from one over plain HTTP, where browsers send Sec-Fetch to loopback names only.
enum preview_origin {
	ORIGIN_OWN,	   // the preview's own page, one of another port of the same sandbox, a typed address, a program
	ORIGIN_NAVIGATION, // a link of another page was followed: the whole window shows the answer
	ORIGIN_FOREIGN,	   // another page acts: a WebSocket, a form, a fetch, an image, a frame
};
enum preview_origin preview_origin(const struct http_head *h, const struct preview_target *t);
bool preview_came_from_elsewhere(const struct http_head *h); // or may have: a cookie with SameSite=Strict does not come along then
struct str preview_host_rest(struct str host); // of PORT-SANDBOX.REST

enum body_frame { FRAME_NONE, FRAME_LENGTH, FRAME_CHUNKED, FRAME_END }; // END: until the connection ends

struct preview_request {
	bool websocket, keep, head; // head: HEAD, whose answer has no body
	bool ambient; // let in by what a browser adds by itself: a cookie, or where it stands. Set by who judged
	enum body_frame frame;
	uint64_t length;
};

struct preview_way {
	const char *peer;	   // address of the client, as text
	bool https, trusted;	   // trusted: the peer is a reverse proxy of ours, whose X-Forwarded fields are believed
	bool keep_host;		   // the inside sees the Host that the client gave
	const char *host;	   // or this one; NULL = localhost:PORT
};

// What came is written anew for the inside.
int preview_put_request(const struct http_head *h, const struct preview_target *t, const struct preview_way *way, struct buf *out,
			struct preview_request *r, struct err *e) MUST_USE;

struct preview_answer {
	int status;
	bool websocket;
	enum body_frame frame; // as it comes from the inside
	bool chunk;	       // towards the client it goes in chunks
	bool close;	       // the client's connection ends with it
	uint64_t length;
};
// old: the client speaks HTTP/1.0.
int preview_put_answer(const struct http_head *h, const struct preview_target *t, const struct preview_request *r, bool old,
		       struct buf *out, struct preview_answer *a, struct err *e) MUST_USE;

// The value of a query member, still encoded; {NULL, 0} when absent.
struct str preview_query(struct str target, const char *name);
// The target without that member.
void preview_without(struct str target, const char *name, struct buf *out);
struct str preview_cookie(const struct http_head *h, const char *name, int n); // the n-th of that name, from 0

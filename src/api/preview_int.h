// SPDX-License-Identifier: Apache-2.0
// Inside the preview: preview.c moves bytes, preview_visit.c judges requests, preview_page.c has what we say ourselves.
#pragma once
#include "api/front.h"
#include "api/preview.h"
#include "base/flow.h"
#include "engine/access.h"

#define PREVIEW_ENVD 49983 // E2B's own port: served by its surface, never by a sandbox

enum visit_stage {
	VISIT_READING,	// a request's head is not whole yet
	VISIT_DIALLING, // it was judged, and the connection inwards is being made
	VISIT_PASSING,	// request inwards, answer outwards
	VISIT_TUNNEL,	// after a 101
	VISIT_RESTING,	// answered, and the last bytes are leaving; then the front waits for the next request
	VISIT_CLOSING,	// the same, and then it ends
};

// A body on its way.
struct relay {
	enum body_frame frame;
	bool chunk; // it leaves in chunks
	bool done;
	uint64_t left;
	struct http_chunks chunks;
};
// preview_relay.c
void relay_begin(struct relay *r, enum body_frame frame, uint64_t length, bool chunk); // chunk: leave in chunks
ssize_t relay_pass(struct relay *r, const char *p, size_t n, struct flow *to); // bytes used, no more than are its own; -1: malformed
void relay_finish(struct relay *r, struct flow *to); // nothing more will come

// One client connection.
struct visit {
	struct preview *p;
	struct front_conn *conn;
	struct visit *next;
	struct flow *client, *inside;
	struct buf in;	    // of the client, not used yet
	struct buf head;    // of the inside, until it is whole
	struct buf request; // rewritten, until there is somebody to send it to
	enum visit_stage stage;
	struct preview_target target; // its host is void once the request was judged
	struct preview_request asked;
	struct preview_answer answer;
	struct relay inwards, outwards;
	struct dialling_visit *dialling;
	bool ambient; // what let it in was added by the browser itself
	bool old, answered, half, html, e2b;
	char sandbox[ID_SIZE]; // judged
	char sign[PREVIEW_LINK_MAX], token[20]; // what let it in: a link, or the token of this id; "" = another
	struct actor who;
	struct timer late;
};

struct preview {
	struct loop *loop;
	struct engine *engine;
	const struct preview_policy *policy; // NULL = none
	struct front_taker *taker;
	struct visit *visits;
};

// preview.c
void visit_say(struct visit *v, struct buf *page); // an answer of our own; the connection ends behind it
void visit_dial(struct visit *v);
void visit_end(struct visit *v);

// preview_visit.c: a whole head. Ends in visit_say or visit_dial.
void visit_judge(struct visit *v, const struct http_head *h);

// preview_page.c
enum page {
	PAGE_MALFORMED,
	PAGE_MISDIRECTED,
	PAGE_UNKNOWN,	   // no such sandbox
	PAGE_UNAUTHORIZED, // nothing shown that lets one in
	PAGE_FORBIDDEN,
	PAGE_FOREIGN, // another page asked, and the browser added the cookie
	PAGE_CLOSED, // nothing listens on the port
	PAGE_BROKEN, // the server inside does not speak HTTP, or went away
	PAGE_UNAVAILABLE,
	PAGES,
};
void visit_page(struct visit *v, enum page page, const char *detail); // detail: further text, may be NULL
void page_redirect(struct buf *out, const char *location, const char *cookie);
void page_bounce(struct buf *out, const char *location, const char *cookie); // a page of this origin that leads there

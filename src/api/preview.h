// SPDX-License-Identifier: Apache-2.0
// Ports of sandboxes for browsers and other HTTP clients: a proxy that takes connections from the front.
//
// Each request is judged by itself, also on a kept connection: whom it is for (preview_head.h), whether its sender may
// (a token, a link's signature or its cookie, or who the E2B surface lets in), then a connection into the sandbox is made
// for it alone. Bodies are relayed with flow control in both directions; a WebSocket becomes a pair of byte streams.
#pragma once
#include "api/server.h"
#include "api/preview_head.h"

struct preview;
struct front;
struct front_taker;
struct sandbox;

// What another surface says of access to a sandbox's ports.
enum preview_verdict {
	PREVIEW_ASK,   // it has no say: a token or a link is needed
	PREVIEW_OPEN,  // anybody may
	PREVIEW_CLOSED // its own token was needed, and is missing or wrong: 403 in E2B's form
};
struct preview_policy {
	// traffic_token: of the header e2b-traffic-access-token; NULL = none.
	enum preview_verdict (*judge)(void *ctx, const struct sandbox *s, uint16_t port, const char *traffic_token);
	// Owned: the Host that the inside sees; NULL = the usual.
	char *(*host_of)(void *ctx, const struct sandbox *s, uint16_t port);
	// Before it is dialled: fn is called at once or later. runs false: it is a sandbox of theirs that does not run, and is not
	// brought back for this.
	void (*wake)(void *ctx, const char *sandbox, void (*fn)(void *ctx, bool runs), void *fn_ctx);
	bool (*is_e2b)(void *ctx, const struct sandbox *s); // errors in E2B's form; s NULL: unknown sandbox, asked by headers
	void *ctx;
};

struct preview *preview_new(struct loop *l, struct engine *g);
void preview_free(struct preview *p);
void preview_set_policy(struct preview *p, const struct preview_policy *policy); // borrowed
const struct front_taker *preview_taker(struct preview *p);

// Links (preview_link.c). The signature of a link is good for one sandbox and port until it expires.
#define PREVIEW_LINK_MAX 96
int preview_sign(struct engine *g, const char *sandbox, uint16_t port, uint64_t expires_unix_s, char out[PREVIEW_LINK_MAX],
		 struct err *e) MUST_USE;
// Seconds it is still good for; 0 = it is not.
uint64_t preview_check(struct engine *g, const char *sandbox, uint16_t port, struct str signature);
// Takes one back, or (signature {NULL, 0}) all of the port; of port 0: of the sandbox. Those made later are good.
int preview_revoke(struct engine *g, const char *sandbox, uint16_t port, struct str signature, struct err *e) MUST_USE;

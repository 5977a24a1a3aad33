// SPDX-License-Identifier: Apache-2.0
// HTTP with one registry: transfers that run beside each other, follow redirects, retry, continue and log in.
//
//            begin            200, 206
//   WAITING ───────▶ RUNNING ──────────▶ sink ──▶ DONE
//      ▲                │ 401: log in once, again          FAILED: err says why; the others are stopped
//      │                │ 3xx: again there, without the login unless it is the same origin
//      └──── a while ───┤ 429, 5xx, a connection that broke: again from where it was
//                       └ anything else ─────────────────▶ FAILED
//
// A login belongs to the registry's origin (scheme, host, port) and is sent to no other. TLS is verified with the
// system's authorities and those of ca_file.
#pragma once
#include "base/buf.h"
#include "model/imageref.h"
#include "pull/url.h"

struct pull_session;
struct pull_session_config {
	const struct image_endpoint *at;
	const char *repository;	    // below the endpoint's prefix
	const char *user, *password; // NULL = none
	const char *bearer;	    // a token that the registry takes as it is; NULL = none
	const char *ca_file;	    // NULL = the system's authorities alone
	void (*tick)(void *ctx);    // between two rounds of input and output
	void *ctx;
};
struct pull_session *pull_session_new(const struct pull_session_config *c, struct err *e) MUST_USE;
void pull_session_free(struct pull_session *s);

// Where a body goes. An error of any of them is the transfer's.
struct pull_sink {
	int (*begin)(void *ctx, bool continued, struct err *e); // continued: at the offset; else from the start
	int (*data)(void *ctx, const char *p, size_t n, struct err *e);
	int (*end)(void *ctx, struct err *e); // 1: once more from the start
	uint64_t (*offset)(void *ctx);	      // where the next try may begin; NULL = 0
	void *ctx;
};

struct pull_transfer {
	char *path;	     // below the registry's origin
	const char *accept;  // or NULL
	struct pull_sink sink;
	char type[128], digest[128]; // Content-Type and Docker-Content-Digest of the answer
	struct transfer_run *run;    // the session's
};
// All of them, at most `together` at a time. The first failure stops the others before this returns: no sink is called
// afterwards, and no connection is open.
int pull_session_run(struct pull_session *s, struct pull_transfer *t, size_t n, size_t together, struct err *e) MUST_USE;
// One body into memory. https is tried first where both are allowed.
int pull_session_get(struct pull_session *s, const char *path, const char *accept, struct buf *out, char type[128], char digest[128],
		     struct err *e) MUST_USE;

// SPDX-License-Identifier: Apache-2.0
// The E2B-compatible surface (docs/e2b.md): one route table (e2b.c) for the control plane and for what E2B calls envd, the
// daemon inside a sandbox, whose part here is e2b_envd.h. A box is what E2B knows of a sandbox beside its row; it is kept as
// a note of the engine and is gone with the sandbox.
#pragma once
#include "api/server.h"
#include "base/id.h"
#include "engine/engine.h"

struct preview_policy; // api/preview.h

#define E2B_ENVD_VERSION "0.6.13" // what the SDKs are told: decides which calls they make
#define E2B_USER "user"
#define E2B_HOME "/home/user"

extern const struct surface e2b_api;
extern const struct preview_policy e2b_preview; // E2B lets anybody who knows its id reach a sandbox's ports, unless it was made otherwise

struct e2b_box {
	char id[ID_SIZE];
	char token[KEY_SIZE];	// envdAccessToken; "" = anybody who knows the id may (create with secure: false)
	char traffic[KEY_SIZE]; // for its other ports; "" = open
	char *template_id, *alias; // alias NULL = none
	char *user, *workdir;	// of a command that names none; never NULL
	char **env;		// NAME=value: of the template, then of the create, and E2B_SANDBOX, E2B_SANDBOX_ID, E2B_TEMPLATE_ID
	char **metadata;	// name, value, name, value, …; never NULL
	char *network;		// the JSON object it was told, without values of headers; NULL = nothing
	char *mask_host;	// the Host that requests to its ports have, "${PORT}" in it is the port; NULL = the usual
	bool has_internet, internet; // allow_internet_access as it was told
	bool auto_pause, auto_resume;
	bool drops_memory;	// the pause at the end of its time keeps files only
	bool no_memory;		// it was paused so: traffic does not bring it back
	uint64_t timeout_ms;	// of the create: what a resume by traffic gets
	uint64_t started, paused; // Unix ms; paused 0 = it is not
	uint64_t ends;		// when it is killed or paused, 0 = never
	bool killed;		// it is being removed: nobody finds it any more
	unsigned held;		// operations under way that may stop it for a moment: it counts as running
	struct e2b_box *next;
};

// The boxes of this daemon: called once, when the engine has found its sandboxes again.
int e2b_start(struct loop *l, struct engine *g, struct err *e) MUST_USE;
void e2b_stop(void);

// By the id of a request ("ID" or "ID-CLIENT"). NULL: there is none, or it was killed.
struct e2b_box *e2b_box_get(struct engine *g, const char *id);
struct e2b_box *e2b_boxes(struct engine *g); // first of all
bool e2b_is_running(struct engine *g, const struct e2b_box *b); // neither paused nor gone

// A question whether it runs (/health) is no traffic. For traffic to a sandbox: fn is called at once when it runs, later when it has to be resumed first (autoResume), with b NULL
// when it does not run. fn finds its own state in ctx.
void e2b_awake(struct engine *g, const char *id, void (*fn)(void *ctx, struct e2b_box *b), void *ctx);

// A stream or transfer that ends at once, without a proper end, when its sandbox is paused or killed. cut is called after the
// entry was taken off the list.
struct e2b_stream {
	char sandbox[ID_SIZE];
	void (*cut)(struct e2b_stream *s);
	struct e2b_stream *next;
};
void e2b_stream_add(struct e2b_stream *s, const char *sandbox);
void e2b_stream_del(struct e2b_stream *s); // one that is not on the list is fine

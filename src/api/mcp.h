// SPDX-License-Identifier: Apache-2.0
// The Model Context Protocol on /mcp: JSON-RPC messages, one POST each (docs/mcp.md).
//
// Two eras share one endpoint. Modern (2026-07-28): every request says its version in params._meta, there is no handshake and
// no session. Legacy (2025-11-25 and before): `initialize` first, a session if the client keeps the header. The era is chosen
// per message. A site is one set of tables behind that; skepd has one (mcp_site), the conformance fixtures another.
//
// A message that came over stdio (`skep mcp`, query stdio=1) has no headers to compare, and a client that goes away has
// cancelled; over legacy HTTP only notifications/cancelled does that.
#pragma once
#include "api/server.h"
#include "base/jsonw.h"

#define MCP_VERSION_MODERN "2026-07-28"
#define MCP_VERSION_LEGACY "2025-11-25" // the newest of them
#define MCP_SESSIONS 256
#define MCP_CALLS 512 // at once
#define MCP_ID_MAX 256 // bytes of a request's id

// JSON-RPC's codes, and the protocol's
enum {
	RPC_PARSE = -32700,
	RPC_INVALID = -32600,
	RPC_NO_METHOD = -32601,
	RPC_PARAMS = -32602,
	RPC_INTERNAL = -32603,
	MCP_HEADER_MISMATCH = -32020,
	MCP_MISSING_CAPABILITY = -32021,
	MCP_BAD_VERSION = -32022,
};

enum mcp_era { MCP_LEGACY = 1, MCP_MODERN = 2 };

// One message as it was read; everything is borrowed from root.
struct mcp_message {
	json_t *root; // owned
	enum { MCP_REQUEST, MCP_NOTIFICATION, MCP_RESPONSE } kind;
	const json_t *id, *params, *meta; // NULL = none
	const char *method;		  // NULL in a response
};
struct mcp_fault {
	int code, http;
	struct err e;
};
// -1: *f says what to answer; what could be read of the id is in out->id.
int mcp_message_read(const char *p, size_t n, struct mcp_message *out, struct mcp_fault *f) MUST_USE;
void mcp_message_done(struct mcp_message *m);

// The headers of the request that the message came in; NULL = absent.
struct mcp_headers {
	bool stdio; // there are none
	const char *version, *method, *name;
};
// Which era, and whether message and headers agree. *out_version is borrowed.
int mcp_message_judge(const struct mcp_message *m, const struct mcp_headers *h, enum mcp_era *out_era, const char **out_version,
		      struct mcp_fault *f) MUST_USE;
bool mcp_version_known(const char *version);

// --- sites ---

struct mcp_call;
struct mcp_method {
	const char *name;
	unsigned eras;
	void (*fn)(struct mcp_call *c);
};

enum mcp_kind { MCP_STR, MCP_INT, MCP_BOOL };
struct mcp_param {
	const char *name; // NULL ends the table
	enum mcp_kind kind;
	bool required;
	const char *help;
	int64_t min, max; // of a number; of a string: bytes
	const char *choices; // "a|b"
};
#define MCP_SANDBOX "sandbox" // this parameter is not there where one sandbox is pinned

enum { HINT_READ = 1, HINT_DESTROYS = 2, HINT_IDEMPOTENT = 4, HINT_OPEN_WORLD = 8 };
struct mcp_tool {
	const char *name, *title, *help; // a NULL name ends the table
	const struct mcp_param *params;	 // NULL = none
	const char *in;			 // JSON: the schema itself where params do not say it
	const char *out;		 // JSON: schema of the result; NULL = none
	unsigned hints;
	bool free_only; // not where one sandbox is pinned
	void (*fn)(struct mcp_call *c, const json_t *args); // args: checked
};

struct mcp_site {
	struct surface surface; // its mine, fail and routes are mcp_mine, mcp_fail and mcp_routes
	const char *name, *title, *version, *instructions;
	const char *capabilities[2]; // JSON: legacy, modern
	const struct mcp_method *methods; // besides those of the protocol itself and of tools
	const struct mcp_tool *tools;
	void (*on_response)(const char *session, const struct mcp_message *m); // to what a tool asked its client; may be NULL
};
extern const struct mcp_site mcp_site; // skepd's

bool mcp_mine(const struct request *r);
void mcp_fail(struct request *r, const struct err *e);
extern const struct route mcp_routes[];

// --- one call: a request that has not been answered ---

struct mcp_call {
	struct request *r; // NULL: its client is gone, and so is the stream
	const struct mcp_site *site;
	struct engine *engine;
	struct loop *loop;
	struct mcp_message m; // owned
	enum mcp_era era;
	char version[16];
	char *id;      // as JSON
	char *session; // NULL = none
	char *pin;     // the one sandbox; "" = one, not made yet; NULL = any
	char *cwd;     // where its client works; NULL = not known
	bool stdio, streaming, gone, cancelled;
	struct buf out, links; // links: further blocks of a tool's content
	void *ctx; // the handler's own
	uint64_t review; // the engine's number of the one it waits for
	void (*on_cancel)(struct mcp_call *c); // must lead to an answer (which nobody gets)
	struct mcp_call *next;
};

// A result: members between the two; nothing is kept of the call afterwards.
struct jsonw mcp_result_begin(struct mcp_call *c, const char *result_type);
void mcp_result_end(struct mcp_call *c, struct jsonw *w);
void mcp_cacheable(struct mcp_call *c, struct jsonw *w, uint64_t ttl_ms, bool public);
void mcp_error(struct mcp_call *c, int code, int http, const char *message, const char *data); // data: JSON or NULL
void mcp_message_send(struct mcp_call *c, const struct buf *message); // before the result: a notification, or a legacy request
const json_t *mcp_progress_token(const struct mcp_call *c); // NULL = progress is not wanted
void mcp_progress(struct mcp_call *c, uint64_t progress, uint64_t total, const char *message); // total 0, message NULL: not said
const json_t *mcp_client_capabilities(const struct mcp_call *c); // modern; NULL = none

// --- tools (mcp_tools.c) ---
void mcp_tools_list(struct mcp_call *c);
void mcp_tools_call(struct mcp_call *c);
int mcp_args_check(const struct mcp_tool *t, const json_t *args, bool pinned, struct err *e) MUST_USE;
// A result with structured content: the object's members are written between these.
struct jsonw mcp_answer_begin(struct mcp_call *c);
void mcp_answer_link(struct mcp_call *c, const char *uri, const char *name, const char *type, uint64_t size); // behind the text
void mcp_answer_end(struct mcp_call *c, struct jsonw *w);
// The tool did not do it: said to the model, with what to do next (NULL = nothing more to say).
void mcp_refuse(struct mcp_call *c, const struct err *e, const char *next);
const char *mcp_arg(const json_t *args, const char *key); // NULL when absent
uint64_t mcp_arg_num(const json_t *args, const char *key, uint64_t otherwise);
bool mcp_arg_bool(const json_t *args, const char *key);
void mcp_text(struct jsonw *w, const char *key, const char *p, size_t n); // bytes that may not be UTF-8, as near as can be

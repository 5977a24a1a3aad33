// SPDX-License-Identifier: Apache-2.0
// Between mcp.c (the way in) and mcp_call.c.
#pragma once
#include "api/mcp.h"

// Takes what m holds. NULL: too many at once.
struct mcp_call *mcp_call_new(struct request *r, const struct mcp_site *site, struct mcp_message *m, enum mcp_era era,
			      const char *version);
void mcp_call_cancel(struct mcp_call *c); // may end it
void mcp_calls_cancel(const char *session, const json_t *id);
void mcp_server_info(struct jsonw *w, const struct mcp_site *s);
void mcp_error_body(struct jsonw *w, int code, const char *message, const char *data); // and the closing brace

// mcp_session.c: ids that clients of the legacy era keep. At most MCP_SESSIONS; the one not used for longest makes room.
const char *mcp_session_new(const char *version); // borrowed
const char *mcp_session_use(const char *id);	  // its version, borrowed; NULL = not known
bool mcp_session_end(const char *id);

// SPDX-License-Identifier: Apache-2.0
// A site that serves what the protocol's conformance suite asks for. It is never part of skepd.
#pragma once
#include "api/mcp.h"

extern const struct mcp_tool fixture_tools[];
extern const struct mcp_method fixture_methods[];

#define PNG "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
#define TEXT(t) "{\"type\":\"text\",\"text\":\"" t "\"}"

void answer_content(struct mcp_call *c, const char *blocks, bool is_error); // the members of content
void answer_messages(struct mcp_call *c, const char *messages);

// ask.c: what a tool wants to know from the client's side
void ask_legacy(struct mcp_call *c, const char *method, const char *params); // a request on the stream; the answer ends the call
void ask_on_response(const char *session, const struct mcp_message *m);
struct ask {
	const char *key, *method, *params;
};
// True: all of them are answered. False: the call was answered with what is missing; state NULL = none.
bool ask_modern(struct mcp_call *c, const struct ask *asks, size_t n, const char *state);
// The state that came back: 1 good, 0 none, -1 answered with an error.
int ask_state(struct mcp_call *c, char *out, size_t size);

// listen.c: streams of subscriptions
void listen_begin(struct mcp_call *c);
void listen_tell(const char *kind, const char *method);

// SPDX-License-Identifier: Apache-2.0
// Options about the network, shared by run, new and policy, and what goes with them in a request.
#pragma once
#include "base/json.h"
#include "base/jsonw.h"
#include "cli/opt.h"

struct net_opts {
	const char *preset;
	char **allow, **deny, **secrets, **expose;
	bool ask;
};

// Rows for an options struct that holds a struct net_opts at offset `at`.
#define NET_ROWS(at)                                                                                              \
	HINTED(OPT_STR, HINT_PRESET, (at) + offsetof(struct net_opts, preset), "net", 0, "PRESET",                 \
	       "what may be reached: none, registries, git, llm, open (or several: git,llm)"),                     \
		VALUE(OPT_LIST, (at) + offsetof(struct net_opts, allow), "allow", 0, "RULE",                       \
		      "let HOST[:PORT] be reached, too; more in skep policy set --help"),                          \
		VALUE(OPT_LIST, (at) + offsetof(struct net_opts, deny), "deny", 0, "RULE",                         \
		      "never let HOST[:PORT] be reached"),                                                         \
		HINTED(OPT_LIST, HINT_SECRET, (at) + offsetof(struct net_opts, secrets), "secret", 0, "NAME",      \
		       "let requests to its host use the secret NAME"),                                            \
		VALUE(OPT_LIST, (at) + offsetof(struct net_opts, expose), "expose-host", 0, "PORT[:NAME]",         \
		      "reach this host's own port, as NAME (default host.skep.internal)"),                         \
		FLAG((at) + offsetof(struct net_opts, ask), "ask", 0, "ask about what no rule knows")

// What is wrong with them, before anything is asked of skepd: INVALID.
int net_check(const struct net_opts *o, struct err *e) MUST_USE;
bool net_names_registries(const struct net_opts *o); // the request needs their list
// Members of a request. registries may be NULL: not said.
void net_put(struct jsonw *w, const struct net_opts *o, char *const *registries);
bool net_needs_registries(const struct err *e); // a failure that says: ask again with the list

// Lines of an answer about what was left out, on stderr.
void net_notices(const json_t *answer);

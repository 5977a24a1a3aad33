// SPDX-License-Identifier: Apache-2.0
// What sandboxes may reach: rules, questions and their answers, secrets; and the project files that ask for some of it.
#pragma once
#include "engine/engine.h"

struct policy; // model/policy.h

// A create that needs the list of package registries and was not given one fails with CONFLICT and this in err.sys: the
// caller, whose tools know them, asks again with the list.
#define ENGINE_NEEDS_REGISTRIES 61 // ENODATA

// What is in force for a sandbox, or would be for one made in cwd with this request. policy_done(out), strv_free(*notices).
int engine_policy(struct engine *g, const char *id, struct policy *out, char ***notices, struct err *e) MUST_USE;
int engine_policy_for(struct engine *g, const char *cwd, const struct net_request *n, struct policy *out, char ***notices,
		      struct err *e) MUST_USE;
// Changes what a sandbox was told; its cell is told at once, connections under way are judged again. Empties *n.
void engine_policy_set(struct engine *g, const char *id, struct net_request *n, struct done d);
// Rules that stand for every sandbox of the user: answers given for always, and what was set here. Empties *n.
void engine_answers(struct engine *g, void (*each)(void *ctx, const char *rule), void *ctx);
void engine_answers_set(struct engine *g, struct net_request *n, struct done d);

struct ask_row {
	uint32_t id;
	char *host, *method, *path; // method "": the connection itself
	uint16_t port;
	uint64_t at;
};
int engine_asks(struct engine *g, const char *id, void (*each)(void *ctx, const struct ask_row *a), void *ctx,
		struct err *e) MUST_USE;
// verdict: enum verdict, scope: enum answer_scope.
void engine_answer(struct engine *g, const char *id, uint32_t ask, int verdict, int scope, struct done d);

struct secret_request {
	char *name, *host, *as; // HOST[:PORT]; as secret_as_parse reads it
	struct buf value;
};
void secret_request_done(struct secret_request *q); // wipes
void engine_secret_set(struct engine *g, struct secret_request *q, struct done d); // empties *q
void engine_secret_remove(struct engine *g, const char *name, struct done d);
const struct secret_row *engine_secret(struct engine *g, const char *name); // NULL = none
void engine_secrets(struct engine *g, void (*each)(void *ctx, const struct secret_row *r), void *ctx);

// The project file of a directory, what it asks for, and whether its user agreed to it.
struct project; // model/project.h
enum trust {
	TRUST_NONE,    // no file
	TRUST_NOTHING, // it asks for nothing that needs agreement
	TRUST_NO,
	TRUST_CHANGED, // agreed to, and changed since
	TRUST_YES,
	TRUSTS,
};
const char *trust_name(enum trust t);
struct trust_view {
	enum trust state;
	char *path; // of the file
	char sha256[SHA256_HEX];
	struct project *project; // NULL without a file
	char *setup_net; // what its setup was given beside; NULL = nothing
};
void trust_view_done(struct trust_view *v);
int engine_trust_look(struct engine *g, const char *dir, struct trust_view *out, struct err *e) MUST_USE;
// Agrees to what was looked at: CONFLICT when the file has changed since. sha256 NULL: takes the agreement back. setup_net: presets that
// the setup may reach as long as the file is as it is; NULL = as it was for this content, "" = none.
void engine_trust(struct engine *g, const char *dir, const char *sha256, const char *setup_net, struct done d);
void engine_trusted(struct engine *g, void (*each)(void *ctx, const struct trust_row *r), void *ctx);

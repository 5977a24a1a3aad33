// SPDX-License-Identifier: Apache-2.0
// Inside the engine: what a sandbox may reach.
//
//   policy.c  from everybody's rules to one policy      net_request.c  what a caller says; header.c: headers that are set
//   net.c     what a cell's gate is told, at its start and while it lives
//   secret.c  sealed values                 ask.c    held connections and their answers
//   project.c  what a new sandbox takes from its project's file
//   trust.c   which of those files count in full; user and site configuration
//   ca.c      a sandbox's own certificate authority, made by a child
#pragma once
#include "engine/engine_int.h"
#include "engine/net.h"
#include "model/project.h"

#define SECRET_MAX (64u << 10) // bytes of a value

// policy.c
// Everybody's rules for a sandbox with this row (may be NULL) on this directory (may be NULL). A secret that has no
// placeholder yet gets one in `row`, if there is one. notices (owned lines, may be NULL): what was left out and why.
int policy_make(struct engine *g, struct net_row *row, const char *repo, struct policy *out, char ***notices,
		struct err *e) MUST_USE;
bool policy_allows_any(const struct policy *p);
bool policy_opens_any(const struct policy *p); // a CA is needed

// net_request.c
// The one form a rule is kept in. Owned; NULL when it is malformed or not what `deny` says.
char *rule_canonical(const char *text, bool deny, const char *from, struct err *e) MUST_USE;
int rules_check(char *const *rules, bool deny, struct err *e) MUST_USE;
void net_row_add_secret(struct net_row *row, const char *name); // with a placeholder, unless it has one
int net_request_check(struct engine *g, const struct net_request *n, struct err *e) MUST_USE;
int net_request_removes(const struct net_row *row, const struct net_request *n, struct err *e) MUST_USE; // all it takes back is there
int net_request_seal(struct engine *g, struct net_request *n, struct err *e) MUST_USE; // its values, before it is applied
bool net_request_apply(struct net_row *row, const struct net_request *n); // checked before; false when it says nothing

// header.c: lines of net_row.headers and net_request.headers
#define HEADERS_MAX 32 // of one sandbox
int headers_check(char *const *lines, struct err *e) MUST_USE;
// Owned: the same lines with their values sealed. NULL: *e says why.
char **headers_seal(struct engine *g, char *const *lines, struct err *e) MUST_USE;
int headers_add(struct policy *p, char *const *lines, struct err *e) MUST_USE; // as secrets that are set
int header_value(struct engine *g, char *const *lines, const char *name, struct buf *out, struct err *e) MUST_USE; // the caller wipes
char **headers_names(char *const *lines); // owned: "HOST HEADER", for the journal
void headers_wipe(char **lines); // takes lines whose values are open

// net.c
int net_settle(struct box *b, struct err *e) MUST_USE; // the policy can be made; every secret has its placeholder
// Starts the holder's cell, once all that the spec needs is there: at once, or later from the loop. Failures come as
// the watcher's up().
void net_start_cell(struct box *b, const struct task *t, bool maintenance);
void net_fill(struct box *b, struct cell_net *out); // what net_settle found; for the spec
char **net_env(struct box *b); // owned: NAME=placeholder of each secret it has
void net_save(struct box *b);  // the row, with the next commit
void net_up(struct box *b);    // the cell is up: what changed meanwhile is told
void net_down(struct box *b);  // it is gone
void net_done(struct box *b, bool quiet); // quiet: nobody is answered any more
// Tells live cells anew. which NULL = all. d is called when each has answered; the first failure is told.
void net_push(struct engine *g, bool (*which)(const struct box *b, const void *arg), const void *arg, struct done d);

// secret.c
const struct secret_row *secret_find(const struct engine *g, const char *name);
int secret_value(struct engine *g, const char *name, struct buf *out, struct err *e) MUST_USE; // the caller wipes
struct seal *engine_seal(struct engine *g, struct err *e) MUST_USE;
void secret_used(struct engine *g, const char *name);
int secrets_load(struct engine *g, struct err *e) MUST_USE;
void secrets_free(struct engine *g);

// project.c
// The file of a directory, .skep.yaml or else a devcontainer.json.
struct project_file {
	char *path; // of the file; where .skep.yaml would be when there is none
	char sha256[SHA256_HEX];
	struct project project;
};
// 1 = it is there, 0 = there is none, -1 = it can not be used.
int project_read(const char *repo, struct project_file *out, struct err *e) MUST_USE;
int project_read_own(const char *repo, struct project_file *out, struct err *e) MUST_USE; // only .skep.yaml: what can ask for trust
void project_file_done(struct project_file *f);
char *project_path(const char *repo); // owned
// What a new sandbox takes from the file in dir (NULL = none), and from the configurations, where the request says nothing.
// row has its base and path. notices: what was left out, and why.
int project_apply(struct engine *g, struct create *c, const char *dir, struct sandbox *row, char ***notices, struct err *e) MUST_USE;

// trust.c
bool project_is_trusted(const struct engine *g, const struct project_file *f);
// What one file says of the network. Borrowed; all NULL when there is no such file or it does not count.
struct said {
	const struct net_part *net; // NULL = nothing
	char *const *secrets;
};
struct layers {
	struct said site, user, project;
	struct project *own; // what `project` is borrowed from
};
// phase: NULL = agent. notices: lines are added when a part of the project's file is left out.
int layers_read(struct engine *g, const char *repo, const char *phase, struct layers *out, char ***notices, struct err *e) MUST_USE;
void layers_done(struct layers *l);
int budget_read(struct engine *g, struct err *e) MUST_USE; // g->budget as the files say now; config_apply does it too
// What the project (may be NULL), the user's and the site's configuration say of a new sandbox: where the request has the
// default, the project's or else the user's; never more than the site's.
int config_apply(struct engine *g, struct create *c, const struct project *p, bool trusted, struct err *e) MUST_USE;
int config_caches(struct engine *g, bool *on, struct err *e) MUST_USE; // package caches are shown
int config_git_user(struct engine *g, bool *on, struct err *e) MUST_USE; // who commits is told inside
// The site's, else the user's. Borrowed until the files are read again; NULL = none.
int config_images(struct engine *g, char *const **mirrors, char *const **insecure, const char **ca_file, struct err *e) MUST_USE;
int config_gate(struct engine *g, struct cell_net *n, struct err *e) MUST_USE; // its resolver and ca_file
int trust_load(struct engine *g, struct err *e) MUST_USE;
void trust_free(struct engine *g);

// ca.c
// Makes a CA and calls then(b, error or NULL) from the loop, unless the box is gone by then.
int ca_make(struct box *b, void (*then)(struct box *b, const struct err *e), struct err *e) MUST_USE;
int ca_key(struct box *b, struct buf *out, struct err *e) MUST_USE; // PEM; the caller wipes

// ask.c
void ask_events_init(struct box *b);
void asks_clear(struct box *b);

// SPDX-License-Identifier: Apache-2.0
// Inside the E2B surface's control plane.
//
//   e2b.c            the table, which requests are E2B's, the form of errors
//   e2b_box.c        boxes: kept as notes, told of by the engine       e2b_sandboxes.c  connect, pause, timeout, kill
//   e2b_create.c     a new one                                         e2b_fork.c       several, of one
//   e2b_list.c       lists, details, logs                              e2b_network.c    what a sandbox may reach
//   e2b_templates.c  templates, tags, snapshots                        e2b_build.c      building one; e2b_step.c: its steps; e2b_cache.c: those done before
//   e2b_metrics.c    what a sandbox uses                               e2b_upload.c     files for COPY
//   e2b_headers.c    headers on the way out, the host on the way in    e2b_ports.c      who reaches its ports, waking one
//   e2b_note.c       a box as text
//   e2b_volumes.c    volumes and their files                           e2b_secrets.c    values for headers
#pragma once
#include "api/answer.h"
#include "api/e2b.h"
#include "base/jsonw.h"

#define E2B_CLIENT "6532622b" // a deprecated constant that SDKs want to see
#define E2B_NAME_MAX 128

// {"code": status, "message": …}
void e2b_say(struct request *r, int status, const char *message);
#define e2b_error(r, status, ...)                              \
	({                                                     \
		struct err said_;                              \
		err_set(&said_, ERR_INVALID, __VA_ARGS__);     \
		e2b_say(r, status, said_.msg);                 \
	})
int e2b_status(const struct err *e);
// A member that must be a whole number of at least min, if it is there. Answers the request itself when it is not: false.
bool e2b_number(struct request *r, const char *key, int64_t min, uint64_t *inout);

// e2b_note.c
struct e2b_box *e2b_box_new(const char *id); // owned until it is added
void e2b_box_free(struct e2b_box *b);
void e2b_note_print(struct buf *out, const struct e2b_box *b);
struct e2b_box *e2b_note_read(const char *id, const char *text); // owned; NULL when it is no box

// e2b_box.c
struct e2b_box *e2b_box_find(const char *sandbox); // whatever became of it; NULL = it is none of E2B's
int e2b_box_add(struct engine *g, struct e2b_box *b, struct err *e) MUST_USE; // takes b
void e2b_box_save(struct engine *g, const struct e2b_box *b);
const struct sandbox *e2b_row(struct engine *g, const struct e2b_box *b); // NULL when it is gone
void e2b_cut(const char *sandbox); // its streams and transfers
struct e2b_done {
	void (*fn)(void *ctx, const struct err *e, struct e2b_box *b);
	void *ctx;
};
// Runs again, and ends timeout_ms from now (0 = never by itself).
void e2b_resume(struct engine *g, struct e2b_box *b, uint64_t timeout_ms, struct e2b_done d);
int e2b_end_set(struct engine *g, struct e2b_box *b, uint64_t ends, struct err *e) MUST_USE; // Unix ms; 0 = never
void e2b_pause(struct engine *g, struct e2b_box *b, bool memory, struct done d); // its end is forgotten before
void e2b_kill(struct engine *g, struct e2b_box *b, struct done d);
#define E2B_GRACE_MS 2000 // skepd ends a sandbox when its time is over; its cell, a little later, when there is no skepd
// After an operation with b->held counted up, whose outcome was `why`: it runs as before, and is no longer held.
void e2b_release(struct engine *g, const char *id, const struct err *why, void (*fn)(void *ctx, const struct err *e), void *ctx);
struct loop *e2b_loop(void);
struct engine *e2b_engine(void);

// e2b_create.c
void e2b_settle_env(struct e2b_box *b, char *const *of_template); // before, b->env is the create's alone

// e2b_sandboxes.c
bool e2b_timeout_of(struct request *r, const char *key, uint64_t *inout_s); // seconds of a body; false: answered
void e2b_put_sandbox(struct request *r, struct jsonw *w, const struct e2b_box *b);
void e2b_put_members(struct jsonw *w, const struct e2b_box *b);
void e2b_put_secrets(struct request *r, struct jsonw *w, const struct e2b_box *b);
struct e2b_box *e2b_named(struct request *r); // the box that the first part names; NULL: answered with 404

// e2b_headers.c
int e2b_headers_read(struct request *r, const json_t *network, struct net_request *n, struct err *e) MUST_USE;
// What it was told, for its details; values of headers are hidden. o: the body, network: in it, or the body of a change.
void e2b_copy_network(const json_t *o, const json_t *network, struct e2b_box *b, bool change);
int e2b_mask_read(const json_t *network, char **out, struct err *e) MUST_USE; // owned; untouched when there is none
char *e2b_mask_of(const char *mask, uint16_t port); // owned: the Host that the inside sees

// e2b_secrets.c: a header's value with ${e2b.secrets.NAME} as the engine knows it; owned. NULL: there is no such secret, or it is not for who asks.
char *e2b_secrets_in(struct request *r, const char *text, struct err *e) MUST_USE;

// e2b_volumes.c
int e2b_volumes_read(struct request *r, const json_t *o, struct create *c, struct err *e) MUST_USE;
void e2b_volumes_put(struct request *r, struct jsonw *w, const struct sandbox *s); // the member volumeMounts

// e2b_network.c. Owned parts of *n.
int e2b_net_read(struct request *r, const json_t *network, struct net_request *n, struct err *e) MUST_USE;
void e2b_net_open(struct request *r, struct net_request *n); // everything that the site grants to who asks
char **e2b_net_rules(const struct sandbox *s); // what it was told, as net_request.remove takes it; owned, may be NULL

// e2b_templates.c
struct e2b_build {
	char id[40]; // a UUID
	char snapshot[ID_SIZE]; // "" = not built
	char *state;		// "waiting" "building" "ready" "error"
	char *reason, *reason_step; // NULL
	char *user, *workdir, *start_cmd, *ready_cmd; // NULL = the default, none
	char **env;
	char **wanted; // tags that become its own when it is ready; NULL = it has them
	char **logs; // in memory only: "UNIX-MS\tLEVEL\tSTEP\tTEXT"
	uint64_t created;
	struct e2b_builder *builder; // while it runs
	struct e2b_build *next;
};
struct e2b_tag {
	char *tag;
	char build[40];
	uint64_t created;
	struct e2b_tag *next;
};
struct e2b_template {
	char id[ID_SIZE];
	char *name; // NULL = none
	bool is_public, builtin;
	char source[ID_SIZE]; // a snapshot of this sandbox; "" = a template
	uint64_t created, updated, spawned, spawn_count;
	uint64_t cpus, memory_mb; // limits of its sandboxes; 0 = the default
	struct e2b_build *builds; // newest first
	struct e2b_tag *tags;
	struct e2b_template *next;
};
int e2b_templates_load(struct engine *g, struct err *e) MUST_USE;
void e2b_templates_free(void);
void e2b_template_save(struct engine *g, struct e2b_template *t);
struct e2b_template *e2b_template_new(const char *name);
struct e2b_build *e2b_build_new(struct e2b_template *t);
struct e2b_build *e2b_build_of(const struct e2b_template *t, const char *id);
void e2b_tag_set(struct e2b_template *t, const char *tag, const char *build);
// "ID", "NAME", "TEAM/NAME", each with ":TAG". *out_build is the tag's, or "default"'s. NULL: *e says what is unknown.
struct e2b_template *e2b_template_find(const char *word, struct e2b_build **out_build, struct err *e);
// cpuCount and memoryMB of a body, where they are there.
int e2b_limits_read(const json_t *o, struct limits *inout, struct err *e) MUST_USE;
struct limits e2b_limits_of(const struct e2b_template *t);
bool e2b_template_sees(const struct request *r, const struct e2b_template *t); // who asks may use it
// Its snapshot exists, or is made first (the built-in ones are built when they are first used).
void e2b_template_ready(struct request *r, struct e2b_template *t, struct e2b_build *b, void (*fn)(void *ctx, const struct err *e), void *ctx);

// e2b_build.c
void e2b_build_log(struct e2b_build *b, const char *level, const char *step, const char *text, size_t n);
// What a build begins with: another one, an image, or else the host's own system.
struct e2b_base {
	const struct e2b_build *build;
	const char *image;
	const char *ref, *username, *password; // an image that is pulled first, with a login of the request or NULL
	bool docker_logins;		       // those of skepd's user count for it
	const char *start_cmd, *ready_cmd; // of the template to be
	const struct err *refusal;	   // there is no such thing: the build fails with it
};
// body: the request's, its steps are copied; NULL = none. Ends with b->state ready or error.
void e2b_build_begin(struct request *r, struct e2b_template *t, struct e2b_build *b, const json_t *body, const struct e2b_base *base);
void e2b_build_wait(struct e2b_build *b, void (*fn)(void *ctx, const struct err *e), void *ctx);

// e2b_upload.c
const char *e2b_upload_digest(const char *hash);	  // SHA-256 of what came; NULL = nothing did
int e2b_upload_fd(const char *hash, uint64_t *out_size); // borrowed; -1 = none
void e2b_uploads_free(void);

// Runs a command in a sandbox, as user, and gives its exit status. What it prints goes to lines.
struct e2b_command {
	const char *sandbox, *user, *cwd;
	char *const *argv, *const *env;
	int input; // descriptor of a file that is its stdin, -1 = none; borrowed
	uint64_t timeout_ms;
	void (*line)(void *ctx, int stream, const char *p, size_t n); // may be NULL
	void (*done)(void *ctx, const struct err *e, int status);
	void *ctx;
};
void e2b_command(struct engine *g, const struct e2b_command *c); // e2b_command.c; copies what it needs

// SPDX-License-Identifier: Apache-2.0
// Who asks, and what they may. Everything that decides about rights is here and in rights.c.
#pragma once
#include "api/server.h"
#include "engine/access.h"

struct sandbox;
struct sockaddr_storage;

struct principal {
	const char *name; // for the journal: "local", or a token's name or id
	char id[20];	  // of the token; a sandbox's own has the sandbox's; "" = none
	bool local;	  // the daemon's own user, on the unix socket: may everything
	enum scope scope; // of a token
	enum on_kind on;
	const char *value; // of on
	uint64_t expires;  // of the token, Unix ms; 0 = never
};
void principal_free(const struct principal *p); // those that are not shared

// Host, Origin and token. A path that is open to all needs no token.
int auth_identify(struct request *r, bool open, struct err *e) MUST_USE;
// Before the body is read: the route's scope, on what its first part names.
int auth_admit(struct request *r, struct err *e) MUST_USE;
// For surfaces whose verbs are not routes. sandbox: an id as the caller gave it, NULL where there is none: then only who
// may do it everywhere may.
int request_may(struct request *r, enum scope scope, const char *sandbox, struct err *e) MUST_USE;
bool request_sees(const struct request *r, const struct sandbox *s); // for lists
bool request_sees_id(const struct request *r, const char *sandbox);  // likewise, by its id

#define PEER_TEXT 46 // INET6_ADDRSTRLEN
void peer_text(const struct sockaddr_storage *a, char out[PEER_TEXT]); // its address

// Who shows this token may read the sandbox: for connections that are not the HTTP server's.
// out: whose it is, when true; without name, which is in who, and value.
struct actor;
bool auth_token_sees(struct engine *g, const char *token, const struct sandbox *s, struct principal *out, struct actor *who);

// rights.c: fields of a body that only some may give. Local callers may all.
struct create;
int rights_create(struct request *r, struct create *c, struct err *e) MUST_USE; // sets what is settled for them, too
int rights_fields(struct request *r, struct err *e) MUST_USE;			  // of other bodies that name host paths
int rights_fork(struct request *r, struct err *e) MUST_USE;
// A snapshot that a body names, by id or by name (NULL = none): of a sandbox the caller may see.
int rights_snapshot(struct request *r, const char *word, struct err *e) MUST_USE;

// rate.c: false = too many; *out_wait: seconds until there is room again.
bool rate_take(const char *id, uint64_t per_second, uint64_t *out_wait);

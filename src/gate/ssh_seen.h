// SPDX-License-Identifier: Apache-2.0
// What a server says in the clear at the start of an ssh connection that is passed through: its key, and its signature
// over the exchange hash. That hash is the session's id, which only the two ends know; but who claims to know it can be
// checked against the signature. So a request to the agent is matched to this very connection, and to no other.
#pragma once
#include "model/sshkey.h"

struct ssh_seen;

struct ssh_seen *ssh_seen_new(void);
void ssh_seen_free(struct ssh_seen *s); // NULL is fine
// Bytes from the server, in order. False: nothing more is of interest (seen, or not ssh).
bool ssh_seen_feed(struct ssh_seen *s, const void *p, size_t n);
bool ssh_seen_is(const struct ssh_seen *s, struct ssh_text session); // the session with this id; false on NULL
struct ssh_text ssh_seen_key(const struct ssh_seen *s);		     // the host's public key; empty until seen

// What a client wants signed to log in (RFC 4252 section 7, and OpenSSH's form of it that names the host's key).
struct ssh_login {
	struct ssh_text session, user, alg, key;
	struct ssh_text host_key; // p NULL: the form without
};
bool ssh_login_parse(struct ssh_text data, struct ssh_login *out);

// SPDX-License-Identifier: Apache-2.0
// What a token is, and what its holder may: how far (scope) and on which sandboxes (on). Pure.
//
// A token is a prefix and 64 hexadecimal digits. The prefix says nothing: skep_ and e2b_ are the same token. Those made
// by a user are 256 random bits, of which only the SHA-256 is kept. A sandbox's own token is its id (16 characters, in
// hex) and 128 bits that are computed from it with the key of SKEP_HOME: nothing is kept, and it ends with its sandbox.
#pragma once
#include "base/err.h"
#include <stdbool.h>

// What a caller must be allowed, in this order. LOCAL: the daemon's own user, on the unix socket; no token has it.
enum scope { SCOPE_OPEN, SCOPE_READ, SCOPE_RUN, SCOPE_REVIEW, SCOPE_ADMIN, SCOPE_LOCAL, SCOPES };
const char *scope_name(enum scope s);
int scope_of_name(const char *name); // read, run, review or admin; -1 for any other

enum on_kind { ON_ALL, ON_LABEL, ON_SANDBOX };
// "all", "label=K=V" or the id of a sandbox. *out_value borrows from text: "K=V", the id, "".
int on_parse(const char *text, enum on_kind *out, const char **out_value, struct err *e) MUST_USE;

#define TOKEN_DIGITS 64
#define TOKEN_SIZE 72 // "skep_", the digits and a NUL
// The digits of a token, borrowed; NULL when it is none.
const char *token_digits(const char *text);
// A sandbox's own: its id and 16 bytes of proof.
void token_of_sandbox(const char *id, const unsigned char proof[16], char out[TOKEN_SIZE]);
bool token_sandbox(const char *digits, char out_id[17]); // false: it has not that form

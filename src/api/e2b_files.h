// SPDX-License-Identifier: Apache-2.0
// Who may use /files, and what of it is worth a unit test.
#pragma once
#include "base/buf.h"
#include "base/id.h"

struct engine;
struct request;
struct e2b_box;

// "v1_" and the unpadded base64 of the SHA-256 of PATH:OP:USER:TOKEN[:EXPIRATION].
void files_signature(struct buf *b, const char *path, const char *op, const char *user, const char *token, const char *expiration);
// The box that a signed request without a sandbox's id means; NULL: none.
struct e2b_box *files_box(struct request *r);
// NULL: it may; else why not, which is a 401.
const char *files_refused(struct request *r, const struct e2b_box *b);

// bytes=FROM-TO, bytes=FROM-, bytes=-LAST. False: none that is understood, so the whole is meant. from as fetch takes it.
struct byte_range {
	char from[32];
	uint64_t len; // UINT64_MAX = to the end
};
bool files_range(const char *header, struct byte_range *out);
// A name or a value of X-Metadata-…: NULL, or what is wrong with it.
const char *files_note_wrong(const char *name, const char *value);
#define FILES_NOTE_NAME 246
#define FILES_NOTES_MAX 4096
bool files_accepts_plain(const char *accept_encoding); // NULL: yes

// SPDX-License-Identifier: Apache-2.0
// Sealing small secrets for the disk (libsodium; linked by skepd only). One key per SKEP_HOME, in a file beside
// the database: that protects copies and backups of the database, not against a process of the same user.
//
// What is sealed carries the name it was sealed under and opens under no other: rows can not be swapped.
#pragma once
#include "base/buf.h"

struct seal;

// The key in file `name` of a directory, made on first use (0600, never replaced). A file that others may read, that
// is not ours or has another size is refused.
struct seal *seal_open(int dirfd, const char *name, struct err *e) MUST_USE;
void seal_close(struct seal *s); // wipes the key; NULL-safe

void seal_lock(const struct seal *s, const char *name, const void *p, size_t n, struct buf *out); // appends
// Appends the value to out, which the caller wipes. DENIED when it was sealed by another key, under another name, or
// was changed since.
int seal_unlock(const struct seal *s, const char *name, const void *p, size_t n, struct buf *out, struct err *e) MUST_USE;

// 32 bytes that only who has the key can compute from this text: to recognise later what we said.
void seal_mac(const struct seal *s, const char *text, unsigned char out[32]);

void seal_wipe(struct buf *b); // overwrites and frees
#define auto_secret __attribute__((cleanup(seal_wipe)))

// SPDX-License-Identifier: Apache-2.0
// The files a setup depends on, read below the project without following a link, and the state of the host's system.
#pragma once
#include "model/setup.h"

#define LOCKS_MAX 256		  // files
#define LOCK_BYTES (64u << 20) // of one; a longer one is an error

// named: paths below dir (NULL = the lock files at its top, in the order of their names). A file that is not there is kept
// as absent. Remembers contents by device, inode, size and times. -1: one of them can not be read.
struct locks_cache;
struct locks_cache *locks_cache_new(void);
void locks_cache_free(struct locks_cache *c);
int locks_read(struct locks_cache *c, const char *dir, char *const *named, struct setup_file **out, size_t *out_n,
	       struct err *e) MUST_USE;
void locks_done(struct setup_file *files, size_t n);

// Another text when the system was upgraded: of os-release, the package database and the machine's kind.
void locks_host(char out[SHA256_HEX]);

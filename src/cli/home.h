// SPDX-License-Identifier: Apache-2.0
// Where things are: our sister programs, and skepd's socket, which starts skepd if need be.
#pragma once
#include "base/err.h"

// A program of ours: beside this one, else in ../libexec/skep. Owned.
char *home_program(const char *name, struct err *e) MUST_USE;
// A socket at an absolute path of any length.
int home_connect(const char *path, struct err *e) MUST_USE;
// A connection to skepd. Starts one unless it runs (or SKEP_NO_START is set, which completion uses).
int home_connect_skepd(struct err *e) MUST_USE;
// SKEP_HOST=http://HOST[:PORT] or https://…: a skepd of another machine. HOST[:PORT], borrowed, good until SKEP_HOST changes;
// NULL = it is one of this machine.
const char *home_remote(void);
// SKEP_TOKEN, for a remote one; INVALID when it is set and no token. *out NULL = none.
int home_token(const char **out, struct err *e) MUST_USE;

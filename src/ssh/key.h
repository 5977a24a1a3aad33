// SPDX-License-Identifier: Apache-2.0
// The key by which our end of the connection is known: made once for each SKEP_HOME, and written to a list of known hosts
// beside it, so that no client ever has to ask whether it is the right one.
#pragma once
#include "base/err.h"
#include <libssh/libssh.h>

#define KEY_FILE "host_key"
#define KEY_KNOWN "known_hosts"
#define KEY_ALIAS "skep" // the host's name in KEY_KNOWN

// Makes dir and what is missing in it.
int key_prepare(const char *dir, struct err *e) MUST_USE;
ssh_key key_load(const char *dir, struct err *e) MUST_USE; // owned

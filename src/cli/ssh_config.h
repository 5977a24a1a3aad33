// SPDX-License-Identifier: Apache-2.0
// The block by which OpenSSH's client, and whatever uses it, reaches sandboxes: hosts skep-ID and ID.skep.
#pragma once
#include "base/buf.h"

#define SSH_HOSTS "skep-* *.skep"

// SKEP_HOME/ssh with a host key in it. Owned.
char *ssh_dir(struct err *e) MUST_USE;
// hosts: the patterns behind `Host`.
int ssh_config_print(struct buf *b, const char *dir, const char *hosts, struct err *e) MUST_USE;
// The block for all of them in dir/config, up to date. Its path, owned.
char *ssh_config_write(const char *dir, struct err *e) MUST_USE;
// The sandbox that a host name means. Owned.
char *ssh_host_id(const char *host);

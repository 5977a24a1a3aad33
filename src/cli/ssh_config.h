// SPDX-License-Identifier: Apache-2.0
// The block by which OpenSSH's client, and whatever uses it, reaches sandboxes: hosts skep-ID and ID.skep. Those of another
// machine (SKEP_HOST) are ID.skep.HOST.PORT, so that blocks of several machines stand beside each other.
#pragma once
#include "base/buf.h"

// SKEP_HOME/ssh with a host key in it. Owned.
char *ssh_dir(struct err *e) MUST_USE;
// hosts: the patterns behind `Host`; NULL = all sandboxes.
int ssh_config_print(struct buf *b, const char *dir, const char *hosts, struct err *e) MUST_USE;
// The block for all of them in a file of dir, up to date. Its path, owned.
char *ssh_config_write(const char *dir, struct err *e) MUST_USE;
char *ssh_host_of(const char *id); // owned
// The sandbox that a host name means. Owned.
char *ssh_host_id(const char *host);

// SPDX-License-Identifier: Apache-2.0
// A cell of an ordinary user writes to the host's directories (--mount DIR:rw) as that user: a set-user-id file that is left there
// lends the user's rights to everybody who runs it on the host, where the mount's nosuid does not count. In such a cell no call
// makes a file with these bits, and for commands openat2, whose mode no filter can read, is not there (its users then do without
// it). Our own work on files in the cell needs openat2, and gives it no mode.
#pragma once
#include "base/err.h"

struct sock_fprog;
const struct sock_fprog *setid_commands(void); // the filter of commands, constant
int setid_refuse(struct err *e) MUST_USE; // a filter for this process and all that come from it; needs no_new_privs

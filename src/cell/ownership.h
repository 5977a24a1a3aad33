// SPDX-License-Identifier: Apache-2.0
// Rootless --root on the host's own system: the directories of /usr and the package database belong to a user the
// cell does not know, so nothing could be created in them. The ownership layer holds the same directories, empty, owned
// by the cell's root, and is put between the host's and the writable layer. Built once for each state of the host's
// package database.
#pragma once
#include "cell/nursery.h"

// Makes sure n->rootfs.ownership is right for now (NULL as real root, which maps owners instead). UNSUPPORTED with the
// command that helps when the user has no subordinate ids.
int ownership_ready(struct nursery *n, struct err *e) MUST_USE;

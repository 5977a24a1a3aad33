// SPDX-License-Identifier: Apache-2.0
// Between rootfs.c and rootfs_cell.c.
#pragma once
#include "isolate/rootfs.h"

#define ROOTFS_RUN "mode=755,size=256m,nr_inodes=100k" // options of a /run that is a tmpfs of its own

// Who the cell is: names, machine id, resolver, as files in dir.
void rootfs_identity(const struct cell_spec *s, const char *dir, struct plan *p);

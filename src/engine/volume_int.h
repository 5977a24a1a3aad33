// SPDX-License-Identifier: Apache-2.0
// Volumes inside the engine.
#pragma once
#include "engine/engine_int.h"

int volumes_load(struct engine *g, struct err *e) MUST_USE;
void volumes_free(struct engine *g);
uint64_t volumes_bytes(const struct engine *g); // of all, as last counted
void volumes_moved(const struct box *b);	// it started or ended: what it has is counted in a while
bool mount_place_is_fit(const char *dst);	// create.c: something may be mounted there
// What a create asks for, into the row.
int volumes_apply(struct engine *g, const struct create *c, struct sandbox *row, struct err *e) MUST_USE;
// A mount of a row as a cell is told of it. False: the volume is gone, and the mount is left out.
bool volume_mount_resolve(struct engine *g, const struct cell_mount *m, struct cell_mount *out);

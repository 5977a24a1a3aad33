// SPDX-License-Identifier: Apache-2.0
// Volumes: directories that outlive sandboxes and are shown in several of them at once. They are part of no snapshot and no
// layer, and go only when somebody removes them.
#pragma once
#include "engine/engine.h"
#include "model/volume.h"

// Who asks: NULL sees every volume and makes such as have the owner ""; else the owner whose volumes count.
const struct volume_row *engine_volume_new(struct engine *g, const char *viewer, const char *name, struct err *e);
const struct volume_row *engine_volume_find(struct engine *g, const char *viewer, const char *word, struct err *e); // by id or name
void engine_volumes(struct engine *g, const char *viewer, void (*each)(void *ctx, const struct volume_row *v), void *ctx); // oldest first
void engine_volume_remove(struct engine *g, const char *id, struct done d); // CONFLICT while a sandbox has it

uint64_t engine_volume_bytes(struct engine *g, const char *id, bool *known); // as last counted
// Ids of the sandboxes that have it, NULL-terminated; owned.
char **engine_volume_users(struct engine *g, const char *id);
// Who shows it may use the files of the volume: "vol_" and hex digits.
#define VOLUME_TOKEN_SIZE (4 + 65)
int engine_volume_token(struct engine *g, const char *id, char out[VOLUME_TOKEN_SIZE], struct err *e) MUST_USE;
// A few at a time, the others wait. Everything is copied. The reply comes from the loop.
void engine_volume_work(struct engine *g, const struct volume_op *op, int body, struct volume_reply r);

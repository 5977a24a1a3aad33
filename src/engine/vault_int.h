// SPDX-License-Identifier: Apache-2.0
// The vault inside the engine.
#pragma once
#include "engine/engine_int.h"

int vault_load(struct engine *g, struct err *e) MUST_USE;
void vault_free(struct engine *g);
// ${vault:ID} in a header's value becomes the entry's value; in a buffer that the caller wipes.
int vault_expand(struct engine *g, struct buf *inout, struct err *e) MUST_USE;

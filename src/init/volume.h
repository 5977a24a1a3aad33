// SPDX-License-Identifier: Apache-2.0
// Work on files in a volume (model/volume.h), in a child of the nursery: on files that cells change meanwhile.
#pragma once
#include "model/volume.h"

// dir: the volume; body: the bytes of VOLUME_PUT, else -1; owner: of what is made and names none. Returns the descriptor of the answer.
int volume_do(int dir, const struct volume_op *op, int body, uint32_t owner, struct err *e) MUST_USE;

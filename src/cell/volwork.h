// SPDX-License-Identifier: Apache-2.0
// Work on files in volumes, for skepd (M_VOLUME): like cell/dirwork.h, but descriptors travel both ways.
#pragma once
#include "base/chan.h"
#include "cell/dirwork.h"

// owner: of new files that name none.
void volwork_begin(struct dirwork *d, struct frame *f, uint32_t owner);

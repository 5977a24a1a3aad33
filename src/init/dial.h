// SPDX-License-Identifier: Apache-2.0
// Connections into the cell: made here, where the cell's loopback is, as the cell's user, and handed out.
#pragma once
#include "base/chan.h"

void dial_ask(struct loop *l, struct chan *c, const struct frame *f); // M_DIAL; M_DIALLED follows

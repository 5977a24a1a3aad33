// SPDX-License-Identifier: Apache-2.0
// Which TCP ports of the cell somebody listens on: asked by the supervisor when there may be news.
#pragma once
#include "base/chan.h"

void listening_answer(struct chan *c, const struct frame *f); // M_PORTS: the whole of it

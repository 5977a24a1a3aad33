// SPDX-License-Identifier: Apache-2.0
// The socket that ssh inside finds its agent at. Only a name is made here: whoever connects is served outside.
#pragma once
#include "base/chan.h"

void agent_answer(struct chan *c, const struct frame *f); // M_AGENT: the whole of it

// SPDX-License-Identifier: Apache-2.0
// A request for the journal that is held until there is more of it: who follows a journal need not ask again and again.
#pragma once
#include "api/server.h"

#define FOLLOW_MAX_MS 60000u
#define FOLLOWERS 64 // held at once; the next one is answered at once

// r->answer is empty and nothing lies behind offset yet. Answers r with what comes, or with nothing after wait_ms.
void follow(struct request *r, struct loop *l, uint64_t offset, uint64_t wait_ms);

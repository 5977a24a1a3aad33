// SPDX-License-Identifier: Apache-2.0
// Idempotency-Key: a create that is sent again, because its answer was lost, makes nothing a second time. The same key
// and body are answered with the sandbox they made, for a day; another body under that key is a conflict. Keys belong to
// their token. What failed is not remembered.
#pragma once
#include "api/server.h"

struct once;
struct outcome;

// Answers r again for what was made; exec "" = none.
typedef void once_replay(struct request *r, const char *sandbox, const char *exec);
once_replay once_replay_sandbox; // as POST /v1/sandboxes does

// 1 = go on, with *out (NULL when there is no key) for once_end; 0 = r is answered, or will be.
int once_begin(struct request *r, once_replay *replay, struct once **out);
// e NULL = it was made. Takes o; also answers those who sent the same meanwhile.
void once_end(struct once *o, const struct err *e, const struct outcome *made);

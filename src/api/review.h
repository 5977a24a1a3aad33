// SPDX-License-Identifier: Apache-2.0
// Handlers of review, for the table in routes.c.
#pragma once
#include "api/server.h"

void post_diff(struct request *r);
void post_apply(struct request *r);
void post_dismiss(struct request *r);
void post_undo(struct request *r);
void post_export(struct request *r);

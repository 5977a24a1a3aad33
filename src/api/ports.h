// SPDX-License-Identifier: Apache-2.0
// Handlers of what reaches into a sandbox by its ports, for the table in routes.c.
#pragma once
#include "api/server.h"

void post_dial(struct request *r);
void post_preview(struct request *r);

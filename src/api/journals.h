// SPDX-License-Identifier: Apache-2.0
// Handlers of journals, for the table in routes.c: a sandbox's, and that of what was refused.
#pragma once
#include "api/server.h"

void get_journal(struct request *r);
void get_verify(struct request *r);
void get_service_journal(struct request *r);

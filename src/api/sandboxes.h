// SPDX-License-Identifier: Apache-2.0
// Handlers of the life of sandboxes, for the table in routes.c.
#pragma once
#include "api/server.h"

void post_sandbox(struct request *r);
void get_sandboxes(struct request *r);
void get_sandbox(struct request *r);
void delete_sandbox(struct request *r);
void post_start(struct request *r);
void post_stop(struct request *r);
void post_pause(struct request *r);
void post_resume(struct request *r);
void post_pin(struct request *r);
void post_unpin(struct request *r);

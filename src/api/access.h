// SPDX-License-Identifier: Apache-2.0
// Handlers of the native API around access: tokens and listeners.
#pragma once
#include "api/server.h"

void get_tokens(struct request *r);
void post_token(struct request *r);
void delete_token(struct request *r);
void get_sandbox_token(struct request *r);
void get_listeners(struct request *r);
void post_listener(struct request *r);
void get_listener_hold(struct request *r); // answered when it is closed; it is closed when this one's client goes
void delete_listener(struct request *r);

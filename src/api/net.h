// SPDX-License-Identifier: Apache-2.0
// Handlers of the network's routes, for the table in routes.c.
#pragma once
#include "api/server.h"

void get_policy(struct request *r);
void post_policy(struct request *r);
void post_explain(struct request *r);
void get_asks(struct request *r);
void post_answer(struct request *r);
void get_rules(struct request *r);
void post_rules(struct request *r);
void post_check(struct request *r);
void get_secrets(struct request *r);
void post_secret(struct request *r);
void delete_secret(struct request *r);
void get_trust(struct request *r);
void post_trust(struct request *r);
void delete_trust(struct request *r);

// SPDX-License-Identifier: Apache-2.0
// Handlers of execs, for the table in routes.c: starting, finding, ending, what they wrote. Their streams are exec_io.h's.
#pragma once
#include "api/server.h"

void post_exec(struct request *r);
void post_job(struct request *r);
void get_execs(struct request *r);
void get_exec(struct request *r);
void post_attach(struct request *r);
void post_kill(struct request *r);
void get_output(struct request *r);

struct jsonw;
struct outcome;
// The members "exec" and "attach" of an answer, for whoever started one.
void encode_started(struct request *r, struct jsonw *w, const struct outcome *o);

// SPDX-License-Identifier: Apache-2.0
// Connections into the cell, on their way from who asked (skepd, or a local client with a ticket) to init and back.
#pragma once
#include "base/chan.h"

struct cell;
struct client;

int dials_ask(struct client *cl, const struct frame *f, struct err *e) MUST_USE; // M_DIAL: answered later
void dials_answer(struct cell *c, struct frame *f);		  // M_DIALLED of init
int dials_allow(struct cell *c, const struct frame *f, struct err *e) MUST_USE; // M_DIALS
bool dials_admit(struct cell *c, const char *ticket);			  // one use
void dials_client_gone(struct client *cl);
void dials_end(struct cell *c); // nobody will answer any more

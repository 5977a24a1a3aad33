// SPDX-License-Identifier: Apache-2.0
// stdin of an exec: what clients send to it, together.
#pragma once
#include <stdint.h>

struct client;
struct frame;
struct sx;

void input_data(struct client *cl, struct frame *f); // M_DATA of stdin
void input_end(struct client *cl);		     // M_EOF of stdin
void input_client_gone(struct sx *x);		     // it is no longer among the cell's clients
void input_room(struct sx *x);			     // init has granted more

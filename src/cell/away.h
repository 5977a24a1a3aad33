// SPDX-License-Identifier: Apache-2.0
// Clients whose line broke. Who greeted with a line key (M_HELLO) and went without a last word (M_SEEN on stream 0) is
// expected back: for as long as it asked for, what it may not have seen is kept, the writer waits for it as for a reader that
// is there, and a cell that ended does not leave. Then it is a client that went.
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct cell;
struct client;
struct sx;

void away_begin(const struct client *cl); // it went; its exec is not NULL
// Back: the exec it was attached to, however it left it: one that is still connected is cut off. What came of its stdin is
// known of it again. NULL: nobody with its key is expected.
struct sx *away_end(struct client *back);
void away_forget(void); // nobody is expected any more
bool away_is(const struct sx *x);			   // somebody of it is expected back
bool away_writes(const struct sx *x);			   // and has not said that its stdin is over
bool away_any(void);					   // of any exec
uint64_t away_slowest(const struct sx *x, int stream); // UINT64_MAX: nobody is

// SPDX-License-Identifier: Apache-2.0
// The journal as server-sent events, of one sandbox or of all that the caller may see.
//
// Every event has an id; a client that comes again with it as Last-Event-ID goes on behind it. Of one sandbox the id is the
// offset in its journal. Of all of them it is TIME-SANDBOX-OFFSET: that sandbox goes on behind the offset, the others
// behind the time, so events of the same millisecond may come twice. Journals are watched, not polled; what is new is read
// once however many streams want it.
#pragma once
#include "api/server.h"

#define STREAMS_MAX 2048

void get_events(struct request *r);	    // of all
void get_sandbox_events(struct request *r); // of r->parts[0]

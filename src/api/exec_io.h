// SPDX-License-Identifier: Apache-2.0
// Commands over HTTP and WebSocket (docs/streams.md): handlers for the native table.
#pragma once
#include "api/server.h"

void post_exec_stream(struct request *r); // begins a command; events as they happen
void get_exec_stream(struct request *r);  // the same of one that is there, from offsets on
void post_exec_wait(struct request *r);	  // begins a command and waits for it a while
void post_exec_stdin(struct request *r);
void post_exec_resize(struct request *r);
void get_exec_ws(struct request *r);	     // attach
void get_sandbox_exec_ws(struct request *r); // the first message is the request
void get_port_tunnel(struct request *r);     // a port of the cell's loopback, for its ssh
void get_cell_tunnel(struct request *r);     // the channel of a local client, for `skep` from another machine

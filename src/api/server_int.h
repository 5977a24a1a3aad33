// SPDX-License-Identifier: Apache-2.0
// Between server.c (connections), request.c (exchanges) and request_in.c (their way in).
#pragma once
#include "api/server.h"
#include <assert.h>
#include <microhttpd.h>

// Active in the dev, asan and fuzz builds.
#ifdef SKEP_CHECKS
#define SERVER_CHECK(c) assert(c)
#else
#define SERVER_CHECK(c) ((void)0)
#endif

struct server {
	struct loop *loop;
	struct engine *engine;
	const struct surface *const *surfaces;
	struct MHD_Daemon *mhd;
	struct watch w;
	struct timer again;
	struct chore turn; // MHD_run at the end of this round: a connection was resumed
	struct request *suspended;
	struct upgraded *upgraded; // a daemon with such connections can not be stopped
	bool resumed; // since the last MHD_run began
	bool inside; // in MHD_run: a resumed connection is served by it
	int handlers; // that are on the stack
	bool stopping;
	bool ending; // in server_free: no further request begins
	struct front *front;
};

struct front_conn *server_tcp(struct server *s, struct MHD_Connection *conn); // NULL = the unix socket
void server_wake(struct server *s); // a connection was resumed or added: it is served from the loop, not below the caller
struct request *request_new(struct server *s, struct MHD_Connection *conn, const char *target);
void request_free(struct request *r);
enum MHD_Result request_send(struct request *r); // what was answered
void request_suspend(struct request *r);
void request_abandon(struct request *r, const struct err *e); // the server ends: its client is answered now
void request_left(struct request *r); // its client is gone, or it is over
// request_in.c
void request_dispatch(struct request *r, const char *method);	    // with the head: may answer
enum MHD_Result request_body(struct request *r, const char *p, size_t *n); // a piece of body
void request_whole(struct request *r);				    // the body is over

// SPDX-License-Identifier: Apache-2.0
// The HTTP server on the unix socket: libmicrohttpd inside our loop, one struct request per exchange.
//
// A handler either answers before it returns or keeps the request and answers later from the loop; until
// then the connection is suspended. A client that goes away meanwhile is noticed only at the answer, which
// is then thrown away: every operation ends by itself.
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "base/loop.h"

struct engine;
struct server;

#define ANSWER_MAX (4u << 20) // bytes of output or journal in one answer

struct request {
	struct server *server;
	struct engine *engine;
	struct MHD_Connection *conn; // NULL once the client is gone
	const struct route *route;
	char *parts[4];		     // path segments that stand for {} in the route
	int n_parts;
	json_t *json;		     // the body, NULL for routes without one
	struct buf body;
	struct buf answer;
	int status;		     // 0 = not answered yet
	const char *type;	     // of the answer; NULL = JSON
	char offset[24], end[24];    // X-Skep-Offset, X-Skep-End; "" = none
	bool too_large, suspended, over;
	struct request *next; // among the suspended ones
};

struct route {
	const char *method, *path; // {} = one segment
	bool has_body;
	void (*fn)(struct request *r);
};
extern const struct route api_routes[]; // ends with a NULL method

// listen_fd is taken. On shutdown the loop is stopped after the answer went out.
struct server *server_new(struct loop *l, struct engine *g, int listen_fd, struct err *e) MUST_USE;
void server_free(struct server *s);
void server_shutdown(struct server *s);

struct loop *request_loop(struct request *r);
const char *request_query(struct request *r, const char *key); // NULL when absent
void request_answer(struct request *r, int status);	       // with r->answer as it is
void request_fail(struct request *r, const struct err *e);
int status_of(enum err_kind kind); // status.c: the HTTP status of an error kind

// SPDX-License-Identifier: Apache-2.0
// The HTTP server: libmicrohttpd inside our loop, one struct request per exchange, one route table per surface.
//
// A handler either answers before it returns or keeps the request and answers later from the loop; until then the
// connection is suspended. There are three ways to answer:
//
//   request_answer, request_fail   at once, with r->answer as the body
//   request_stream                 a body that comes in pieces: request_write, then request_finish or request_cut
//   request_upgrade                101: the connection is the handler's
//
// None of these calls runs the library: they mark the request, and server.c goes on with its connection at the end of the
// round. So nothing that belongs to a handler, to this one or to another, changes below a call that answers. (The one
// exception: request_stream of a client that has left calls r->on_gone.)
//
// A client that leaves is reported by r->on_gone: before the answer, so that the work can be ended early, and once more if a
// stream breaks. A request that was answered is void for its handler; one that was not must still be answered (the answer
// is thrown away): every operation ends by itself.
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "base/loop.h"
#include "engine/access.h"
#include "model/access.h"

struct engine;
struct server;
struct front;	   // api/front.h
struct front_conn; // likewise
struct principal;  // api/auth.h

#define ANSWER_MAX (4u << 20) // bytes of output or journal in one answer
#define STREAM_HIGH (256u << 10) // bytes that wait for a slow reader before the source shall pause
#define HEADERS_MAX 24

enum body {
	BODY_NONE,
	BODY_JSON,   // an object, in r->json; none is {}
	BODY_BYTES,  // gathered in r->body, at most LIMIT_REQUEST_BODY
	BODY_STREAM, // the handler is called with the head and gets the rest by on_body
};

#define REQUEST_PARTS 6

struct request {
	struct server *server;
	struct engine *engine;
	struct MHD_Connection *conn; // NULL once the client is gone
	struct front_conn *tcp;	     // NULL = the unix socket, or gone
	const struct surface *surface;
	const struct route *route;
	const struct principal *who; // never NULL in a handler
	char *target;		     // path and query as they came
	char *parts[REQUEST_PARTS];  // path segments that stand for {} in the route, decoded
	int n_parts;
	char **query;		     // decoded name, value, name, value, …
	json_t *json;		     // BODY_JSON
	struct buf body;	     // BODY_BYTES
	struct buf answer;
	int status;		     // 0 = not answered yet
	const char *type;	     // of the answer; NULL = JSON
	char offset[24], end[24];    // X-Skep-Offset, X-Skep-End; "" = none
	char *headers[HEADERS_MAX][2]; // further ones of the answer
	int n_headers;
	uint64_t length;	     // of a stream, with has_length; else it is chunked
	bool has_length;
	bool trickles;		     // a stream of small pieces, with many like it: little memory
	void *ctx;		     // the handler's own
	void (*on_gone)(struct request *r);
	uint64_t review; // the engine's number of the review that it waits for
	void (*on_drain)(struct request *r); // a stream: what was written has left
	size_t (*on_body)(struct request *r, const char *p, size_t n); // how much it took; less: call request_more later
	void (*on_body_end)(struct request *r);

	// the server's
	struct loop *loop;
	struct watch gone;
	bool begun, called, over; // the head was seen; the handler has it; the body was read
	bool too_large, suspended, streaming, ended, cut, leaving;
	bool owed; // the server has answered it (it ends), and its handler not yet
	size_t out_at; // of answer, in a stream
	size_t ignored; // bytes of body that came after the answer
	struct upgraded *upgraded;
	struct request *next; // among the suspended ones
};

struct route {
	const char *method, *path; // {} = one segment; a last {*} = all that follow, as one part
	enum body body;
	void (*fn)(struct request *r);
	enum scope scope; // on the sandbox, exec or snapshot that the first part names, where there is one; maybe in SEEN()
};
// A scope of a route that names no sandbox and is for tokens of some sandboxes, too: its handler shows and does only what
// request_sees and request_may allow. Without it such tokens are refused.
#define SEEN_BIT 0x40
#define SEEN(s) ((enum scope)((s) | SEEN_BIT))
enum scope route_scope(const struct route *t); // without that


struct surface {
	const char *name;
	const struct route *routes; // ends with a NULL method
	// Which requests are its own; NULL: all that are nobody else's.
	bool (*mine)(const struct request *r);
	const char *prefix; // its paths may come with this before them; NULL = none
	bool any_parts; // its {} are not ids and names only
	void (*fail)(struct request *r, const struct err *e); // the form of its errors, NULL: ours
};
extern const struct surface native_api;

// listen_fd is taken. surfaces: NULL-terminated, the first that fits has it. On shutdown the loop is stopped after the answer went out.
struct server *server_new(struct loop *l, struct engine *g, const struct surface *const *surfaces, int listen_fd, struct err *e) MUST_USE;
void server_free(struct server *s);
void server_shutdown(struct server *s);
// A token or a link was taken back: what it let in is cut. Not this one, which is about to be answered.
void server_recheck(struct server *s, const struct request *but);
struct front *server_front(struct server *s); // for TCP: listeners, and who takes connections

struct loop *request_loop(struct request *r);
struct actor request_actor(const struct request *r); // who asks, for what is done later (engine_act)
const char *request_query(struct request *r, const char *key);	      // NULL when absent
const char *request_header(const struct request *r, const char *name); // likewise
void request_each_header(const struct request *r, void (*each)(void *ctx, const char *name, const char *value), void *ctx);
void request_set_header(struct request *r, const char *name, const char *value);

void request_answer(struct request *r, int status); // with r->answer as it is
void request_fail(struct request *r, const struct err *e);

void request_stream(struct request *r, int status);
// False: STREAM_HIGH bytes wait, so nothing more should be written until on_drain. What is written anyway is kept up to ANSWER_MAX,
// then the stream is cut.
bool request_write(struct request *r, const void *p, size_t n);
void request_finish(struct request *r);
void request_cut(struct request *r); // so that the client sees that it is not the end
void request_more(struct request *r); // on_body takes bytes again

// The connection after a 101, non-blocking. extra: bytes that came with the head, valid in fn. The owner calls
// upgraded_close, after which it is void. fd -1: the client went before; it is void when fn returns.
struct upgraded {
	int fd;
	const char *extra;
	size_t n_extra;
	void *handle;
	void (*fn)(void *ctx, struct upgraded *u);
	void *ctx;
	void (*on_shutdown)(struct upgraded *u); // set in fn: skepd ends; the owner closes it now
	struct server *server;
	struct upgraded *next;
};
void request_upgrade(struct request *r, const char *protocol, void (*fn)(void *ctx, struct upgraded *u), void *ctx);
void upgraded_close(struct upgraded *u);

// status.c: the HTTP status of an error. Its kind says it, unless e->sys is one itself (no errno is that large): then
// HTTP knows it better than we do, as with 401 and 413.
int status_of(const struct err *e);
int err_status(struct err *e, enum err_kind kind, int status, const char *message); // -1
void error_body(struct buf *b, const struct err *e); // {"error":{…}}

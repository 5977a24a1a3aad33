// SPDX-License-Identifier: Apache-2.0
// HTTP/2 between a client and a host that both speak it: a server session towards the cell and a client session towards
// the host, their streams mapped one to one. Nothing is translated to HTTP/1.1.
//
// Flow control is chained: a window is opened again only when the other side took the bytes, so a slow reader slows its
// own stream down and nothing piles up here. Trailers (gRPC) and resets are passed on in both directions.
#pragma once
#include "gate/open_int.h"
#include <nghttp2/nghttp2.h>

#define H2_STREAMS 100
#define H2_WINDOW (256u << 10)	  // of a stream
#define H2_CONN_WINDOW (4u << 20) // of a connection
#define H2_KEEP (64u << 10)	  // a window is opened again while less than this waits for the other side

struct h2;

// One direction of a stream's body.
struct h2_flow {
	struct buf bytes; // waiting to be framed
	size_t at;
	size_t owed; // bytes of the source's window not given back yet
	bool end;    // nothing follows
	bool has_trailer;
	struct head trailer;
};

struct h2_stream {
	struct h2 *h;
	struct h2_stream *next, **link;
	int32_t client_id, server_id; // server_id 0: none (yet)
	struct exchange x;
	char *authority, *scheme;
	struct head answer; // being received
	struct h2_flow up, down;
	bool request_seen, answering, too_large, doubled;
	bool client_closed, server_closed;
	bool answer_sent; // its last byte is framed
	bool deaf;	  // nobody reads the rest of the request
	bool cut;	  // the answer breaks off behind what is in down
	uint32_t cut_code;
	bool has_length; // the answer's, as its head tells it
	uint64_t length;
};

struct h2 {
	struct opened *o;
	nghttp2_session *client, *server;
	struct h2_stream *streams;
	size_t n_streams;
	bool stopped;
	bool feeding;	  // inside a session's callback: nothing may be sent
	bool going, gone; // the host takes no more requests; its connection has ended
};

// h2_pump.c: sends what both sessions have to say, as far as the sockets take it.
void h2_pump(struct h2 *h);
ssize_t h2_read_flow(nghttp2_session *s, int32_t id, uint8_t *p, size_t n, uint32_t *flags, nghttp2_data_source *src,
		     void *user);
void h2_turn_away(struct h2_stream *s); // the answer is complete: the client need not send the rest
void h2_cut(struct h2_stream *s);	// resets the client's stream once it has all there is of a cut answer
void h2_flow_init(struct h2_flow *f);
void h2_flow_done(struct h2_flow *f);
// h2_head.c: heads between our form and nghttp2's. Names are written in lower case; a secret is never indexed.
int h2_submit_request(struct h2_stream *s);
int h2_submit_answer(struct h2_stream *s, bool final);
int h2_submit_trailer(nghttp2_session *session, int32_t id, const struct head *trailer);
void h2_refuse(struct h2_stream *s, enum refusal why); // answers the client itself, or resets

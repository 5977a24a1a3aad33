// SPDX-License-Identifier: Apache-2.0
// The Connect protocol with its JSON codec, as far as a server needs it: one message in, one message or a stream of them
// out. Nothing is compressed.
#pragma once
#include "api/server.h"
#include "base/str.h"

enum rpc_code {
	RPC_OK,
	RPC_CANCELED,
	RPC_UNKNOWN,
	RPC_INVALID_ARGUMENT,
	RPC_DEADLINE_EXCEEDED,
	RPC_NOT_FOUND,
	RPC_ALREADY_EXISTS,
	RPC_PERMISSION_DENIED,
	RPC_RESOURCE_EXHAUSTED,
	RPC_FAILED_PRECONDITION,
	RPC_ABORTED,
	RPC_OUT_OF_RANGE,
	RPC_UNIMPLEMENTED,
	RPC_INTERNAL,
	RPC_UNAVAILABLE,
	RPC_DATA_LOSS,
	RPC_UNAUTHENTICATED,
	RPC_CODES,
};
const char *rpc_code_name(enum rpc_code c);
int rpc_code_status(enum rpc_code c); // of HTTP, for a unary answer
enum rpc_code rpc_code_of(enum err_kind kind);

#define ENVELOPE_END 2u
void envelope_add(struct buf *b, uint8_t flags, const void *p, size_t n);
// Takes the next whole envelope off *s. False: there is none. Compressed or longer than the body may be: -1 in *out_flags.
bool envelope_next(struct str *s, int *out_flags, struct str *out);

bool rpc_is_stream(const struct request *r); // by its content type
// The message of a request, NULL and *e when it is none. Owned.
json_t *rpc_message(struct request *r, struct err *e) MUST_USE;

// A unary answer: r->answer, {} when nothing was written.
void rpc_answer(struct request *r);
// An answer that is an error and nothing else, in the form that the request expects.
void rpc_error(struct request *r, enum rpc_code code, const char *message);

// A stream of messages. It ends by rpc_stream_end or rpc_stream_cut; when the client leaves, and at the deadline of the request
// (Connect-Timeout-Ms, after `late`), it ends by itself and `gone` is called. s->r is NULL from then on. Its owner frees it by
// loop_bury: whatever is sent may find the client gone.
struct rpc_stream {
	struct request *r;
	struct loop *loop;
	struct timer idle, deadline;
	uint64_t idle_ms;
	const char *keepalive; // message for the time when there is nothing to say
	bool full; // what was sent waits: `drained` tells when it has left
	void (*gone)(struct rpc_stream *s);
	void (*drained)(struct rpc_stream *s);
	void (*late)(struct rpc_stream *s); // may be NULL
};
void rpc_stream_begin(struct rpc_stream *s, struct request *r); // with keepalive and callbacks set
void rpc_stream_send(struct rpc_stream *s, const struct buf *message);
void rpc_stream_end(struct rpc_stream *s, enum rpc_code code, const char *message); // message NULL with RPC_OK
void rpc_stream_cut(struct rpc_stream *s);
uint64_t rpc_timeout_ms(const struct request *r); // 0 = none was given

// proto3 as JSON: a member has two names, and a default is left out.
json_t *proto_get(const json_t *o, const char *camel); // by its lowerCamelCase or its snake_case name; null is absence
int proto_str(const json_t *o, const char *camel, const char **out, struct err *e) MUST_USE; // NULL when absent
int proto_u32(const json_t *o, const char *camel, uint32_t *inout, struct err *e) MUST_USE;  // a number, or its text
int proto_bool(const json_t *o, const char *camel, bool *inout, struct err *e) MUST_USE;

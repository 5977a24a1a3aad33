// SPDX-License-Identifier: Apache-2.0
#include "api/e2b_connect.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/limits.h"
#include <string.h>

#define TIMEOUT_MAX (366ull * 86400 * 1000)
#define IDLE_DEFAULT_S 90
#define IDLE_MAX_S 3600

static const struct {
	const char *name;
	int status;
} codes[] = {
	[RPC_OK] = {"ok", 200},
	[RPC_CANCELED] = {"canceled", 499},
	[RPC_UNKNOWN] = {"unknown", 500},
	[RPC_INVALID_ARGUMENT] = {"invalid_argument", 400},
	[RPC_DEADLINE_EXCEEDED] = {"deadline_exceeded", 504},
	[RPC_NOT_FOUND] = {"not_found", 404},
	[RPC_ALREADY_EXISTS] = {"already_exists", 409},
	[RPC_PERMISSION_DENIED] = {"permission_denied", 403},
	[RPC_RESOURCE_EXHAUSTED] = {"resource_exhausted", 429},
	[RPC_FAILED_PRECONDITION] = {"failed_precondition", 400},
	[RPC_ABORTED] = {"aborted", 409},
	[RPC_OUT_OF_RANGE] = {"out_of_range", 400},
	[RPC_UNIMPLEMENTED] = {"unimplemented", 501},
	[RPC_INTERNAL] = {"internal", 500},
	[RPC_UNAVAILABLE] = {"unavailable", 503},
	[RPC_DATA_LOSS] = {"data_loss", 500},
	[RPC_UNAUTHENTICATED] = {"unauthenticated", 401},
};
_Static_assert(countof(codes) == RPC_CODES, "a name for every code");

const char *rpc_code_name(enum rpc_code c)
{
	return codes[c].name;
}

int rpc_code_status(enum rpc_code c)
{
	return codes[c].status;
}

enum rpc_code rpc_code_of(enum err_kind kind)
{
	static const enum rpc_code of[ERR_KINDS] = {
		[ERR_NONE] = RPC_OK,
		[ERR_INVALID] = RPC_INVALID_ARGUMENT,
		[ERR_NOT_FOUND] = RPC_NOT_FOUND,
		[ERR_CONFLICT] = RPC_FAILED_PRECONDITION,
		[ERR_DENIED] = RPC_PERMISSION_DENIED,
		[ERR_LIMIT] = RPC_RESOURCE_EXHAUSTED,
		[ERR_TIMEOUT] = RPC_DEADLINE_EXCEEDED,
		[ERR_UNAVAILABLE] = RPC_UNAVAILABLE,
		[ERR_UNSUPPORTED] = RPC_UNIMPLEMENTED,
		[ERR_SYSTEM] = RPC_INTERNAL,
		[ERR_BUG] = RPC_INTERNAL,
	};
	return kind < ERR_KINDS ? of[kind] : RPC_UNKNOWN;
}

// --- messages ---

void envelope_add(struct buf *b, uint8_t flags, const void *p, size_t n)
{
	char head[5] = {(char)flags, (char)(n >> 24), (char)(n >> 16), (char)(n >> 8), (char)n};
	buf_add(b, head, sizeof head);
	buf_add(b, p, n);
}

bool envelope_next(struct str *s, int *out_flags, struct str *out)
{
	const uint8_t *p = (const uint8_t *)s->p;
	if (s->n < 5)
		return false;
	size_t n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
	*out_flags = p[0] & 1 || n > LIMIT_REQUEST_BODY ? -1 : p[0];
	if (*out_flags < 0 || n > s->n - 5)
		return *out_flags < 0;
	*out = (struct str){s->p + 5, n};
	*s = (struct str){s->p + 5 + n, s->n - 5 - n};
	return true;
}

static bool type_is(const struct request *r, const char *type)
{
	const char *got = request_header(r, "Content-Type");
	size_t n = strlen(type);
	return got && !strncmp(got, type, n) && (!got[n] || got[n] == ';' || got[n] == ' ');
}

bool rpc_is_stream(const struct request *r)
{
	const char *got = request_header(r, "Content-Type");
	return got && str_has_prefix(got, "application/connect+");
}

json_t *rpc_message(struct request *r, struct err *e)
{
	struct str text = {r->body.p, r->body.n}, all = text;
	int flags = 0;
	if (rpc_is_stream(r)) {
		if (!type_is(r, "application/connect+json")) {
			err_set(e, ERR_UNSUPPORTED, "only the JSON codec is spoken here");
			return NULL;
		}
		if (!envelope_next(&all, &flags, &text) || flags || all.n) {
			err_set(e, ERR_INVALID, flags < 0 ? "the message is compressed or too long" : "exactly one message was expected");
			return NULL;
		}
	} else if (!type_is(r, "application/json")) {
		err_set(e, ERR_UNSUPPORTED, "only the JSON codec is spoken here");
		return NULL;
	}
	json_t *m = text.n ? json_read(text.p, text.n, e) : json_read("{}", 2, e);
	if (!m || json_is_object(m))
		return m;
	json_decref(m);
	err_set(e, ERR_INVALID, "a message is a JSON object");
	return NULL;
}

void rpc_answer(struct request *r)
{
	if (!r->answer.n)
		buf_str(&r->answer, "{}");
	request_answer(r, 200);
}

static void write_error(struct buf *b, enum rpc_code code, const char *message)
{
	struct jsonw w = {.b = b};
	jw_open(&w, '{');
	jw_kstr(&w, "code", codes[code].name);
	jw_kstr(&w, "message", message);
	jw_close(&w, '}');
}

static void add_end(struct buf *b, enum rpc_code code, const char *message)
{
	auto_buf struct buf text = BUF_INIT(16 << 10);
	buf_byte(&text, '{');
	if (code) {
		buf_str(&text, "\"error\":");
		write_error(&text, code, message);
	}
	buf_byte(&text, '}');
	envelope_add(b, ENVELOPE_END, text.p, text.n);
}

// A client of a stream reads no body but that of a 200.
void rpc_error(struct request *r, enum rpc_code code, const char *message)
{
	buf_clear(&r->answer);
	if (rpc_is_stream(r)) {
		r->type = "application/connect+json";
		add_end(&r->answer, code, message);
		request_answer(r, 200);
		return;
	}
	write_error(&r->answer, code, message);
	request_answer(r, codes[code].status);
}

// --- streams ---

static bool header_u64(const struct request *r, const char *name, uint64_t max, uint64_t *out)
{
	const char *v = request_header(r, name);
	return v && !str_to_u64(str_of(v), 0, max, out);
}

uint64_t rpc_timeout_ms(const struct request *r)
{
	uint64_t ms = 0;
	return header_u64(r, "Connect-Timeout-Ms", TIMEOUT_MAX, &ms) ? ms : 0;
}

static void stop(struct rpc_stream *s)
{
	timer_clear(s->loop, &s->idle);
	timer_clear(s->loop, &s->deadline);
	s->r->on_gone = NULL;
	s->r->on_drain = NULL;
	s->r = NULL;
}

static void on_gone(struct request *r)
{
	struct rpc_stream *s = r->ctx;
	stop(s);
	s->gone(s);
}

static void on_drain(struct request *r)
{
	struct rpc_stream *s = r->ctx;
	if (!s->full)
		return;
	s->full = false;
	s->drained(s);
}

static void on_idle(struct timer *t)
{
	struct rpc_stream *s = container_of(t, struct rpc_stream, idle);
	auto_buf struct buf b = BUF_INIT(256);
	buf_str(&b, s->keepalive);
	rpc_stream_send(s, &b);
}

static void on_deadline(struct timer *t)
{
	struct rpc_stream *s = container_of(t, struct rpc_stream, deadline);
	if (s->late)
		s->late(s);
	if (!s->r)
		return;
	rpc_stream_end(s, RPC_DEADLINE_EXCEEDED, "context deadline exceeded");
	s->gone(s);
}

void rpc_stream_begin(struct rpc_stream *s, struct request *r)
{
	uint64_t ms = rpc_timeout_ms(r), seconds = IDLE_DEFAULT_S;
	if (!header_u64(r, "Keepalive-Ping-Interval", IDLE_MAX_S, &seconds) || !seconds)
		seconds = IDLE_DEFAULT_S;
	s->r = r;
	s->loop = request_loop(r);
	s->idle_ms = seconds * 1000;
	s->idle.fn = on_idle;
	s->deadline.fn = on_deadline;
	timer_set(s->loop, &s->idle, s->idle_ms);
	if (ms)
		timer_set(s->loop, &s->deadline, ms);
	r->ctx = s;
	r->type = "application/connect+json";
	r->on_gone = on_gone;
	r->on_drain = on_drain;
	request_stream(r, 200);
}

static void send(struct rpc_stream *s, const struct buf *envelope)
{
	if (!request_write(s->r, envelope->p, envelope->n))
		s->full = true;
}

void rpc_stream_send(struct rpc_stream *s, const struct buf *message)
{
	if (!s->r)
		return;
	auto_buf struct buf b = BUF_INIT(message->n + 5);
	envelope_add(&b, 0, message->p, message->n);
	timer_set(s->loop, &s->idle, s->idle_ms);
	send(s, &b);
}

void rpc_stream_end(struct rpc_stream *s, enum rpc_code code, const char *message)
{
	auto_buf struct buf b = BUF_INIT(16 << 10);
	if (!s->r)
		return;
	add_end(&b, code, message);
	send(s, &b);
	if (!s->r)
		return; // the client left meanwhile
	struct request *r = s->r;
	stop(s);
	request_finish(r);
}

void rpc_stream_cut(struct rpc_stream *s)
{
	struct request *r = s->r;
	if (!r)
		return;
	stop(s);
	request_cut(r);
}

// --- proto3 as JSON ---

json_t *proto_get(const json_t *o, const char *camel)
{
	json_t *v = json_object_get(o, camel);
	if (!v) {
		auto_buf struct buf snake = BUF_INIT(128);
		for (const char *p = camel; *p; p++) {
			if (*p >= 'A' && *p <= 'Z')
				buf_byte(&snake, '_');
			buf_byte(&snake, *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p);
		}
		v = json_object_get(o, buf_cstr(&snake));
	}
	return json_is_null(v) ? NULL : v;
}

int proto_str(const json_t *o, const char *camel, const char **out, struct err *e)
{
	const json_t *v = proto_get(o, camel);
	if (v && !json_is_string(v))
		return err_set(e, ERR_INVALID, "%s must be a string", camel);
	*out = v ? json_string_value(v) : NULL;
	return 0;
}

int proto_u32(const json_t *o, const char *camel, uint32_t *inout, struct err *e)
{
	const json_t *v = proto_get(o, camel);
	uint64_t n = 0;
	if (!v)
		return 0;
	if (json_is_string(v) ? str_to_u64(str_of(json_string_value(v)), 0, UINT32_MAX, &n)
			      : !json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > UINT32_MAX)
		return err_set(e, ERR_INVALID, "%s must be a number", camel);
	*inout = json_is_string(v) ? (uint32_t)n : (uint32_t)json_integer_value(v);
	return 0;
}

int proto_bool(const json_t *o, const char *camel, bool *inout, struct err *e)
{
	const json_t *v = proto_get(o, camel);
	if (v && !json_is_boolean(v))
		return err_set(e, ERR_INVALID, "%s must be true or false", camel);
	if (v)
		*inout = json_is_true(v);
	return 0;
}

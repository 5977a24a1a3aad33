// SPDX-License-Identifier: Apache-2.0
// Events of an exec's streams, in the one form that all ways of streaming send.
#include "api/exec_io_int.h"

#include "base/str.h"

const char *stream_name(int stream)
{
	return stream == 2 ? "stderr" : "stdout";
}

static bool get_offset(struct request *r, const char *key, uint64_t *out)
{
	struct err e;
	const char *s = request_query(r, key);
	*out = 0;
	if (!s)
		return true;
	if (str_is(str_of(s), "end")) {
		*out = FEED_END;
		return true;
	}
	if (!str_to_u64(str_of(s), 0, INT64_MAX, out))
		return true;
	err_set(&e, ERR_INVALID, "%s must be a whole number, or end", key);
	request_fail(r, &e);
	return false;
}

bool exec_offsets(struct request *r, uint64_t out[2])
{
	return get_offset(r, "offset_stdout", &out[0]) && get_offset(r, "offset_stderr", &out[1]);
}

void event_start(struct buf *b, const char *exec)
{
	struct jsonw w = {.b = b};
	jw_open(&w, '{');
	jw_kstr(&w, "event", "start");
	jw_kstr(&w, "exec", exec);
	jw_close(&w, '}');
}

void event_gap(struct buf *b, int stream, uint64_t from, uint64_t to)
{
	struct jsonw w = {.b = b};
	jw_open(&w, '{');
	jw_kstr(&w, "event", "gap");
	jw_kstr(&w, "stream", stream_name(stream));
	jw_ku64(&w, "from", from);
	jw_ku64(&w, "to", to);
	jw_close(&w, '}');
}

void event_result(struct jsonw *w, const struct exec_result *r)
{
	jw_ku64(w, "status", r->status);
	jw_ku64(w, "signal", r->signal);
	jw_kbool(w, "timed_out", r->timed_out);
	jw_kstr(w, "reason", r->reason);
	jw_ku64(w, "stdout_bytes", r->out_bytes);
	jw_ku64(w, "stderr_bytes", r->err_bytes);
}

void event_exit(struct buf *b, const struct exec_result *r)
{
	struct jsonw w = {.b = b};
	jw_open(&w, '{');
	jw_kstr(&w, "event", "exit");
	event_result(&w, r);
	jw_close(&w, '}');
}

void event_error(struct buf *b, const struct err *e)
{
	struct jsonw w = {.b = b};
	jw_open(&w, '{');
	jw_kstr(&w, "event", "error");
	jw_kstr(&w, "kind", err_kind_name(e->kind));
	jw_kstr(&w, "message", e->msg);
	jw_close(&w, '}');
}

void piece_head(uint8_t out[PIECE_HEAD], int stream, uint64_t offset)
{
	out[0] = (uint8_t)stream;
	for (int i = 0; i < 8; i++)
		out[1 + i] = (uint8_t)(offset >> 8 * i);
}

// SPDX-License-Identifier: Apache-2.0
// process.Process: what is sent to a process.
#include "api/e2b_process_int.h"

#include "base/base64.h"
#include "base/str.h"
#include "model/limits.h"
#include <string.h>

static void on_input(void *ctx, const char *why)
{
	struct envd_call *c = ctx;
	if (why)
		envd_error(c, RPC_INTERNAL, why);
	else
		envd_answer(c, 200);
}

// The bytes of a ProcessInput. -1: *e.
static int decode_input(const json_t *input, const struct process *p, struct buf *out, struct err *e)
{
	const char *in, *pty;
	if (proto_str(input, "stdin", &in, e) || proto_str(input, "pty", &pty, e))
		return -1;
	if (!in && !pty)
		return err_set(e, ERR_INVALID, "no input was given");
	if (process_is_tty(p) != !!pty)
		return err_set(e, ERR_SYSTEM, pty ? "tty not assigned to process" : "stdin of a terminal's process: send it as pty");
	if (in && !process_has_stdin(p))
		return err_set(e, ERR_SYSTEM, "stdin is not enabled for this process, or was closed");
	const char *text = in ? in : pty;
	return base64_decode(text, strlen(text), out) ? err_set(e, ERR_INVALID, "the input is not base64") : 0;
}

static void send_input(struct envd_call *c, struct process *p)
{
	struct err e;
	auto_buf struct buf bytes = BUF_INIT(LIMIT_REQUEST_BODY);
	if (process_gone(c, p))
		return;
	if (decode_input(proto_get(c->msg, "input"), p, &bytes, &e))
		envd_fail(c, &e);
	else
		process_input(p, bytes.p, bytes.n, on_input, c);
}

void process_send_input(struct envd_call *c)
{
	process_with(c, proto_get(c->msg, "process"), send_input);
}

static void close_stdin(struct envd_call *c, struct process *p)
{
	if (process_gone(c, p))
		return;
	if (process_is_tty(p)) {
		envd_error(c, RPC_INTERNAL, "a terminal's input is ended by ^D (0x04) in it");
		return;
	}
	process_close(p);
	envd_answer(c, 200);
}

void process_close_stdin(struct envd_call *c)
{
	process_with(c, proto_get(c->msg, "process"), close_stdin);
}

// --- StreamInput: the messages of one request, in their order ---

static void on_all_input(void *ctx, const char *why)
{
	struct envd_call *c = ctx;
	if (why) {
		envd_error(c, RPC_INTERNAL, why);
		return;
	}
	struct request *r = c->r;
	envd_call_free(c);
	r->type = "application/connect+json";
	envelope_add(&r->answer, 0, "{}", 2);
	envelope_add(&r->answer, ENVELOPE_END, "{}", 2);
	request_answer(r, 200);
}

static int gather_input(const struct request *r, const struct process *p, struct buf *out, struct err *e)
{
	struct str rest = {r->body.p, r->body.n}, text;
	int flags;
	while (envelope_next(&rest, &flags, &text)) {
		if (flags < 0)
			return err_set(e, ERR_INVALID, "a message is compressed or too long");
		auto_json json_t *m = flags & (int)ENVELOPE_END ? NULL : json_read(text.p, text.n, e);
		if (!m && !(flags & (int)ENVELOPE_END))
			return -1;
		const json_t *data = m ? proto_get(m, "data") : NULL;
		if (data && decode_input(proto_get(data, "input"), p, out, e))
			return -1;
	}
	return rest.n ? err_set(e, ERR_INVALID, "the last message is not whole") : 0;
}

static void stream_input(struct envd_call *c, struct process *p)
{
	struct err e;
	auto_buf struct buf bytes = BUF_INIT(LIMIT_REQUEST_BODY);
	if (process_gone(c, p))
		return;
	if (gather_input(c->r, p, &bytes, &e))
		envd_fail(c, &e);
	else
		process_input(p, bytes.p, bytes.n, on_all_input, c);
}

void process_stream_input(struct envd_call *c)
{
	struct str rest = {c->r->body.p, c->r->body.n}, text;
	struct err e;
	int flags;
	if (!envelope_next(&rest, &flags, &text) || flags || !(c->msg = json_read(text.p, text.n, &e)) ||
	    !proto_get(proto_get(c->msg, "start"), "process")) {
		envd_error(c, RPC_INVALID_ARGUMENT, "the first message must say which process is meant");
		return;
	}
	process_with(c, proto_get(proto_get(c->msg, "start"), "process"), stream_input);
}

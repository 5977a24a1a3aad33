// SPDX-License-Identifier: Apache-2.0
#include "api/execs.h"

#include "api/answer.h"
#include "api/auth.h"
#include "api/code.h"
#include "base/mem.h"

// Owned. For who is not on this machine: the path where the same channel is (docs/streams.md).
static char *attach_socket(struct request *r, const char *sandbox)
{
	return r->who->local ? engine_socket(r->engine, sandbox) : xasprintf("/v1/sandboxes/%s/cell", sandbox);
}

void encode_started(struct request *r, struct jsonw *w, const struct outcome *o)
{
	if (o->exec) {
		jw_key(w, "exec");
		encode_exec(w, o->exec);
	}
	jw_key(w, "attach");
	auto_free char *socket = attach_socket(r, o->sandbox->id);
	encode_attach(w, socket, o);
}

static void done_exec(void *ctx, const struct err *e, const struct outcome *o)
{
	struct request *r = ctx;
	struct jsonw w = answer_json(r);
	if (e) {
		request_fail(r, e);
		return;
	}
	jw_open(&w, '{');
	encode_started(r, &w, o);
	jw_close(&w, '}');
	request_answer(r, 201);
}

static void done_attach(void *ctx, const struct err *e, const struct outcome *o)
{
	struct request *r = ctx;
	struct jsonw w = answer_json(r);
	if (e) {
		request_fail(r, e);
		return;
	}
	auto_free char *socket = attach_socket(r, o->sandbox->id);
	encode_attach(&w, socket, o);
	request_answer(r, 200);
}

static void begin_exec(struct request *r, int (*decode)(const json_t *, struct exec_request *, struct err *))
{
	struct exec_request x = {0};
	struct err e;
	if (decode(r->json, &x, &e)) {
		exec_request_done(&x);
		request_fail(r, &e);
		return;
	}
	x.early = !x.detached;
	engine_exec(r->engine, r->parts[0], &x, (struct done){done_exec, r});
}

void post_exec(struct request *r)
{
	begin_exec(r, decode_exec);
}

void post_job(struct request *r)
{
	begin_exec(r, decode_job);
}

static void list_exec(void *ctx, const struct exec_row *x)
{
	struct listing *l = ctx;
	if (request_sees_id(l->r, x->sandbox) && page_takes(&l->page, x->id, x->started))
		encode_exec(&l->w, x);
}

void get_execs(struct request *r)
{
	struct err e;
	struct listing l;
	if (!listing_page(r, "execs", &l))
		return;
	if (engine_execs(r->engine, r->n_parts ? r->parts[0] : NULL, list_exec, &l, &e))
		request_fail(r, &e);
	else
		listing_end(&l);
}

void get_exec(struct request *r)
{
	struct err e;
	struct exec_row x;
	struct jsonw w = answer_json(r);
	if (engine_exec_get(r->engine, r->parts[0], &x, &e)) {
		request_fail(r, &e);
		return;
	}
	encode_exec(&w, &x);
	exec_row_done(&x);
	request_answer(r, 200);
}

void post_attach(struct request *r)
{
	if (answer_no_body(r))
		engine_attach(r->engine, r->parts[0], (struct done){done_attach, r});
}

void post_kill(struct request *r)
{
	static const char *const known[] = {"signal", NULL};
	struct err e;
	uint64_t signal = 15;
	if (json_only(r->json, known, &e) || json_get_u64(r->json, "signal", &signal, &e)) {
		request_fail(r, &e);
	} else if (signal < 1 || signal > 64) {
		err_set(&e, ERR_INVALID, "signal must be 1 to 64");
		request_fail(r, &e);
	} else {
		engine_kill(r->engine, r->parts[0], (uint32_t)signal, (struct done){answer_empty, r});
	}
}

void get_output(struct request *r)
{
	struct err e;
	uint64_t offset, first, end;
	const char *stream = request_query(r, "stream");
	if (!answer_offset(r, &offset))
		return;
	r->answer.max = ANSWER_MAX;
	if (engine_output(r->engine, r->parts[0], stream ? stream : "stdout", offset, &r->answer, &first, &end, &e)) {
		request_fail(r, &e);
		return;
	}
	answer_number(r->offset, first);
	answer_number(r->end, end);
	r->type = "application/octet-stream";
	request_answer(r, 200);
}

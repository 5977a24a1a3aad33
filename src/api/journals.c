// SPDX-License-Identifier: Apache-2.0
#include "api/journals.h"

#include "api/answer.h"
#include "api/follow.h"
#include "api/refused.h"
#include "base/str.h"
#include "engine/access.h"

void get_journal(struct request *r)
{
	struct err e;
	uint64_t offset, end, wait = 0;
	const char *wait_ms = request_query(r, "wait_ms");
	if (!answer_offset(r, &offset))
		return;
	if (wait_ms && str_to_u64(str_of(wait_ms), 0, INT64_MAX, &wait)) {
		err_set(&e, ERR_INVALID, "wait_ms must be a whole number");
		request_fail(r, &e);
		return;
	}
	r->answer.max = ANSWER_MAX;
	if (engine_journal(r->engine, r->parts[0], offset, &r->answer, &end, &e)) {
		request_fail(r, &e);
		return;
	}
	answer_number(r->end, end);
	r->type = "application/x-ndjson";
	if (wait && !r->answer.n)
		follow(r, request_loop(r), offset, wait);
	else
		request_answer(r, 200);
}

void get_verify(struct request *r)
{
	struct err e;
	struct journal_report rep = {0};
	struct jsonw w = answer_json(r);
	if (r->n_parts ? engine_journal_verify(r->engine, r->parts[0], &rep, &e) : engine_service_verify(r->engine, &rep, &e)) {
		request_fail(r, &e);
		return;
	}
	jw_open(&w, '{');
	jw_kbool(&w, "ok", rep.ok);
	jw_ku64(&w, "events", rep.events);
	if (!rep.ok)
		jw_ku64(&w, "line", rep.line);
	if (!rep.ok || rep.torn)
		jw_kstr(&w, "reason", rep.reason);
	jw_close(&w, '}');
	request_answer(r, 200);
}

void get_service_journal(struct request *r)
{
	struct err e;
	uint64_t offset, end;
	if (!answer_offset(r, &offset))
		return;
	refused_flush();
	r->answer.max = ANSWER_MAX;
	if (engine_service_journal(r->engine, offset, &r->answer, &end, &e)) {
		request_fail(r, &e);
		return;
	}
	answer_number(r->end, end);
	r->type = "application/x-ndjson";
	request_answer(r, 200);
}

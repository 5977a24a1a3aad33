// SPDX-License-Identifier: Apache-2.0
#include "api/ports.h"

#include "api/code.h"
#include "base/mem.h"

static void done_dial(void *ctx, const struct err *e, const struct outcome *o)
{
	struct request *r = ctx;
	struct jsonw w = {.b = &r->answer};
	if (e) {
		request_fail(r, e);
		return;
	}
	auto_free char *sock = engine_socket(r->engine, o->sandbox->id);
	jw_open(&w, '{');
	jw_kstr(&w, "sandbox", o->sandbox->id);
	jw_kstr(&w, "socket", sock);
	jw_kstr(&w, "ticket", o->ticket);
	jw_close(&w, '}');
	request_answer(r, 201);
}

void post_dial(struct request *r)
{
	static const char *const known[] = {NULL};
	struct err e;
	if (json_only(r->json, known, &e))
		request_fail(r, &e);
	else
		engine_dials(r->engine, r->parts[0], (struct done){done_dial, r});
}

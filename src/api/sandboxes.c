// SPDX-License-Identifier: Apache-2.0
#include "api/sandboxes.h"

#include "api/answer.h"
#include "api/auth.h"
#include "api/code.h"
#include "api/execs.h"
#include "api/once.h"
#include "base/mem.h"
#include <string.h>

// Nothing was made yet: the exec that makes the setup, and for who is on this machine a way to watch it.
static void answer_setup(struct request *r, const struct outcome *o)
{
	struct jsonw w = answer_json(r);
	jw_open(&w, '{');
	jw_key(&w, "setup");
	jw_open(&w, '{');
	jw_kstr(&w, "exec", o->setup);
	jw_kstr(&w, "file", o->setup_file);
	jw_kbool(&w, "network", !o->setup_closed);
	if (o->setup_ticket && r->who->local) {
		auto_free char *sock = engine_socket(r->engine, o->setup_box);
		jw_key(&w, "attach");
		jw_open(&w, '{');
		jw_kstr(&w, "exec", o->setup);
		jw_kstr(&w, "socket", sock);
		jw_kstr(&w, "ticket", o->setup_ticket);
		jw_close(&w, '}');
	}
	jw_close(&w, '}');
	jw_close(&w, '}');
	request_answer(r, 202);
}

static void done_create(void *ctx, const struct err *e, const struct outcome *o)
{
	struct request *r = ctx;
	struct jsonw w = answer_json(r);
	once_end(r->ctx, e, o);
	r->ctx = NULL;
	if (e) {
		request_fail(r, e);
		return;
	}
	if (o->setup) {
		answer_setup(r, o);
		return;
	}
	jw_open(&w, '{');
	encode_sandbox_members(&w, r->engine, o->sandbox);
	if (o->exec_id)
		encode_started(r, &w, o);
	encode_notices(&w, o->notices);
	jw_close(&w, '}');
	request_answer(r, 201);
}

void post_sandbox(struct request *r)
{
	struct create c = {0};
	struct err e;
	if (decode_create(r->json, &c, &e) || rights_create(r, &c, &e)) {
		create_done(&c);
		request_fail(r, &e);
		return;
	}
	struct once *once;
	if (!once_begin(r, once_replay_sandbox, &once)) {
		create_done(&c);
		return;
	}
	r->ctx = once;
	engine_create(r->engine, &c, (struct done){done_create, r});
}

struct sandboxes {
	struct listing l;
	const char *label; // K=V, or NULL
};

static void list_sandbox(void *ctx, const struct sandbox *s)
{
	struct sandboxes *all = ctx;
	struct listing *l = &all->l;
	bool fits = !all->label;
	for (char **v = s->labels; *v; v++)
		fits |= all->label && !strcmp(*v, all->label);
	if (fits && request_sees(l->r, s) && page_takes(&l->page, s->id, s->created))
		encode_sandbox(&l->w, l->r->engine, s);
}

void get_sandboxes(struct request *r)
{
	struct sandboxes all = {.label = request_query(r, "label")};
	if (!listing_page(r, "sandboxes", &all.l))
		return;
	engine_each(r->engine, list_sandbox, &all);
	listing_end(&all.l);
}

void get_sandbox(struct request *r)
{
	struct err e;
	struct jsonw w = answer_json(r);
	const struct sandbox *s = engine_get(r->engine, r->parts[0], &e);
	if (!s) {
		request_fail(r, &e);
		return;
	}
	encode_sandbox(&w, r->engine, s);
	request_answer(r, 200);
}

void delete_sandbox(struct request *r)
{
	const char *force = request_query(r, "force");
	bool forced = force && strcmp(force, "0") && strcmp(force, "false");
	engine_remove(r->engine, r->parts[0], forced, (struct done){answer_empty, r});
}

void post_start(struct request *r)
{
	if (answer_no_body(r))
		engine_start(r->engine, r->parts[0], (struct done){answer_sandbox, r});
}

void post_stop(struct request *r)
{
	if (answer_no_body(r))
		engine_stop(r->engine, r->parts[0], (struct done){answer_sandbox, r});
}

void post_pause(struct request *r)
{
	if (answer_no_body(r))
		engine_pause(r->engine, r->parts[0], true, (struct done){answer_sandbox, r});
}

void post_resume(struct request *r)
{
	if (answer_no_body(r))
		engine_pause(r->engine, r->parts[0], false, (struct done){answer_sandbox, r});
}

void post_pin(struct request *r)
{
	if (answer_no_body(r))
		engine_pin(r->engine, r->parts[0], true, (struct done){answer_sandbox, r});
}

void post_unpin(struct request *r)
{
	if (answer_no_body(r))
		engine_pin(r->engine, r->parts[0], false, (struct done){answer_sandbox, r});
}
